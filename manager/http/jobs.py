"""Routes about jobs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from manager.admission import check_names
from manager.http import views
from manager.http.parameters import IdempotencyKey, JobId, Offset, Serving
from manager.services import Services
from manager.store import JobFilter, Submission
from manager.wire.fields import IDENTIFIER
from manager.wire.models import ExplanationView, JobEvent, JobSpec, JobView, LogChunk
from placement.lifecycle import JobState

router = APIRouter(prefix="/jobs", tags=["jobs"])

SEEN_WITHIN_S = 1.0
"""How long an answer waits for the scheduler to look at what was accepted, so that it tells the outcome.

It is durable by then; if the scheduler takes longer, the answer shows the job as it was accepted.
"""


@router.post("", status_code=201)
def submit(spec: JobSpec, serving: Serving, idempotency_key: IdempotencyKey = None) -> JobView:
    """Accept a job; the same ``Idempotency-Key`` twice gives the same job."""
    queries = serving.store.queries
    nodes = [stored.node for stored in queries.nodes()]
    check_names(spec, nodes, [profile.name for profile in queries.profiles()])
    receipt = serving.store.intake.submit(Submission(spec, serving.clock.now_s(), idempotency_key))
    serving.loop.wake()
    serving.loop.wait_for(receipt.sequence, SEEN_WITHIN_S)
    return _view(serving, receipt.job_id)


@router.get("")
def jobs(
    serving: Serving,
    state: JobState | None = None,
    tenant: Annotated[str | None, Query(pattern=IDENTIFIER)] = None,
    ended: bool | None = None,
    limit: Annotated[int | None, Query(ge=1, le=1_000_000)] = None,
) -> list[JobView]:
    """Jobs in the order of submission, those that have (not) ended if asked; with a limit the latest ones."""
    queries = serving.store.queries
    models = views.gpu_models(queries.nodes())
    positions = views.queue_positions(serving)
    found = queries.jobs(JobFilter(state, tenant, limit, ended))
    return [views.job_view(stored, models, positions) for stored in found]


@router.get("/{job_id}")
def job(job_id: JobId, serving: Serving) -> JobView:
    """One job."""
    return _view(serving, job_id)


@router.post("/{job_id}/cancel")
def cancel(job_id: JobId, serving: Serving) -> JobView:
    """Ask for the end of a job; an ended one stays as it is."""
    receipt = serving.store.intake.cancel(job_id)
    serving.loop.wake()
    serving.loop.wait_for(receipt.sequence, SEEN_WITHIN_S)
    return _view(serving, job_id)


@router.get("/{job_id}/explanation")
def explanation(job_id: JobId, serving: Serving) -> ExplanationView:
    """Why a job waits, or why it was placed where it is."""
    return views.explain(serving, job_id)


@router.get("/{job_id}/logs")
def logs(
    job_id: JobId,
    serving: Serving,
    worker: Annotated[int, Query(ge=0, le=100_000)] = 0,
    attempt: Annotated[int | None, Query(ge=1, le=1_000_000)] = None,
    offset: Offset = 0,
) -> LogChunk:
    """Output of a worker from ``offset`` on, of the latest attempt unless given."""
    return views.log_chunk(serving, (job_id, attempt, worker), offset)


@router.get("/{job_id}/events")
def events(job_id: JobId, serving: Serving) -> list[JobEvent]:
    """The life of a job so far."""
    return [
        JobEvent(
            sequence=stored.sequence,
            job_id=stored.transition.job_id,
            attempt=stored.transition.attempt,
            before=stored.transition.before,
            after=stored.transition.after,
            at_s=stored.transition.at_s,
            note=stored.transition.note,
        )
        for stored in serving.store.queries.story(job_id)
    ]


def _view(serving: Services, job_id: str) -> JobView:
    queries = serving.store.queries
    stored = queries.job(job_id)
    waits = stored.record.state is JobState.QUEUED
    positions = views.queue_positions(serving) if waits else {}
    return views.job_view(stored, views.gpu_models(queries.nodes()), positions)
