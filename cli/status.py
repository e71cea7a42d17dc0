"""`cotenant status`: one job in full."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from cli.connection import connect, manager_option
from cli.tables import output_option

if TYPE_CHECKING:
    from manager.wire.models import AssignmentView, JobEvent, JobView


@click.command(short_help="Show one job in full.")
@click.argument("job")
@output_option
@manager_option
def status(job: str, output: str, manager_url: str | None) -> None:
    """Show JOB in full: what it asks for, where it runs, with whom, how fast, and its life so far.

    \b
    Examples:
      cotenant status job-1
      cotenant status job-1 -o wide     # with its command, its variables and GPU UUIDs
      cotenant status job-1 -o json
    """  # noqa: D301 - click reads the backspace character
    from cli.job_columns import model_json
    from cli.tables import Format, show_json
    from placement.lifecycle import HOLDING

    with connect(manager_url) as client:
        view = client.job(job)
        events = client.events(job)
        now = client.explanation(job) if view.state in HOLDING else None
    form = Format(output)
    if form is Format.JSON:
        show_json(model_json(view) | {"events": [model_json(event) for event in events]})
        return
    if now is not None:
        # The job's own prediction is that of its placement; neighbours have come and gone since.
        view = view.model_copy(
            update={"predicted_slowdown": now.predicted_slowdown, "predicted_upper": now.predicted_upper}
        )
    present = None if now is None else now.neighbours
    click.echo("\n".join([*job_lines(view, present, wide=form is Format.WIDE), *_life(view, events)]))


def job_lines(job: JobView, present: Sequence[str] | None, *, wide: bool) -> list[str]:
    """Name and value of each thing that is known, one a line; ``present`` are the neighbours of today."""
    from cli.failures import one_line
    from cli.tables import NOTHING

    pairs = [*_what(job, present), *_outcome(job), *(_submission(job) if wide else ())]
    pairs += [("", "")] if job.assignments else []
    width = max(len(name) for name, _ in pairs)
    lines = [f"{name + ':':<{width + 1}} {one_line(value or NOTHING)}" for name, value in pairs if name]
    return lines + [line for assignment in job.assignments for line in _assignment(assignment, wide=wide)]


def _what(job: JobView, present: Sequence[str] | None) -> Iterator[tuple[str, str | None]]:
    from cli.texts import neighbours_text, prediction_text, request_text, slowdown_text

    yield "job", job.job_id
    yield "name", job.name
    yield "tenant", job.tenant
    yield "state", job.state.value
    yield "attempt", str(job.attempt)
    yield "asks for", request_text(job.request) + ("" if job.workers == 1 else f", {job.workers} workers")
    yield "profile", job.profile
    yield "predicted slowdown", prediction_text(job)
    yield "observed slowdown", slowdown_text(job.observed_slowdown)
    yield "neighbours", neighbours_text(job, present)


def _outcome(job: JobView) -> Iterator[tuple[str, str | None]]:
    from cli.texts import count_text, exit_text

    if job.step is not None:
        rate = "" if job.steps_per_s is None else f" ({job.steps_per_s:.1f} steps/s)"
        yield "step", f"{job.step}{rate}"
    if job.preemptions or job.moves or job.retries_used:
        times = f"{count_text(job.preemptions, 'preemption')}, {count_text(job.moves, 'move')}"
        yield "interruptions", f"{times}, {job.retries_used} of {job.retries} retries"
    if job.ended_s is not None:
        yield "exit status", exit_text(job)
    if job.failure:
        yield "failure", job.failure


def _submission(job: JobView) -> Iterator[tuple[str, str | None]]:
    import shlex

    from cli.texts import duration_text

    yield "kind", job.kind.value
    yield "priority", str(job.priority)
    yield "preemptible", "yes" if job.preemptible else "no"
    yield "time limit", None if job.time_limit_s is None else duration_text(job.time_limit_s)
    yield "isolation", job.request.isolation.value
    yield "command", shlex.join(job.command)
    yield "directory", job.workdir
    yield "variables", " ".join(f"{name}={value}" for name, value in sorted(job.env.items()))


def _assignment(assignment: AssignmentView, *, wide: bool) -> Iterator[str]:
    from cli.failures import one_line
    from cli.texts import share_text

    yield f"worker {assignment.worker} on {assignment.node_id}:"
    for share in assignment.shares:
        identity = f"  {share.gpu_uuid}" if wide else ""
        yield one_line(f"{share_text(share)} of {share.gpu_model or 'a GPU'}{identity}").join(("  ", ""))


def _life(job: JobView, events: Sequence[JobEvent]) -> list[str]:
    """The moves so far, in seconds since submission."""
    from cli.failures import one_line

    lines = ["life:"]
    for event in events:
        since_s = max(0.0, event.at_s - job.submit_s)
        note = f"  {one_line(event.note)}" if event.note else ""
        attempt = f"  attempt {event.attempt}" if event.attempt else ""
        lines.append(f"  {since_s:>8.1f} s  {event.after.value}{attempt}{note}")
    return lines if events else []
