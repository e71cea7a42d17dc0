"""Tables on terminals of any width: ids stay whole, since one that is cut names nothing."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from cli.gpus import gpu_listing
from cli.job_columns import job_listing
from cli.nodes import node_listing
from cli.tables import Column, Listing, plain_table, rich_table
from manager.wire import models
from placement.lifecycle import JobState
from tests.unit.cli.conftest import NOW_S, assignment, job_view, share

NODE_ID = "gpu-node-with-a-long-name-17"
NEIGHBOURS = ("job-100001", "job-100002")
JOB = job_view(
    "job-123456",
    name="training-of-a-model-with-a-long-name",
    tenant="language-models-team",
    state=JobState.RUNNING,
    command=["python", "-c", "print()" * 50],
    assignments=[assignment(share(memory_bytes=10 << 30), node_id=NODE_ID)],
    neighbours=NEIGHBOURS,
)
GPU = models.GpuView(
    uuid="GPU-6c2c1bbd-84f0-4b1b-9f0e-c9ab1a0b0f0e", model="A100-SXM4-80GB", node_id=NODE_ID, slot=0,
    memory_bytes=80 << 30, available=True,
    tenancies=[models.GpuTenancy(
        job_id=JOB.job_id, tenant=JOB.tenant, worker=3, state=JOB.state, share=share())],
)  # fmt: skip
NODE = models.NodeView(
    node_id=NODE_ID, state="up", simulated=True, cpu_milli=None, ram_bytes=None, gpus=["A100-SXM4-80GB"] * 8,
    workers=3, rack="rack-with-a-long-name-3",
)  # fmt: skip
LISTINGS = {
    "jobs": (job_listing([JOB], NOW_S), [JOB.job_id, JOB.name, JOB.tenant, "running"], NEIGHBOURS),
    "gpus": (gpu_listing([GPU], {JOB.job_id: JOB.name}), [f"{JOB.job_id}/3", NODE_ID, JOB.name], [GPU.uuid]),
    "nodes": (node_listing([NODE], NOW_S), [NODE_ID, "up"], [NODE.rack]),
}


def on_terminal(listing: Listing, width: int, *, wide: bool = False) -> list[str]:
    """The lines that are written to a terminal; it breaks those that are longer than it is wide."""
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    console.print(rich_table(listing, width, wide=wide), crop=False)
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize("width", [20, 40, 80, 81, 100, 120, 160, 200, 400])
@pytest.mark.parametrize("name", LISTINGS)
@pytest.mark.parametrize("wide", [False, True])
def test_ids_are_whole_at_any_width(name, width, wide):
    listing, usual, more = LISTINGS[name]
    said = "\n".join(on_terminal(listing, width, wide=wide))
    for word in [*usual, *(more if wide else ())]:
        assert word in said


@pytest.mark.parametrize("name", LISTINGS)
def test_what_does_not_fit_is_as_in_a_file(name):
    listing = LISTINGS[name][0]
    assert on_terminal(listing, 60, wide=True) == plain_table(listing, wide=True).splitlines()


TEXTS = Listing(
    [
        Column("ID", lambda row: row[0]),
        Column("TEXT", lambda row: row[1], flexible=True),
        Column("OTHER", lambda row: row[2], flexible=True),
    ],
    [("id-1", "some words that may be wrapped, more of them than of the others", "no longer-than-this")],
    list,
    "nothing",
)


@pytest.mark.parametrize("width", range(33, 100))
def test_flexible_columns_are_wrapped_at_blanks_until_the_table_fits(width):
    lines = on_terminal(TEXTS, width)
    assert max(map(len, lines)) <= width
    words = " ".join(lines).split()
    assert {"id-1", "longer-than-this", *TEXTS.rows[0][1].split()} <= set(words)
