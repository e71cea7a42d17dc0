"""First come, first served, but whoever fits may go ahead."""

from __future__ import annotations

from placement.model import Job


class Backfill:
    """Skip-ahead: jobs are tried in the order of submission, and one that does not fit holds nobody up.

    There are no reservations, so a large job can wait long behind a stream of small ones.
    """

    name = "backfill"
    source = "textbook"
    strict = False
    preemptive = False
    rank_per_s = 0.0
    knows_durations = False

    def rank(self, job: Job, remaining_s: float | None) -> float:
        """All equal: submission time decides."""
        return 0.0
