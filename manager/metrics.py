"""The metrics of all jobs of this database, by the same functions as a simulated run's."""

from __future__ import annotations

from manager.services import Services
from manager.store import JobFilter, StoredJob
from placement.lifecycle import ACTIVE, JobState
from placement.model import WHOLE_GPU_MILLI
from placement.report import JobOutcome, Measured, Metrics, RunCounters, metrics_of, outcome_of


def metrics(services: Services) -> Metrics:
    """Metrics up to now; a job that still runs counts with what it has held and served so far.

    Raises:
        OperationFailed: the store refuses.
    """
    now_s = services.clock.now_s()
    queries = services.store.queries
    gpus = sum(len(stored.node.gpus) for stored in queries.nodes())
    outcomes = [outcome(stored, now_s) for stored in queries.jobs(JobFilter())]
    events, decisions = services.loop.ask(lambda scheduler: (scheduler.events, scheduler.decisions))
    counters = RunCounters(events=events, decisions=decisions, wall_s=services.loop.counters.core_s)
    return metrics_of(outcomes, gpus * WHOLE_GPU_MILLI, counters, now_s)


def outcome(stored: StoredJob, now_s: float) -> JobOutcome:
    """What became of one job so far."""
    measured = Measured(
        gpu_milli=sum(share.compute_milli for worker in stored.placed for share in worker.shares),
        served_s=_served_s(stored, now_s),
        slowdown=stored.progress.observed_slowdown,
    )
    return outcome_of(stored.record, measured, now_s)


def _served_s(stored: StoredJob, now_s: float) -> float | None:
    """Solo-equivalent seconds of all attempts, whatever became of them; None if none was measured.

    Of the attempt that is under way there is an estimate: the time it has run so far at the speed that its
    progress shows.
    """
    record, slowdown = stored.record, stored.progress.observed_slowdown
    under_way = record.attempt if record.state in ACTIVE else None
    parts = [served_s for attempt, served_s in stored.served_s.items() if attempt != under_way]
    if record.state is JobState.RUNNING and record.placed_s is not None and slowdown is not None:
        parts.append((now_s - record.placed_s) / slowdown)
    return sum(parts) if parts else None
