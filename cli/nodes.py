"""`cotenant nodes`: what the cluster is made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from cli.connection import connect, manager_option
from cli.tables import NOTHING, Align, Column, Listing, output_option

if TYPE_CHECKING:
    from manager.wire.models import NodeView


@click.command(short_help="List the nodes.")
@output_option
@manager_option
def nodes(output: str, manager_url: str | None) -> None:
    """List the nodes: up, lost (its jobs may still run) or fenced (nothing runs there any more).

    \b
    Examples:
      cotenant nodes
      cotenant nodes -o json
    """  # noqa: D301 - click reads the backspace character
    from cli.tables import show

    with connect(manager_url) as client:
        listed = sorted(client.nodes(), key=lambda node: node.node_id)
        now_s = client.info().now_s
    show(node_listing(listed, now_s), output)


def node_listing(listed: Sequence[NodeView], now_s: float) -> Listing[NodeView]:
    """The listing of nodes at the manager's time ``now_s``."""
    from cli.job_columns import model_json
    from cli.texts import duration_text
    from placement.model import format_bytes

    columns: list[Column[NodeView]] = [
        Column("NODE", lambda node: node.node_id),
        Column("STATE", lambda node: node.state),
        Column("GPUS", lambda node: models_text(node.gpus)),
        Column("WORKERS", lambda node: str(node.workers), Align.RIGHT),
        Column(
            "CPU", lambda node: None if node.cpu_milli is None else f"{node.cpu_milli / 1000:g}", Align.RIGHT
        ),
        Column(
            "RAM", lambda node: None if node.ram_bytes is None else format_bytes(node.ram_bytes), Align.RIGHT
        ),
        Column("SIMULATED", lambda node: "yes" if node.simulated else "no"),
        Column("RACK", lambda node: node.rack, wide=True),
        Column("NVLINK", lambda node: node.nvlink_domain, wide=True),
        Column(
            "SEEN",
            lambda node: (
                None if node.last_seen_s is None else f"{duration_text(now_s - node.last_seen_s)} ago"
            ),
            Align.RIGHT,
            wide=True,
        ),
    ]
    return Listing(columns, listed, model_json, "no nodes; start one with 'cotenant agent'")


def models_text(models: Sequence[str]) -> str:
    """``4 x A100-SXM4-80GB``, more kinds with commas."""
    return ", ".join(f"{count} x {model}" for model, count in Counter(models).items()) or NOTHING
