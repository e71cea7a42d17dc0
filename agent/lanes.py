"""Tasks side by side: those of one lane one after another, and no lane waits for another."""

from __future__ import annotations

import logging
import threading
from collections import defaultdict, deque
from collections.abc import Callable

_LOG = logging.getLogger(__name__)
Lane = tuple[str, ...]
"""The GPUs that a task has to cut; empty for tasks that wait for none."""


class Lanes:
    """Runs tasks in threads that are left behind at the end: a driver may keep one for ever.

    Up to ``width`` tasks of the empty lane run at once, and one of every other.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._changed = threading.Condition()
        self._waiting: defaultdict[Lane, deque[Callable[[], None]]] = defaultdict(deque)
        self._threads: defaultdict[Lane, int] = defaultdict(int)
        self._closed = False

    def submit(self, lane: Lane, task: Callable[[], None]) -> None:
        """Have a task done; after :meth:`close` nothing is done any more."""
        with self._changed:
            self._waiting[lane].append(task)
            if self._closed or self._threads[lane] >= (1 if lane else self._width):
                return
            self._threads[lane] += 1
        threading.Thread(target=self._work, args=(lane,), name=f"start {lane}", daemon=True).start()

    def close(self, timeout_s: float) -> None:
        """Begin no more tasks, and wait for those that run, but not for ever."""
        with self._changed:
            self._closed = True
            self._changed.wait_for(lambda: not any(self._threads.values()), timeout_s)

    def _work(self, lane: Lane) -> None:
        while True:
            with self._changed:
                if self._closed or not self._waiting[lane]:
                    self._threads[lane] -= 1
                    self._changed.notify_all()
                    return
                task = self._waiting[lane].popleft()
            try:
                task()
            except Exception:
                _LOG.exception("%s: unexpected", threading.current_thread().name)
