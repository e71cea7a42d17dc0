"""How tests wait: they look for a condition until a deadline, and never just sleep."""

from __future__ import annotations

import time
from collections.abc import Callable

LOOK_S = 0.01


def until(
    condition: Callable[[], object], what: str = "it did not happen in time", within_s: float = 60.0
) -> None:
    """Wait until a condition holds; a test fails with ``what`` if that takes longer than ``within_s``."""
    deadline_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline_s, what
        time.sleep(LOOK_S)
