"""Tasks side by side, none of which may hold up another lane."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from agent.lanes import Lanes

WAIT_S = 10.0


@pytest.fixture
def hanging() -> Iterator[threading.Event]:
    """What tasks hang on until the test is over."""
    event = threading.Event()
    yield event
    event.set()


def test_a_lane_that_hangs_holds_up_itself_alone(hanging: threading.Event) -> None:
    lanes, begun, late = Lanes(1), threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        hanging.wait(WAIT_S)

    for _ in range(3):
        lanes.submit(("GPU-0",), hang)
    lanes.submit(("GPU-0",), late.set)
    assert begun.wait(WAIT_S)
    for lane in [(), ("GPU-1",), ("GPU-0", "GPU-1")]:
        done = threading.Event()
        lanes.submit(lane, done.set)
        assert done.wait(WAIT_S), lane
    assert not late.is_set()
    hanging.set()
    assert late.wait(WAIT_S)


@pytest.mark.parametrize(("lane", "at_once"), [((), 3), (("GPU-0",), 1)])
def test_the_empty_lane_alone_is_as_wide_as_was_said(lane: tuple[str, ...], at_once: int) -> None:
    lanes, done = Lanes(3), threading.Semaphore(0)
    together = threading.Barrier(at_once)
    inside: list[int] = []
    most: list[int] = []

    def task() -> None:
        inside.append(1)
        together.wait(WAIT_S)
        most.append(len(inside))
        together.wait(WAIT_S)
        inside.pop()
        done.release()

    for _ in range(6):
        lanes.submit(lane, task)
    assert all(done.acquire(timeout=WAIT_S) for _ in range(6))
    assert max(most) == at_once


def test_tasks_of_a_lane_keep_their_order_and_one_that_fails_ends_nothing() -> None:
    lanes, done, order = Lanes(1), threading.Event(), []

    def task(number: int) -> None:
        order.append(number)
        if number == 1:
            raise ZeroDivisionError("a mistake")
        if number == 3:
            done.set()

    for number in range(4):
        lanes.submit(("GPU-0",), lambda number=number: task(number))
    assert done.wait(WAIT_S)
    assert order == [0, 1, 2, 3]


def test_at_the_end_what_runs_is_waited_for_and_nothing_else_begins(hanging: threading.Event) -> None:
    lanes, begun, ran = Lanes(1), threading.Event(), []

    def first() -> None:
        begun.set()
        hanging.wait(0.2)
        ran.append("first")

    for task in (first, lambda: ran.append("second")):
        lanes.submit((), task)
    assert begun.wait(WAIT_S)
    lanes.close(WAIT_S)
    lanes.submit(("GPU-1",), lambda: ran.append("third"))
    lanes.close(WAIT_S)
    assert ran == ["first"]


@pytest.mark.timeout(10)
def test_the_end_does_not_wait_for_ever(hanging: threading.Event) -> None:
    lanes, begun = Lanes(1), threading.Event()

    def hang() -> None:
        begun.set()
        hanging.wait(60.0)

    lanes.submit((), hang)
    assert begun.wait(WAIT_S)
    lanes.close(0.05)
