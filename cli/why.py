"""`cotenant why`: a decision explains itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cli.connection import connect, manager_option
from cli.tables import Align, Column, Listing, narrow_output_option

if TYPE_CHECKING:
    from manager.wire.models import ExplanationView, JobView

OUTCOMES = {
    "no-fit": "fits nowhere now",
    "preempt": "fits if running jobs make room",
    "repartition": "fits if others are moved, and that is worth it",
    "fit": "fits now",
}
CLAIMS = {
    "preempt": "starts when the jobs that make room have left",
    "repartition": "starts when the jobs that are moved for it have left",
}


@click.command(short_help="Say why a job waits, or why it was placed where it is.")
@click.argument("job")
@narrow_output_option
@manager_option
def why(job: str, output: str, manager_url: str | None) -> None:
    """Say why JOB waits, with counted reasons; or why it was placed there, with the prediction.

    \b
    Examples:
      cotenant why job-1
      cotenant why job-1 -o json
    """  # noqa: D301 - click reads the backspace character
    from cli.job_columns import model_json
    from cli.tables import Format, show_json

    with connect(manager_url) as client:
        view = client.job(job)
        explanation = client.explanation(job)
    if Format(output) is Format.JSON:
        show_json(model_json(explanation))
    else:
        click.echo("\n".join(explained(view, explanation)))


def explained(job: JobView, explanation: ExplanationView) -> list[str]:
    """The explanation as lines: what is the case, then the reasons, most frequent first."""
    from cli.failures import one_line
    from cli.tables import plain_table
    from cli.texts import count_text

    lines = [_headline(job)]
    if job.assignments and explanation.candidates:
        lines.append(f"candidates: {count_text(explanation.candidates, 'node')} could have held it")
    if job.state.value == "placed":
        lines.append(f"outcome: {explanation.outcome} ({CLAIMS.get(explanation.outcome, 'starts soon')})")
    if job.state.value == "queued":
        lines.append(
            f"outcome: {explanation.outcome} ({OUTCOMES.get(explanation.outcome, explanation.outcome)})"
        )
    note = one_line(explanation.note)
    # Of a job that was never placed, the first line has said how it ended.
    if note and not lines[0].endswith(note):
        lines.append(f"note: {note}")
    if job.assignments:
        lines.extend(_promise(job, explanation))
    if explanation.reasons:
        lines += ["", "ruled out:" if job.assignments else "because:"]
        lines += [f"  {line}" for line in plain_table(_reason_listing(job, explanation)).splitlines()]
    return lines


def _headline(job: JobView) -> str:
    from cli.failures import one_line
    from cli.texts import place_text, request_text, shares_text

    asks = request_text(job.request) if job.workers == 1 else f"{job.workers} x {request_text(job.request)}"
    if job.assignments:
        verb = "ran" if job.ended_s is not None else "is"
        return (
            f"job {job.job_id} ({asks}) {verb} on {place_text(job)}, holding {shares_text(job) or 'no GPU'}"
        )
    if job.state.value == "queued":
        place = "" if job.position is None else f", {job.position} ahead of it in the queue"
        return f"job {job.job_id} ({asks}) waits{place}"
    failure = f": {one_line(job.failure)}" if job.failure else ""
    return f"job {job.job_id} ({asks}) was never placed; it is {job.state.value}{failure}"


def _promise(job: JobView, explanation: ExplanationView) -> list[str]:
    from cli.texts import neighbours_text, slowdown_text

    predicted, upper = explanation.predicted_slowdown, explanation.predicted_upper
    if predicted is None:
        predicted, upper = job.predicted_slowdown, job.predicted_upper
    accepted = job.request.max_slowdown
    return [
        f"predicted slowdown: {slowdown_text(predicted)}, at most {slowdown_text(upper)}"
        if predicted is not None
        else "predicted slowdown: unknown",
        f"observed slowdown: {slowdown_text(job.observed_slowdown)}",
        "accepted slowdown: any" if accepted is None else f"accepted slowdown: {accepted:g}x",
        f"neighbours: {neighbours_text(job, None if job.ended_s is not None else explanation.neighbours)}",
    ]


def _reason_listing(job: JobView, explanation: ExplanationView) -> Listing[tuple[str, int]]:
    from cli.texts import count_text
    from placement.model import Reason

    # All other reasons are counted by GPU, or by node for a job that asks for none.
    things = {
        Reason.GANG.value: "worker",
        Reason.TOGETHER.value: "worker",
        Reason.ORDER.value: "job",
        Reason.PRICE.value: "place",
        Reason.NO_NODES.value: "cluster",
    }
    usual = "GPU" if job.request.gpus else "node"
    counted = sorted(explanation.reasons.items(), key=lambda item: (-item[1], item[0]))
    columns: list[Column[tuple[str, int]]] = [
        Column("COUNT", lambda item: count_text(item[1], things.get(item[0], usual)), Align.RIGHT),
        Column("REASON", lambda item: item[0]),
    ]
    return Listing(columns, counted, lambda item: item, "no reasons")
