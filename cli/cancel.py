"""`cotenant cancel`: end jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cli.connection import connect, manager_option

if TYPE_CHECKING:
    from manager.wire.models import JobView


@click.command(short_help="End jobs, waiting or running.")
@click.argument("jobs", metavar="JOB...", nargs=-1, required=True)
@manager_option
def cancel(jobs: tuple[str, ...], manager_url: str | None) -> int:
    """End jobs: one that waits ends at once, one that runs is asked first and killed after its grace.

    A job that has ended already stays as it is.  Unknown ids are named, and the others
    are cancelled.

    \b
    Examples:
      cotenant cancel job-1
      cotenant cancel $(cotenant queue --tenant vision -o json | jq -r '.[].job_id')
    """  # noqa: D301 - click reads the backspace character
    from placement.lifecycle import ENDED
    from placement.model import NotFound

    missing = 0
    with connect(manager_url) as client:
        for job_id in jobs:
            try:
                before = client.job(job_id)
                # Once ended, a job stays as it is: the answer alone would not tell whose cancelling it was.
                job = before if before.state in ENDED else client.cancel(job_id)
            except NotFound as error:
                missing += 1
                click.echo(f"cotenant: {error}", err=True)
                continue
            click.echo(f"{job_id} {_fate(before, job)}")
    return 1 if missing else 0


def _fate(before: JobView, job: JobView) -> str:
    """What the cancelling came to."""
    from placement.lifecycle import ENDED, JobState

    if job.state not in ENDED:
        return "is being cancelled"
    if before.state in ENDED or job.state is not JobState.CANCELLED:
        return f"had ended already: {job.state.value}"
    return "cancelled"
