"""`cotenant up`: a manager and a local agent in one go."""

from __future__ import annotations

import json
import os
import re
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.local_cluster import Interrupted, LocalCluster, LocalNode, LocalSettings
from cli.names import NamingCommand, one_policy
from cli.supervisor import StopSignals

if TYPE_CHECKING:
    from manager.wire.client import Client
    from manager.wire.discovery import Endpoint
    from manager.wire.models import NodeView

WATCH_S = 0.5
JOBS_END_WAIT_S = 60.0
DEFAULT_FENCE = "120s"
"""The manager's; a test compares them."""


@click.command(cls=NamingCommand, short_help="Start a manager and a local agent, and keep them running.")
@click.option(
    "--simulate",
    "simulated",
    metavar="NxMODEL",
    multiple=True,
    help="A simulated node, such as 4xA100-SXM4-80GB; repeatable.  [default: the GPUs of this machine]",
)
@click.option(
    "--policy",
    metavar="NAME",
    multiple=True,
    callback=one_policy,
    help="Who goes first and where.  [default: the manager's]",
)
@click.option(
    "--belief", metavar="MODEL", help="The interference model that decisions use.  [default: the manager's]"
)
@click.option(
    "--truth", metavar="MODEL", help="The one that slows jobs on simulated nodes.  [default: the agent's]"
)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where everything is kept.  [default: the user's state folder]",
)
@click.option(
    "--listen", metavar="HOST:PORT", default="127.0.0.1:7077", show_default=True, help="Where to answer."
)
@click.option(
    "--fence",
    metavar="TIME",
    default=DEFAULT_FENCE,
    show_default=True,
    help="How long jobs go on while nothing of this runs, such as 1d.",
)
@click.option(
    "--stop-jobs",
    is_flag=True,
    help="At the end, cancel all jobs too.  [default: jobs go on for the time of --fence]",
)
def up(
    *, simulated: tuple[str, ...], data_dir: Path | None, listen: str, stop_jobs: bool, **said: str | None
) -> None:
    """Start a manager and a local agent, and keep them running until Ctrl-C.

    Without --simulate the agent uses the GPUs of this machine, or joins as a node without GPUs.  The other
    commands of the same user find this manager by themselves.  Afterwards the jobs go on for the time of
    --fence: until then the next 'cotenant up' on the same folder takes them up, later they are ended and
    begin anew.

    \b
    Examples:
      cotenant up
      cotenant up --simulate 4xA100-SXM4-80GB --simulate 2xH100-SXM5-80GB
      cotenant up --simulate 8xA100-SXM4-80GB --policy srtf+spread --data-dir ./state --stop-jobs
      cotenant up --fence 1d
    """  # noqa: D301 - click reads the backspace character
    fence_s = _check(simulated, said)
    settings = LocalSettings(
        data_dir=(data_dir or default_data_dir()).absolute(),
        nodes=local_nodes(simulated),
        listen=listen,
        manager_options=_options(said, "policy", "belief", "fence"),
        agent_options=_options(said, "truth") if simulated else (),
    )
    with StopSignals().caught() as signals:
        cluster = LocalCluster(settings, signals.stop, lambda text: click.echo(f"cotenant: {text}", err=True))
        try:
            _run(cluster, signals, None if stop_jobs else fence_s)
        except Interrupted:
            pass
        finally:
            cluster.supervisor.stop(signals.hurry)


def default_data_dir() -> Path:
    """The user's state folder for the manager and the agents of this machine."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "cotenant" / "local"


def local_nodes(simulated: Sequence[str]) -> list[LocalNode]:
    """``sim-0``, ``sim-1``, ... or the one node that bears this machine's name."""
    if simulated:
        return [LocalNode(f"sim-{number}", text) for number, text in enumerate(simulated)]
    name = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())[:63]
    return [LocalNode(name or "local")]


