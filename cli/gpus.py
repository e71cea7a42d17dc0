"""`cotenant gpus`: each share on each GPU, and who holds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from cli.connection import connect, manager_option
from cli.tables import NOTHING, Align, Column, Listing, output_option

if TYPE_CHECKING:
    from manager.wire.models import GpuTenancy, GpuView


@dataclass(frozen=True, slots=True)
class GpuRow:
    """One line: a share of a GPU, or a GPU that nobody holds; ``first`` opens a GPU's lines."""

    gpu: GpuView
    tenancy: GpuTenancy | None
    first: bool


@click.command(short_help="List each share on each GPU, and who holds it.")
@output_option
@manager_option
def gpus(output: str, manager_url: str | None) -> None:
    """List the GPUs: each share of each GPU on its own line, with the job that holds it.

    USE and MEMORY are what the agent measures: SMs at work, and memory in use.

    \b
    Examples:
      cotenant gpus
      cotenant gpus -o wide      # with UUIDs
      cotenant gpus -o json
    """  # noqa: D301 - click reads the backspace character
    from cli.job_columns import model_json
    from cli.tables import Format, show, show_json

    with connect(manager_url) as client:
        listed = sorted(client.gpus(), key=lambda gpu: (gpu.node_id, gpu.slot))
        if Format(output) is Format.JSON:
            show_json([model_json(gpu) for gpu in listed])
            return
        # Whoever holds a share has not ended.
        names = {job.job_id: job.name for job in client.jobs(ended=False)}
    show(gpu_listing(listed, names), output)


def gpu_listing(listed: Sequence[GpuView], names: Mapping[str, str]) -> Listing[GpuRow]:
    """The listing of shares; a GPU's own columns on its first line only, ``names`` of jobs by id."""
    from cli.job_columns import model_json
    from cli.texts import share_text
    from placement.model import format_bytes, format_milli

    columns: list[Column[GpuRow]] = [
        Column("NODE", lambda row: row.gpu.node_id if row.first else " "),
        Column("GPU", lambda row: str(row.gpu.slot) if row.first else " ", Align.RIGHT),
        Column("MODEL", lambda row: row.gpu.model if row.first else " "),
        Column(
            "USE",
            lambda row: " " if not row.first else _or_none(row.gpu.sm_milli, format_milli),
            Align.RIGHT,
            spare=True,
        ),
        Column(
            "MEMORY",
            lambda row: " " if not row.first else _or_none(row.gpu.memory_used_bytes, format_bytes),
            Align.RIGHT,
            spare=True,
        ),
        Column("SHARE", lambda row: _free(row.gpu) if row.tenancy is None else share_text(row.tenancy.share)),
        Column("JOB", lambda row: None if row.tenancy is None else _holder(row.tenancy)),
        Column("NAME", lambda row: None if row.tenancy is None else names.get(row.tenancy.job_id)),
        Column("TENANT", lambda row: None if row.tenancy is None else row.tenancy.tenant, spare=True),
        Column("STATE", lambda row: None if row.tenancy is None else row.tenancy.state.value),
        Column("UUID", lambda row: row.gpu.uuid if row.first else " ", wide=True),
    ]
    rows = [
        GpuRow(gpu, tenancy, first=index == 0)
        for gpu in listed
        for index, tenancy in enumerate(gpu.tenancies or [None])
    ]
    return Listing(columns, rows, lambda row: model_json(row.gpu), "no GPUs")


def _free(gpu: GpuView) -> str:
    return "free" if gpu.available else "node unavailable"


def _holder(tenancy: GpuTenancy) -> str:
    return tenancy.job_id if tenancy.worker == 0 else f"{tenancy.job_id}/{tenancy.worker}"


def _or_none(value: int | None, text: object) -> str:
    return NOTHING if value is None or not callable(text) else str(text(value))
