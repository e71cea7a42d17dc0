"""The fence of a shim: without contact to the manager for too long, its job may run elsewhere by now."""

from __future__ import annotations

import os
import time

MOST_LATENESS_S = 10.0
"""How old a new contact may look when it is seen; more is a clock that was set."""


class Fence:
    """Watches the lease file, which the agent touches after every contact with the manager.

    Ages are measured on a clock that is never set and counts suspended time; the file's own time is used only
    for how long ago a contact was.  The first one seen may be as old as it likes: a job must not begin to run
    where an agent comes back after a long absence.
    """

    def __init__(self, lease_path: str | None, fence_s: float | None) -> None:
        self._path = lease_path
        self._fence_s = fence_s
        self._seen_ns = -1
        self._contact_s = _now_s()

    def late_s(self) -> float | None:
        """Seconds without contact once they are too many, else None."""
        if self._path is None or self._fence_s is None:
            return None
        try:
            touched_ns = os.stat(self._path).st_mtime_ns
        except OSError:
            touched_ns = self._seen_ns
        if touched_ns != self._seen_ns:
            first = self._seen_ns < 0
            self._seen_ns = touched_ns
            age_s = max(0.0, time.time() - touched_ns / 1e9)
            self._contact_s = _now_s() - (age_s if first else min(age_s, MOST_LATENESS_S))
        silent_s = _now_s() - self._contact_s
        return silent_s if silent_s > self._fence_s else None


def _now_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)
