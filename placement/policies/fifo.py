"""First come, first served, and nobody overtakes."""

from __future__ import annotations

from placement.model import Job


class Fifo:
    """Strict order of submission: while the first does not fit, the others wait behind it."""

    name = "fifo"
    source = "textbook"
    strict = True
    preemptive = False
    rank_per_s = 0.0
    knows_durations = False

    def rank(self, job: Job, remaining_s: float | None) -> float:
        """All equal: submission time decides."""
        return 0.0