def _check(simulated: Sequence[str], said: Mapping[str, str | None]) -> float:
    """Refuse what cannot work before anything is started; returns the fence in seconds.

    Raises:
        InvalidInput: what is wrong.
    """
    from placement.interference import model_named
    from placement.model import parse_seconds
    from placement.model.hardware import node_from_short_form
    from placement.policies import policy_named

    for number, text in enumerate(simulated):
        node_from_short_form(text, f"sim-{number}")
    policy = said["policy"]
    if policy is not None:
        policy_named(policy)
    for model in (said["belief"], said["truth"]):
        if model is not None:
            model_named(model)
    return parse_seconds(said["fence"] or DEFAULT_FENCE, "fence")


def _options(said: Mapping[str, str | None], *names: str) -> list[str]:
    given = [(name, said[name]) for name in names]
    return [word for name, value in given if value is not None for word in (f"--{name}", value)]


def _run(cluster: LocalCluster, signals: StopSignals, go_on_s: float | None) -> None:
    """Run until the user wants the end; the jobs then go on for ``go_on_s``, None ends them."""
    from manager.wire.client import Client
    from manager.wire.discovery import endpoint_file

    endpoint = cluster.start_manager()
    users_file = endpoint_file()
    _publish(cluster.endpoint_path, users_file)
    try:
        with Client(endpoint.url, endpoint.token) as client:
            _greet(endpoint, cluster.start_agents(client), client)
            while not signals.stop.wait(WATCH_S):
                cluster.supervisor.revive()
            _say_goodbye(client, signals, go_on_s)
    finally:
        _withdraw(users_file, endpoint)


def _publish(source: Path, users_file: Path) -> None:
    """Let the user's other commands find this manager."""
    from manager.wire.discovery import write_endpoint

    stored = json.loads(source.read_text(encoding="utf-8"))
    write_endpoint(users_file, stored["url"], Path(stored["token_file"]))


def _withdraw(users_file: Path, endpoint: Endpoint) -> None:
    """Forget this manager, unless another has been started since."""
    try:
        if json.loads(users_file.read_text(encoding="utf-8")).get("url") == endpoint.url:
            users_file.unlink()
    except (OSError, ValueError, AttributeError):
        return


def _greet(endpoint: Endpoint, nodes: Sequence[NodeView], client: Client) -> None:
    from cli.nodes import models_text

    info = client.info()
    click.echo(f"manager at {endpoint.url}, policy {info.policy}, belief {info.belief}")
    for node in nodes:
        kind = "simulated " if node.simulated else ""
        click.echo(f"node {node.node_id}: {kind}{models_text(node.gpus) if node.gpus else 'no GPUs'}")
    click.echo("submit with: cotenant submit --gpus 1 -- python train.py    (Ctrl-C ends)")


def _say_goodbye(client: Client, signals: StopSignals, go_on_s: float | None) -> None:
    """Say what becomes of the jobs, and end them if the user wants that."""
    from cli.texts import count_text, duration_text
    from placement.model import CotenantError

    try:
        live = [job.job_id for job in client.jobs(ended=False)]
        if not live:
            return
        if go_on_s is not None:
            goes = "goes" if len(live) == 1 else "go"
            click.echo(
                f"{count_text(len(live), 'job')} {goes} on for up to {duration_text(go_on_s)}: until then "
                "'cotenant up' takes up what runs, later it is ended and begins anew (see --fence and "
                "--stop-jobs)"
            )
            return
        click.echo(
            f"ending {count_text(len(live), 'job')}: each is asked, and killed after its grace; waiting for "
            f"up to {duration_text(JOBS_END_WAIT_S)} (Ctrl-C again does not wait)"
        )
        if not end_jobs(client, live, signals):
            click.echo(
                "cotenant: not all jobs have ended yet; the rest end within the time of --fence", err=True
            )
    except CotenantError as error:
        click.echo(f"cotenant: the jobs could not be asked for: {error}", err=True)


def end_jobs(client: Client, job_ids: Sequence[str], signals: StopSignals) -> bool:
    """Cancel jobs and wait for their end; False if some did not end in time.

    Raises:
        CotenantError: what the client raises.
    """
    from placement.lifecycle import ENDED

    for job_id in job_ids:
        client.cancel(job_id)
    deadline_s = time.monotonic() + JOBS_END_WAIT_S
    while any(client.job(job_id).state not in ENDED for job_id in job_ids):
        if time.monotonic() > deadline_s or signals.hurry.wait(WATCH_S):
            return False
    return True
