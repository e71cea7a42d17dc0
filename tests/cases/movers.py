"""Placements that move others, for tests: registered under names of their own."""

from __future__ import annotations

from placement.policies import PLACEMENTS, register
from placement.policies.best_fit import BestFit


class Moving(BestFit):
    """Best fit that has others moved for a job that fits nowhere."""

    name = "moving"
    repartitions = True


if "moving" not in PLACEMENTS:
    register("moving", placement=Moving)
