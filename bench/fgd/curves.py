"""What a run showed as a curve over the load that has arrived, and medians of several runs.

After the artifact (``experiments/analysis/merge_*_discrete.py``): one line after every pod that arrived,
whether it was placed or not; a point of the curve is the mean of the lines whose arrived load rounds to it.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bench.fgd.inputs import Measure

POINTS_PCT = (60, 80, 95, 100, 120, 130)

Curve = Mapping[Measure, Mapping[int, float | None]]


@dataclass(slots=True)
class Lines:
    """One line after every pod, in thousandths."""

    arrived: list[int] = field(default_factory=list)
    allocated: list[int] = field(default_factory=list)
    fragmented: list[float] = field(default_factory=list)

    def curve(self, capacity_milli: int) -> Curve:
        """All measures in percent at ``POINTS_PCT``; None where no load rounds to the point."""
        allocated, fragmented = np.array(self.allocated), np.array(self.fragmented)
        idle = capacity_milli - allocated
        values = {
            # The published lines are rounded to two digits before their mean is taken.
            Measure.ALLOCATION: np.round(100 * allocated / capacity_milli, 2),
            Measure.FRAGMENTED: 100 * fragmented / capacity_milli,
            Measure.FRAGMENT_RATIO: 100 * fragmented / np.maximum(idle, 1),
        }
        arrived_pct = np.rint(100 * np.array(self.arrived) / capacity_milli)
        return {
            measure: {point: _mean_at(point, arrived_pct, lines) for point in POINTS_PCT}
            for measure, lines in values.items()
        }


def _mean_at(point: int, arrived_pct: Any, lines: Any) -> float | None:
    for reach in (0, 1):
        near = np.abs(arrived_pct - point) <= reach
        if near.any():
            return float(lines[near].mean())
    return None


def median_curve(curves: Sequence[Curve]) -> Curve:
    """The median of some runs, point by point."""
    return {
        measure: {point: _median(curve[measure][point] for curve in curves) for point in POINTS_PCT}
        for measure in Measure
    }


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
