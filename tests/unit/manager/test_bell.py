from __future__ import annotations

import asyncio
import threading

from manager.dispatch import Bell


async def heard(bell: Bell, node_id: str, ring: object, within_s: float = 5.0) -> bool:
    with bell.listen(node_id) as rung:
        ring()  # type: ignore[operator]
        try:
            await asyncio.wait_for(rung.wait(), within_s)
        except TimeoutError:
            return False
        return True


def in_a_thread(action: object) -> None:
    thread = threading.Thread(target=action)  # type: ignore[arg-type]
    thread.start()
    thread.join()


def test_a_poll_hears_its_node_from_another_thread_and_no_other_node() -> None:
    bell = Bell()
    assert asyncio.run(heard(bell, "node-a", lambda: in_a_thread(lambda: bell.ring(["node-a"]))))
    assert not asyncio.run(heard(bell, "node-a", lambda: bell.ring(["node-b"]), within_s=0.05))


def test_a_ring_that_nobody_hears_is_forgotten_and_listeners_leave_nothing_behind() -> None:
    bell = Bell()
    bell.ring(["node-a"])
    assert not asyncio.run(heard(bell, "node-a", lambda: None, within_s=0.05))
    assert dict(bell._listeners) == {}


def test_closing_wakes_those_who_listen_and_all_who_come_later() -> None:
    bell = Bell()
    assert asyncio.run(heard(bell, "node-a", lambda: in_a_thread(bell.close)))
    assert asyncio.run(heard(bell, "node-b", lambda: None))
    assert bell.closed


def test_a_signal_may_close_it_while_a_poll_is_entering() -> None:
    bell = Bell()
    with bell._lock:  # the handler runs in the same thread
        bell.close()
    assert bell.closed
