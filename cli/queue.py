"""`cotenant queue`: the jobs that wait and run."""

from __future__ import annotations

import click

from cli.connection import connect, manager_option
from cli.tables import output_option

STATES = (
    "queued",
    "placed",
    "starting",
    "running",
    "stopping",
    "succeeded",
    "failed",
    "cancelled",
    "rejected",
)
"""The states of a job, for completion without importing the core; a test compares them with it."""


@click.command(short_help="List the jobs that wait and run.")
@click.option("-a", "--all", "ended_too", is_flag=True, help="Jobs that have ended, too.")
@click.option("--state", type=click.Choice(STATES), help="Only jobs of this state.")
@click.option("--tenant", help="Only jobs of this tenant.")
@output_option
@manager_option
def queue(
    ended_too: bool, state: str | None, tenant: str | None, output: str, manager_url: str | None
) -> None:
    """List jobs in the order of submission: those that wait and run, or all with -a.

    \b
    Examples:
      cotenant queue
      cotenant queue --all --tenant vision -o wide
      cotenant queue --state queued -o json
    """  # noqa: D301 - click reads the backspace character
    from cli.job_columns import job_listing
    from cli.tables import show
    from placement.lifecycle import JobState

    with connect(manager_url) as client:
        wanted = JobState(state) if state else None
        # Left out by the manager: most jobs of a long life have ended, and nobody wants them sent.
        jobs = client.jobs(wanted, tenant, ended=None if ended_too or wanted else False)
        now_s = client.info().now_s
    show(job_listing(jobs, now_s), output)
