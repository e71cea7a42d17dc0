"""Shortest remaining time first, with preemption."""

from __future__ import annotations

import math

from placement.model import Job


class Srtf:
    """The job with the least solo run time left goes first and may take the place of longer ones.

    Jobs of unknown duration come last, in the order of submission; a stated time limit serves as their
    estimate.
    """

    name = "srtf"
    source = "textbook"
    strict = False
    preemptive = True
    rank_per_s = -1.0
    knows_durations = True

    def rank(self, job: Job, remaining_s: float | None) -> float:
        """Remaining solo seconds."""
        if remaining_s is not None:
            return remaining_s
        return math.inf if job.time_limit_s is None else job.time_limit_s
