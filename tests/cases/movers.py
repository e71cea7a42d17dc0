"""A placement that moves others, for tests; known by its name only as long as a test wants it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from placement import repartition
from placement.policies import PLACEMENTS
from placement.policies.best_fit import BestFit


class Moving(BestFit):
    """Best fit that has others moved for a job that fits nowhere."""

    name = "moving"
    repartitions = True


@contextmanager
def moving_registered(settled_s: float | None = None) -> Iterator[None]:
    """Makes `moving` a placement like others; ``settled_s`` after which a job may be moved, or as usual."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PLACEMENTS, Moving.name, Moving)
        if settled_s is not None:
            patch.setattr(repartition, "SETTLED_S", settled_s)
        yield
