"""The metrics of all jobs of this database, by the same function as a simulated run's."""

from __future__ import annotations

from manager.services import Services
from manager.store import JobFilter, StoredJob
from placement.lifecycle import HOLDING, JobState
from placement.model import WHOLE_GPU_MILLI
from placement.report import JobOutcome, Metrics, RunCounters, metrics_of


def metrics(services: Services) -> Metrics:
    """Metrics up to now; a job that still runs counts with what it has held so far.

    Raises:
        OperationFailed: the store refuses.
    """
    now_s = services.clock.now_s()
    queries = services.store.queries
    gpus = sum(len(stored.node.gpus) for stored in queries.nodes())
    outcomes = [_outcome(stored, now_s) for stored in queries.jobs(JobFilter())]
    events, decisions = services.loop.ask(lambda scheduler: (scheduler.events, scheduler.decisions))
    counters = RunCounters(events=events, decisions=decisions, wall_s=services.loop.counters.core_s)
    return metrics_of(outcomes, gpus * WHOLE_GPU_MILLI, counters, now_s)


def _outcome(stored: StoredJob, now_s: float) -> JobOutcome:
    record = stored.record
    job = record.job
    held_s = record.held_s
    if record.state in HOLDING and record.state is not JobState.PLACED and record.placed_s is not None:
        held_s += now_s - record.placed_s
    return JobOutcome(
        job_id=job.job_id,
        tenant=job.tenant,
        state=record.state,
        submit_s=job.submit_s,
        first_placed_s=record.first_placed_s,
        ended_s=record.ended_s,
        gpu_milli=sum(share.compute_milli for worker in stored.placed for share in worker.shares),
        held_s=held_s,
        # Nothing served and nothing measured look alike in the record; who measures, serves something.
        served_s=record.served_s or None,
        slowdown=stored.progress.observed_slowdown,
        max_slowdown=job.request.max_slowdown,
        preemptions=record.preemptions,
    )
