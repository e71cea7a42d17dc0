"""`make demo`: jobs of three tenants share simulated GPUs on this machine, as real processes."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.demo_jobs import JOBS, NODES, Verdict, profiles
from cli.demo_screen import Screen, screen_for
from cli.failures import FAILED, INTERRUPTED, exit_status_of
from cli.local_cluster import Interrupted, LocalCluster, LocalSettings
from cli.supervisor import StopSignals
from cli.sweep import end_processes_of
from cli.top import Picture
from cli.up import end_jobs, local_nodes

if TYPE_CHECKING:
    from manager.wire.client import Client

TIME_LIMIT_S = 80.0
"""The jobs of the demonstration are given up after it."""
LOOK_S = 0.5
EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


@click.command()
@click.option(
    "--capture", type=click.Path(dir_okay=False, path_type=Path), help="Write the screens to this SVG file."
)
@click.option("--policy", default="cotenant", show_default=True, help="Who goes first and where.")
def demo(capture: Path | None, policy: str) -> int:
    """Run the demonstration: two simulated nodes, jobs of three tenants, and what became of them."""
    begun_s = time.monotonic()
    if not (EXAMPLES / "demo").is_dir():
        raise click.UsageError("the demonstration runs from a checkout: its programs lie in examples/demo")
    screen = screen_for(sys.stdout, capture)
    with StopSignals().caught() as signals, tempfile.TemporaryDirectory(prefix="cotenant-demo-") as folder:
        # The demonstration neither reads nor changes where the user's own manager is, nor its database.
        os.environ["COTENANT_ENDPOINT_FILE"] = str(Path(folder) / "users-endpoint.json")
        os.environ.pop("COTENANT_DATABASE_URL", None)
        try:
            verdicts = _run(Path(folder), policy, screen, signals)
        except Interrupted:
            verdicts = None
        finally:
            end_processes_of(Path(folder))
    if verdicts is None:
        click.echo("demo: interrupted; everything has been ended", err=True)
        return 128 + (signals.number or INTERRUPTED - 128)
    screen.result(verdicts)
    surprises = [verdict for verdict in verdicts if not verdict.as_expected]
    for verdict in surprises:
        click.echo(f"not as expected: {verdict.job.name} is {verdict.view.state.value}", err=True)
    click.echo(f"demo: {time.monotonic() - begun_s:.0f} s")
    return FAILED if surprises else 0


def _run(folder: Path, policy: str, screen: Screen, signals: StopSignals) -> list[Verdict]:
    """Start the cluster, submit the jobs, watch them end, and end everything.

    Raises:
        Interrupted: the user wants it to end.
        CotenantError: something could not be started, or the manager was lost.
    """
    settings = LocalSettings(
        data_dir=folder / "data",
        nodes=local_nodes(NODES),
        listen="127.0.0.1:0",
        manager_options=("--policy", policy),
    )
    cluster = LocalCluster(settings, signals.stop, screen.say)
    try:
        return _with_cluster(cluster, screen, signals)
    finally:
        screen.close()
        cluster.supervisor.stop(signals.hurry)


def _with_cluster(cluster: LocalCluster, screen: Screen, signals: StopSignals) -> list[Verdict]:
    from manager.wire.client import Client

    screen.say("starting a manager and two simulated nodes")
    endpoint = cluster.start_manager()
    with Client(endpoint.url, endpoint.token) as client:
        nodes = cluster.start_agents(client)
        gpus = sum(len(node.gpus) for node in nodes)
        screen.say(f"{len(nodes)} nodes with {gpus} GPUs; submitting {len(JOBS)} jobs of three tenants")
        for profile in profiles(EXAMPLES).values():
            client.put_profile(profile)
        ids = {job.name: client.submit(job.spec(EXAMPLES)).job_id for job in JOBS}
        try:
            _watch(client, screen, signals, cluster.supervisor.revive)
        except Interrupted:
            end_jobs(client, list(ids.values()), signals)
            raise
        return [Verdict(job, client.job(ids[job.name])) for job in JOBS]


def _watch(client: Client, screen: Screen, signals: StopSignals, revive: Callable[[], None]) -> None:
    """Show the cluster until every job has ended.

    Raises:
        Interrupted: the user wants it to end.
        OperationFailed: the jobs take too long, or a program of the cluster dies again and again.
    """
    from placement.model import OperationFailed

    deadline_s = time.monotonic() + TIME_LIMIT_S
    while True:
        picture = Picture.of(client)
        screen.picture(picture)
        if not picture.jobs:
            return
        if time.monotonic() > deadline_s:
            late = ", ".join(job.name for job in picture.jobs)
            raise OperationFailed(f"the jobs did not end within {TIME_LIMIT_S:g} s: {late}")
        if signals.stop.wait(LOOK_S):
            raise Interrupted
        revive()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demonstration and return its exit status."""
    try:
        status = demo.main(args=arguments, prog_name="python -m cli.demo", standalone_mode=False)
        sys.stdout.flush()
    except BaseException as error:
        return exit_status_of(error)
    return status if isinstance(status, int) else 0


if __name__ == "__main__":
    sys.exit(main())
