"""Lifetimes of seconds instead of hours, learnt from few jobs, so that short histories are full of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from placement import lifetimes


@contextmanager
def short_lives(*limits_s: float, fewest: int = 2) -> Iterator[None]:
    """The classes below the last end at these three times."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lifetimes, "LIMITS_S", limits_s)
        patch.setattr(lifetimes, "FEWEST", fewest)
        yield
