"""HiveD's cells by example: memory of GPUs of one model, gangs that must be together, what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placement.lifecycle import JobState
from placement.model import Devices, Gpu, JobKind, Level, Mode, Node, Request, Together
from placement.policies import policy_named
from placement.scheduler import Scheduler
from tests.cases.desk import GIB, Desk, exited, mps, node, whole

A100 = "A100-SXM4-80GB"
STATES = {JobState.STARTING: "runs", JobState.QUEUED: "waits", JobState.REJECTED: "refused"}


def uneven(*gib: tuple[int | None, ...]) -> tuple[Node, ...]:
    """Nodes with GPUs of model X with so much memory each."""
    return tuple(
        Node(
            f"n-{i}",
            tuple(
                Gpu(f"GPU-n-{i}:{slot}", "X", None if size is None else size * GIB)
                for slot, size in enumerate(sizes)
            ),
        )
        for i, sizes in enumerate(gib)
    )


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("cells", ["", f":red=2x1x{A100}"])
def test_nobody_gets_a_gpu_with_less_memory_than_asked(order, cells):
    nodes = (
        Node("n-0", (Gpu("GPU-n-0:0", A100, 80 * GIB),)),
        Node("n-1", (Gpu("GPU-n-1:0", A100, 40 * GIB),)),
    )
    tenant = "red" if cells else "default"
    desk = Desk(f"hived{cells}", nodes[::order], compiled=False)
    for job_id in ("first", "second"):
        desk.submit(job_id, whole(1, memory_bytes=60 * GIB), tenant=tenant)
    assert desk.holds("first") == "n-0:0:exclusive:1000"
    assert desk.state("second") is JobState.QUEUED
    desk.submit("small", whole(1, memory_bytes=30 * GIB), tenant=tenant)
    assert desk.holds("small") == "n-1:0:exclusive:1000"
    desk.tell(exited("first"))
    assert desk.holds("second") == "n-0:0:exclusive:1000"


@pytest.mark.parametrize(
    ("gib", "asked", "gpus", "held"),
    [
        ([(40, 80, 80)], 60, 2, "n-0:1:exclusive:1000 n-0:2:exclusive:1000"),  # within one node
        ([(40, 80), (80, 80)], 60, 2, "n-1:0:exclusive:1000 n-1:1:exclusive:1000"),
        ([(40,), (None,)], 60, 1, "n-1:0:exclusive:1000"),  # unknown memory constrains nothing
        ([(40, 80), (80, 40)], 60, 2, ""),
    ],
)
def test_guests_pass_over_gpus_with_too_little_memory(gib, asked, gpus, held):
    desk = Desk("hived", uneven(*gib), compiled=False)
    desk.submit("guest", whole(gpus, memory_bytes=asked * GIB))
    assert desk.holds("guest") == held


@pytest.mark.parametrize(("asked", "refused"), [(30, False), (60, True)])
def test_who_may_not_be_preempted_needs_its_memory_wherever_its_cell_may_lie(asked, refused):
    nodes = (
        Node("n-0", (Gpu("GPU-n-0:0", A100, 80 * GIB),)),
        Node("n-1", (Gpu("GPU-n-1:0", A100, 40 * GIB),)),
    )
    desk = Desk(f"hived:red=2x1x{A100}", nodes, compiled=False)
    desk.submit("sure", whole(1, memory_bytes=asked * GIB), tenant="red", preemptible=False)
    assert (desk.state("sure") is JobState.REJECTED) == refused
    assert ("GPUs with less memory" in desk.scheduler.record("sure").failure) == refused


def test_a_gang_that_must_be_together_waits_for_one_node():
    for level in (Level.NODE, Level.NVLINK, Level.RACK):
        nodes = (replace(node(name, f"4x{A100}"), nvlink_domain=f"link-{name}") for name in "ab")
        desk = Desk("hived", tuple(nodes), compiled=False)
        desk.submit("x", whole(3))
        desk.submit("y", whole(3))
        pair = whole(1, together=Together(level, required=True))
        desk.submit("gang", pair, workers=2)
        assert desk.state("gang") is JobState.QUEUED, level
        desk.submit("loose", whole(1, together=Together(level)), workers=2)
        assert desk.state("loose") is JobState.STARTING, level  # a mere wish
        desk.tell(exited("x"))
        assert desk.holds("gang") == "a-0:exclusive:1000 a-1:exclusive:1000", level
        assert [part.worker for part in desk.scheduler.record("gang").assignments] == [0, 1]


@pytest.mark.parametrize("cells", ["", f":red=2x2x{A100}"])
@pytest.mark.parametrize("order", [1, -1])
def test_nvlink_that_a_gang_requires_must_be_known(cells, order):
    nodes = (replace(node("a", f"2x{A100}"), nvlink_domain="link"), node("b", f"2x{A100}"))
    desk = Desk(f"hived{cells}", nodes[::order], compiled=False)
    pair = whole(1, together=Together(Level.NVLINK, required=True))
    for job_id in ("first", "second"):
        desk.submit(job_id, pair, workers=2, tenant="red")
    assert desk.holds("first") == "a-0:exclusive:1000 a-1:exclusive:1000"
    assert desk.state("second") is JobState.QUEUED
    desk.submit("sure", pair, workers=2, tenant="red", preemptible=False)
    assert desk.state("sure") is JobState.REJECTED


@pytest.mark.parametrize(
    ("cells", "workers", "gpus", "preemptible", "state"),
    [
        ("1x4", 2, 2, False, "runs"),
        ("1x4", 4, 1, False, "runs"),
        ("2x2", 2, 2, False, "refused"),  # two cells may lie apart
        ("2x2", 2, 2, True, "runs"),
        ("1x4", 3, 2, True, "refused"),  # no node has six
        ("1x4", 5, 1, False, "refused"),
    ],
)
def test_a_gang_that_must_be_together_fits_into_one_cell(cells, workers, gpus, preemptible, state):
    nodes = (node("a", "4xA100-SXM4-80GB"), node("b", "4xA100-SXM4-80GB"))
    desk = Desk(f"hived:red={cells}x{A100}", nodes, compiled=False)
    request = whole(gpus, together=Together(Level.RACK, required=True))
    desk.submit("gang", request, workers=workers, tenant="red", preemptible=preemptible)
    record = desk.scheduler.record("gang")
    assert STATES[record.state] == state
    assert len({part.node_id for part in record.assignments}) == (1 if state == "runs" else 0)


def test_a_gang_too_large_for_one_node_hears_that_it_would_have_to_be_spread():
    rack = [Node(f"n-{i}", node(f"n-{i}", f"2x{A100}").gpus, rack="r") for i in range(2)]
    desk = Desk("hived", tuple(rack), compiled=False)
    desk.submit("gang", whole(1, together=Together(Level.RACK, required=True)), workers=4)
    assert desk.scheduler.record("gang").failure == (
        "policy hived keeps a gang together on one node alone, and none has the 4 GPUs for it"
    )
    desk.submit("typed", whole(1, together=Together(Level.GPU_TYPE, required=True)), workers=4)
    assert desk.state("typed") is JobState.STARTING


SAME = Request(gpus=2, compute_milli=400, modes=frozenset({Mode.MPS, Mode.EXCLUSIVE}), devices=Devices.SAME)


@pytest.mark.parametrize(
    ("policy", "request_", "failure"),
    [
        (
            "hived",
            mps(300),
            "policy hived gives whole GPUs only, and the job can use mps alone: "
            "ask for mode exclusive, or use another policy",
        ),
        (
            "hived",
            SAME,
            "policy hived gives whole GPUs only, and the job can use mps alone "
            "(devices: same wants shares of one GPU): use another policy",
        ),
        ("miso", SAME, "policy miso gives MIG slices and whole GPUs only, and the job can use mps alone"),
        ("miso", mps(300), "policy miso gives MIG slices and whole GPUs only"),
        ("lucid", SAME, ""),
        ("gandiva", SAME, ""),
        ("hived", Request(modes=frozenset({Mode.MPS, Mode.EXCLUSIVE})), ""),
        ("hived", Request(gpus=0, modes=frozenset({Mode.MPS})), ""),
    ],
)
@pytest.mark.parametrize("nodes", [(), (node("a", f"1x{A100}"),)])
def test_who_accepts_nothing_that_a_policy_gives_hears_so(policy, request_, failure, nodes):
    desk = Desk(policy, nodes, compiled=False)
    desk.submit("job", request_, kind=JobKind.TRAINING)
    record = desk.scheduler.record("job")
    assert record.failure.startswith(failure)
    assert (record.state is JobState.REJECTED) == bool(failure)


BOTH = frozenset({Mode.MPS, Mode.MIG})
BEFORE = {
    "jobs on a GPU": {"a": mps(300), "b": mps(300)},
    "jobs on both": {"a": mps(600), "b": mps(600), "c": mps(400)},
    "shares of one job": {"a": Request(gpus=3, compute_milli=300, modes=BOTH, devices=Devices.SAME)},
    "shares of slices": {
        name: Request(gpus=2, compute_milli=70, modes=BOTH, devices=Devices.SAME) for name in "ab"
    },
    "a job on both, and one beside it": {"a": mps(500, gpus=2), "b": mps(500)},
}


@pytest.mark.parametrize("jobs", BEFORE.values(), ids=BEFORE)
@pytest.mark.parametrize("ended", ["", "a"], ids=["all stay", "the first ends"])
def test_all_who_shared_a_gpu_before_a_restart_leave_it_to_its_owner(jobs, ended):
    desk = Desk("parvagpu", (node("a", f"2x{A100}"),), compiled=False)
    for name, request in jobs.items():
        desk.submit(name, request, kind=JobKind.INFERENCE, tenant="blue")
    old = desk.scheduler
    desk.scheduler = Scheduler.restore(policy_named(f"hived:red=2x1x{A100}"), old.belief, old.snapshot())
    if ended:
        desk.tell(exited(ended))
    orders = desk.submit("red-1", whole(1), tenant="red") + desk.submit("red-2", whole(1), tenant="red")
    told = [order.split()[1].split(".")[0] for order in orders if order.startswith("stop")]
    assert sorted(told) == sorted(jobs.keys() - {ended})
    assert {desk.holds("red-1"), desk.holds("red-2")} == {"a-0:exclusive:1000", "a-1:exclusive:1000"}
