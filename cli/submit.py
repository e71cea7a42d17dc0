"""`cotenant submit`: a job from the command line, or from a file."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from cli.connection import connect_in_time, manager_option
from cli.failures import FAILED

if TYPE_CHECKING:
    from manager.wire.client import Client
    from manager.wire.models import JobSpec, JobView, ProfileSpec

MODES = ("any", "exclusive", "mig", "mps", "timeslice")
ISOLATIONS = ("none", "tenant", "hardware")
DEVICES = ("distinct", "same")
KINDS = ("training", "inference", "realtime", "interactive")
"""The words of the core, for completion without importing it; a test compares them with it."""

PATIENCE_S = 12.0
"""How long a manager that does not answer is asked again: more than one call may take by itself."""


@click.command(
    short_help="Submit a job and print its id.",
    # Everything from the first word that is no option belongs to the command, so that -- may be left out.
    context_settings={"allow_interspersed_args": False},
)
@click.argument("command", metavar="-- COMMAND...", nargs=-1, type=click.UNPROCESSED)
@click.option("--name", metavar="TEXT", help="A name for people; it need not be unique.")
@click.option("--tenant", metavar="NAME", help="Who the job is for.  [default: default]")
@click.option("--gpus", metavar="N", help="GPUs per worker; 0 for none.  [default: 1]")
@click.option(
    "--gpu-model", metavar="MODEL", multiple=True, help="A model that will do, such as A100; repeatable."
)
@click.option("--memory", metavar="AMOUNT", help="Memory per GPU, such as 10Gi.  [default: not stated]")
@click.option("--compute", metavar="PART", help="Part of each GPU: 30%, 0.3, or auto.  [default: auto]")
@click.option("--mode", type=click.Choice(MODES), multiple=True, help="How it may share a GPU; repeatable.")
@click.option("--mig-profile", metavar="PROFILE", help="This MIG slice, such as 1g.10gb.")
@click.option(
    "--isolation", type=click.Choice(ISOLATIONS), help="Who may not be a neighbour.  [default: none]"
)
@click.option(
    "--devices",
    type=click.Choice(DEVICES),
    help="Whether several shares of a worker are on different GPUs or on the same.  [default: distinct]",
)
@click.option(
    "--together",
    metavar="LEVEL",
    help="Keep the workers within one node, nvlink (domain), rack or gpu-type; "
    "LEVEL,required to wait until they can be.  [default: anywhere]",
)
@click.option(
    "--workers", metavar="N", help="Workers of a gang, which starts whole or not at all.  [default: 1]"
)
@click.option("--kind", type=click.Choice(KINDS), help="What the job is for.  [default: training]")
@click.option(
    "--max-slowdown", metavar="X", help="The worst slowdown it accepts, such as 1.2.  [default: any]"
)
@click.option("--priority", metavar="N", help="Higher goes first.  [default: 0]")
@click.option(
    "--preemptible/--no-preemptible",
    default=None,
    help="Whether it may be put back in the queue or moved, and so begin anew.  [default: may]",
)
@click.option("--retries", metavar="N", help="How often a failure is tried again.  [default: 0]")
@click.option("--time-limit", metavar="TIME", help="End it after this time, such as 90s, 15m, 2h.")
@click.option(
    "--duration", metavar="TIME", help="How long it runs without neighbours, if you know; ends nothing."
)
@click.option("--grace", metavar="TIME", help="Time between asking it to end and killing it.  [default: 5s]")
@click.option(
    "--profile", metavar="NAME|FILE", help="What is known of its behaviour: a name, or a file to send."
)
@click.option("--cpu", metavar="N", help="CPUs per worker, such as 4 or 500m.  [default: not stated]")
@click.option("--ram", metavar="AMOUNT", help="RAM per worker, such as 16Gi.  [default: not stated]")
@click.option("--workdir", metavar="DIR", help="Where the command starts.  [default: this directory]")
@click.option(
    "--env", metavar="K=V", multiple=True, help="A variable; K alone takes its value from here; repeatable."
)
@click.option("--file", "job_file", metavar="job.yaml", help="A job file; options given here win over it.")
@click.option("--wait", is_flag=True, help="Follow the job to its end, and exit with its status.")
@manager_option
def submit(job_file: str | None, wait: bool, manager_url: str | None, **wishes: Any) -> int:
    """Submit a job and print its id.

    Amounts are checked here before the manager is asked; a job that could never run is rejected at once, with
    exit status 1.  With --wait, exits with the job's own status, 128 + n if signal n ended it, 1 if it failed
    without one; Ctrl-C ends the waiting, not the job.

    \b
    Examples:
      cotenant submit --gpus 1 --memory 10Gi -- python train.py --epochs 3
      cotenant submit --tenant vision --compute 30% --mode mps --mode timeslice -- python small.py
      cotenant submit --mig-profile 1g.10gb --isolation hardware -- ./serve
      cotenant submit --workers 4 --gpus 8 --gpu-model H100 --together rack -- torchrun train.py
      cotenant submit --gpus 2 --compute 30% --devices same -- python two_processes.py
      cotenant submit --max-slowdown 1.2 --profile resnet.yaml --wait -- python train.py
      cotenant submit --file job.yaml --priority 5
    """  # noqa: D301 - click reads the backspace character
    spec, profile = _checked(wishes, job_file)
    # Asked first, so that a manager that is not there at all is known not to have accepted anything.
    with connect_in_time(manager_url, PATIENCE_S) as client:
        job = _submitted(client, spec, profile)
        click.echo(job.job_id)
        if wait:
            return _waited(client, job.job_id)
    if job.state.value == "rejected":
        _tell(job)
        return FAILED
    return 0


def _submitted(client: Client, spec: JobSpec, profile: ProfileSpec | None) -> JobView:
    """The job once it is accepted; a manager that is starting again is waited for.

    Raises:
        Unreachable: it did not come back in time; the message tells whether the job may have been accepted.
    """
    from uuid import uuid4

    from cli.follow import patiently
    from placement.model import Unreachable

    # One key for all tries: whichever of them arrives, it is one job.
    key = str(uuid4())
    if profile is not None:
        patiently(partial(client.put_profile, profile), PATIENCE_S)
    try:
        return patiently(partial(client.submit, spec, key), PATIENCE_S)
    except Unreachable as error:
        raise Unreachable(f"{error}; the job may have been accepted: see 'cotenant queue'") from error


def _checked(wishes: dict[str, Any], job_file: str | None) -> tuple[JobSpec, ProfileSpec | None]:
    """The submission, and the profile to define before it if the user named a file."""
    from dataclasses import replace
    from pathlib import Path

    from cli.job_file import profile_or_name, read_job_file
    from cli.job_options import JobWishes, job_spec_of, variables_of

    said = JobWishes(**{**wishes, "env": variables_of(wishes["env"])})
    if job_file is not None:
        said = said.over(read_job_file(Path(job_file)))
    profile = None
    if said.profile is not None:
        name, profile = profile_or_name(said.profile)
        said = replace(said, profile=name)
    if said.workdir is None:
        said = replace(said, workdir=str(Path.cwd()))
    return job_spec_of(said), profile


def _waited(client: Client, job_id: str) -> int:
    from cli.follow import exit_status_of_job, wait_for_end

    try:
        job = wait_for_end(client, job_id, _tell)
    except KeyboardInterrupt:
        click.echo(f"{job_id} goes on; end it with: cotenant cancel {job_id}", err=True)
        raise
    return exit_status_of_job(job)


def _tell(job: JobView) -> None:
    """One line on stderr for each state that is seen."""
    from cli.failures import one_line
    from cli.texts import place_text

    where = f" on {place_text(job)}" if job.assignments and job.ended_s is None else ""
    why = f": {one_line(job.failure)}" if job.failure else ""
    click.echo(f"{job.job_id} {job.state.value}{where}{why}", err=True)
