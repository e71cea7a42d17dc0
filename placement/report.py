"""The metrics of a run: one function for live and simulated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from placement.lifecycle import ACTIVE, JobRecord, JobState
from placement.model.frozen import made_often


@made_often
@dataclass(frozen=True, slots=True)
class JobOutcome:
    """What became of one job.

    ``gpu_milli`` is what all its workers hold together; ``held_s`` the time it held that, ``served_s`` the
    solo-equivalent seconds of work done (None if not measured); ``slowdown`` is observed (None if unknown).
    """

    job_id: str
    tenant: str
    state: JobState
    submit_s: float
    first_placed_s: float | None
    ended_s: float | None
    gpu_milli: int
    held_s: float
    served_s: float | None
    slowdown: float | None
    max_slowdown: float | None
    preemptions: int
    moves: int = 0


@made_often
@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured of a job, live or simulated; see :class:`JobOutcome` for the units."""

    gpu_milli: int = 0
    served_s: float | None = None
    slowdown: float | None = None


def outcome_of(record: JobRecord, measured: Measured, now_s: float) -> JobOutcome:
    """The outcome of a job so far; one that still runs counts with what it has held until now."""
    job = record.job
    held_s = record.held_s
    if record.state in ACTIVE and record.placed_s is not None:
        held_s += now_s - record.placed_s
    return JobOutcome(
        job_id=job.job_id,
        tenant=job.tenant,
        state=record.state,
        submit_s=job.submit_s,
        first_placed_s=record.first_placed_s,
        ended_s=record.ended_s,
        gpu_milli=measured.gpu_milli,
        held_s=held_s,
        served_s=measured.served_s,
        slowdown=measured.slowdown,
        max_slowdown=job.request.max_slowdown,
        preemptions=record.preemptions,
        moves=record.moves,
    )


@dataclass(frozen=True, slots=True)
class RunCounters:
    """What the loop counted; the two wall times are the only values that differ between equal runs."""

    events: int
    decisions: int
    load_s: float | None = None
    wall_s: float | None = None


@dataclass(frozen=True, slots=True)
class Metrics:
    """All figures of a run; None is undefined (no job completed, nothing measured)."""

    jobs_total: int
    jobs_completed: int
    jobs_rejected: int
    avg_jct_s: float | None
    p50_jct_s: float | None
    p99_jct_s: float | None
    avg_wait_s: float | None
    p50_wait_s: float | None
    p99_wait_s: float | None
    makespan_s: float | None
    gpu_allocation_ratio: float | None
    gpu_utilisation_ratio: float | None
    mean_slowdown: float | None
    p99_slowdown: float | None
    preemptions: int
    moves: int
    promises_broken: int
    events: int
    decisions: int
    load_s: float | None
    wall_s: float | None
    decisions_per_s: float | None

    def to_dict(self) -> dict[str, int | float | None]:
        """Names and values in the declared order."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def percentile(ordered: Sequence[float], percent: int) -> float | None:
    """Nearest-rank percentile of values in ascending order; None for no values."""
    if not ordered:
        return None
    rank = -(-len(ordered) * percent // 100)
    return ordered[max(rank, 1) - 1]


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _held_and_served(outcomes: Sequence[JobOutcome], span: float) -> tuple[float | None, float | None]:
    """GPU-time held and delivered as parts of what there was; None where nothing was, or was measured."""
    if span <= 0:
        return None, None
    served = [o.gpu_milli * o.served_s for o in outcomes if o.served_s is not None]
    held = sum(o.gpu_milli * o.held_s for o in outcomes)
    return held / span, sum(served) / span if served else None


def _broke_its_promise(outcome: JobOutcome) -> bool:
    slowdown, accepted = outcome.slowdown, outcome.max_slowdown
    return slowdown is not None and accepted is not None and slowdown > accepted


def metrics_of(
    outcomes: Sequence[JobOutcome], capacity_gpu_milli: int, counters: RunCounters, end_s: float
) -> Metrics:
    """The metrics of a run.

    JCT is end minus submission and wait is first placement minus submission, over jobs that succeeded.
    Makespan is from the first submission to the last end.  Allocation is GPU-time held, utilisation is
    solo-equivalent GPU-time delivered, both over capacity x (``end_s`` - first submission).
    """
    completed = [o for o in outcomes if o.state is JobState.SUCCEEDED and o.ended_s is not None]
    jct = sorted(o.ended_s - o.submit_s for o in completed if o.ended_s is not None)
    wait = sorted(o.first_placed_s - o.submit_s for o in completed if o.first_placed_s is not None)
    slowdowns = sorted(o.slowdown for o in outcomes if o.slowdown is not None)
    begin_s = min((o.submit_s for o in outcomes), default=0.0)
    ends = [o.ended_s for o in outcomes if o.ended_s is not None and o.state is not JobState.REJECTED]
    allocation, utilisation = _held_and_served(outcomes, capacity_gpu_milli * (end_s - begin_s))
    wall_s = counters.wall_s
    return Metrics(
        jobs_total=len(outcomes),
        jobs_completed=len(completed),
        jobs_rejected=sum(o.state is JobState.REJECTED for o in outcomes),
        avg_jct_s=_mean(jct),
        p50_jct_s=percentile(jct, 50),
        p99_jct_s=percentile(jct, 99),
        avg_wait_s=_mean(wait),
        p50_wait_s=percentile(wait, 50),
        p99_wait_s=percentile(wait, 99),
        makespan_s=max(ends) - begin_s if ends else None,
        gpu_allocation_ratio=allocation,
        gpu_utilisation_ratio=utilisation,
        mean_slowdown=_mean(slowdowns),
        p99_slowdown=percentile(slowdowns, 99),
        preemptions=sum(o.preemptions for o in outcomes),
        moves=sum(o.moves for o in outcomes),
        promises_broken=sum(map(_broke_its_promise, outcomes)),
        events=counters.events,
        decisions=counters.decisions,
        load_s=counters.load_s,
        wall_s=wall_s,
        decisions_per_s=counters.decisions / wall_s if wall_s else None,
    )
