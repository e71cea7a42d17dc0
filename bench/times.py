"""How long a job of a simulation took and waited; one that has not ended is a mistake of the workload."""

from __future__ import annotations

from placement.report import JobOutcome


def jct_s(outcome: JobOutcome) -> float:
    """From submission to end."""
    return _ended_s(outcome) - outcome.submit_s


def wait_s(outcome: JobOutcome) -> float:
    """From submission to the first placement."""
    first_s = outcome.first_placed_s
    return (_ended_s(outcome) if first_s is None else first_s) - outcome.submit_s


def _ended_s(outcome: JobOutcome) -> float:
    if outcome.ended_s is None:
        raise SystemExit(f"{outcome.job_id} has not ended: the cluster cannot hold it")
    return outcome.ended_s
