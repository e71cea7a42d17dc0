"""The columns in which jobs are listed, by `queue`, `top` and the demonstration alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cli.tables import Align, Column, Listing
from cli.texts import (
    duration_text,
    exit_text,
    place_text,
    prediction_text,
    request_text,
    shares_text,
    slowdown_text,
)

if TYPE_CHECKING:
    from manager.wire.models import JobView


def job_listing(jobs: Sequence[JobView], now_s: float) -> Listing[JobView]:
    """The listing of jobs; ``now_s`` is the manager's time in unix seconds, for the ages."""
    columns: list[Column[JobView]] = [
        Column("JOB", lambda job: job.job_id),
        Column("NAME", lambda job: job.name),
        Column("TENANT", lambda job: job.tenant),
        Column("STATE", lambda job: job.state.value),
        Column("AGE", lambda job: _age(job, now_s), Align.RIGHT),
        Column("ASKS", _asks, flexible=True),
        Column("NODE", place_text, flexible=True),
        Column("HOLDS", shares_text, flexible=True),
        Column("STEP", lambda job: None if job.step is None else str(job.step), Align.RIGHT),
        Column("PREDICTED", _predicted, wide=True),
        Column(
            "OBSERVED",
            lambda job: slowdown_text(job.observed_slowdown) if job.assignments else None,
            wide=True,
        ),
        Column("SHARED WITH", lambda job: ", ".join(job.neighbours), wide=True, flexible=True),
        Column("PRIORITY", lambda job: str(job.priority), Align.RIGHT, wide=True),
        Column("KIND", lambda job: job.kind.value, wide=True),
        Column("ATTEMPT", lambda job: str(job.attempt), Align.RIGHT, wide=True),
        Column("EXIT", exit_text, Align.RIGHT, wide=True),
        Column("COMMAND", lambda job: " ".join(job.command), wide=True, flexible=True),
    ]
    return Listing(columns, jobs, model_json, "no jobs")


def model_json(model: Any) -> Any:
    """A wire model as JSON holds it."""
    return model.model_dump(mode="json")


def _asks(job: JobView) -> str:
    workers = "" if job.workers == 1 else f"{job.workers} workers of "
    return workers + request_text(job.request)


def _predicted(job: JobView) -> str | None:
    return prediction_text(job) if job.assignments else None


def _observed(job: JobView) -> str | None:
    return slowdown_text(job.observed_slowdown) if job.assignments else None


def _age(job: JobView, now_s: float) -> str:
    """Since submission while it waits and runs; from submission to end afterwards."""
    return duration_text((now_s if job.ended_s is None else job.ended_s) - job.submit_s)
