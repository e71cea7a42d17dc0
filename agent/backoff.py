"""How long to wait before the next try: longer each time, never in step with the other agents."""

from __future__ import annotations

import random


class Backoff:
    """Waits that double from ``first_s`` to ``most_s``, each cut to a random part of itself."""

    def __init__(self, draw: random.Random, first_s: float = 0.1, most_s: float = 5.0) -> None:
        self._draw = draw
        self._first_s = self._wait_s = first_s
        self._most_s = most_s

    def reset(self) -> None:
        """It worked: the next wait is short again."""
        self._wait_s = self._first_s

    def next_s(self) -> float:
        """Seconds to wait now."""
        wait_s, self._wait_s = self._wait_s, min(self._most_s, 2 * self._wait_s)
        return wait_s * self._draw.uniform(0.5, 1.0)
