"""The manager's time, handed to whoever needs it."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Gives unix seconds that never go back."""

    def now_s(self) -> float:
        """Now, in unix seconds."""


class SteadyClock:
    """The wall clock at the start plus the time that has passed since, whatever is done to the wall clock.

    ``floor_s`` is the latest time that an earlier process has written down: time does not go back over a
    restart either.
    """

    def __init__(self, floor_s: float = 0.0) -> None:
        self._base_s = max(time.time(), floor_s) - time.monotonic()

    def now_s(self) -> float:
        """Now, in unix seconds."""
        return self._base_s + time.monotonic()
