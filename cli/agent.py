"""`cotenant agent`: the agent of this node alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from cli.connection import endpoint_of, manager_option
from cli.names import NamingGroup


@click.group(cls=NamingGroup, invoke_without_command=True, short_help="Run the agent of this node alone.")
@manager_option
@click.option("--node-id", metavar="NAME", help="The node's name.  [default: the machine's]")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where jobs and the journal lie.  [default: the user's state folder]",
)
@click.option("--simulate", metavar="NxMODEL", help="Simulate a node, such as 4xA100-SXM4-80GB.")
@click.option(
    "--truth",
    metavar="MODEL",
    default="additive",
    show_default=True,
    help="What slows jobs on a simulated node.",
)
@click.option(
    "--rack", metavar="NAME", envvar="COTENANT_RACK", show_envvar=True, help="The rack that the node is in."
)
@click.option(
    "--nvlink-domain",
    metavar="NAME",
    envvar="COTENANT_NVLINK_DOMAIN",
    show_envvar=True,
    help="Nodes that name the same are joined by NVLink.",
)
@click.pass_context
def agent(
    ctx: click.Context, /, *, manager_url: str | None, node_id: str | None, data_dir: Path | None, **said: Any
) -> None:
    """Run the agent of this node until it is told to end.

    Its jobs go on for the manager's fence time, 2 minutes unless its --fence says otherwise: an agent that is
    started in that time takes them up; later they are ended, as they may have been started elsewhere.

    Without --simulate it uses the GPUs that the driver shows, and joins as a node without GPUs where there is
    no driver.

    \b
    Examples:
      cotenant agent --manager http://gpu-head:7077
      cotenant agent --simulate 4xA100-SXM4-80GB --node-id sim-7
    """  # noqa: D301 - click reads the backspace character
    if ctx.invoked_subcommand is not None:
        return
    from agent.main import AgentSettings, run
    from cli.job_options import identifier
    from cli.up import default_data_dir, local_nodes

    said["rack"] = identifier("rack", said["rack"])
    said["nvlink_domain"] = identifier("nvlink domain", said["nvlink_domain"])
    endpoint = endpoint_of(manager_url)
    name = identifier("node id", node_id) or local_nodes(())[0].node_id
    run(
        AgentSettings(
            manager_url=endpoint.url,
            token=endpoint.token,
            node_id=name,
            data_dir=(data_dir or default_data_dir() / "agents" / name).absolute(),
            **said,
        )
    )
