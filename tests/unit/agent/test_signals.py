"""How an agent is told to end."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from agent.main import end_on_signals


@pytest.fixture(autouse=True)
def _own_handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_even_where_the_main_thread_holds_what_stopping_needs(
    number: signal.Signals,
) -> None:
    lock, stopped, got_it = threading.Lock(), threading.Event(), []

    def stop() -> None:
        got_it.append(lock.acquire(timeout=5))  # never, if this ran on top of the main thread
        stopped.set()

    end_on_signals(stop)
    with lock:
        os.kill(os.getpid(), number)
        os.kill(os.getpid(), number)  # once more does no harm
    assert stopped.wait(10)
    assert got_it == [True]
