"""A simpy environment whose events happen at exact times."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

import simpy
from simpy.events import Event, EventPriority

ARRIVAL, NORMAL = EventPriority(0), EventPriority(1)
"""Priorities of events of the same time."""


class Environment(simpy.Environment):
    """Schedules by absolute time.

    simpy adds a delay to the present time; ``now + (at - now)`` may miss ``at`` by a rounding, and a job
    would then seem to be placed before it was submitted.
    """

    def at(self, at_s: float, priority: EventPriority, callback: Callable[[Event], None]) -> Event:
        """Call back at this time; the event is returned so that the callback can tell it from a later one."""
        event = Event(self)
        event._ok = True
        event._value = None
        event.callbacks = [callback]
        heappush(self._queue, (at_s, priority, next(self._eid), event))
        return event

    def advance(self) -> bool:
        """Let all happen that happens next at one time; False when nothing is left.

        It does what simpy's own step does, without asking whether events failed: those of :meth:`at` cannot.
        """
        queue = self._queue
        if not queue:
            return False
        self._now = next_s = queue[0][0]
        while queue and queue[0][0] == next_s:
            event = heappop(queue)[3]
            callbacks = event.callbacks
            event.callbacks = None  # type: ignore[assignment] # simpy's mark of what has happened
            for callback in callbacks:
                callback(event)
        return True
