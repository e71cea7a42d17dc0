"""Why a job waits, why it was turned away, and what is foreseen for one that was placed."""

from __future__ import annotations

import copy

import pytest

from placement.lifecycle import JobState
from placement.model import (
    Explanation,
    Isolation,
    Node,
    NodeLost,
    Outcome,
    Profile,
    ProfileDefined,
    Reason,
    Request,
)
from tests.cases.desk import EXCLUSIVE, MIG, MPS, TIMESLICE, Desk, began, exited, mig, mps, node, turn, whole

V100, T4, A100 = "V100-SXM2-32GB", "T4-16GB", "A100-SXM4-80GB"
GIB = 1 << 30
R = Reason
X1, X2, X4 = whole(1), whole(2), whole(4)
FOUR = (node("m", f"2x{V100}"), node("n", f"2x{V100}"))
MIXED = (node("a", f"2x{A100}"), node("v", f"3x{V100}"))
BOUNDED = tuple(Node(bare.node_id, bare.gpus, 8000, 8 * GIB) for bare in MIXED)
BUSY, SM500 = Profile("busy", sm_milli=1000), Profile("half", sm_milli=500)

# nodes, who runs: (request, more), who waits: (request, more), reasons by GPU, GPUs that fit
WAITING = {
    "GPUs in use": (FOUR, [(X2, {}), (X1, {})], (X2, {}), {R.GPU_BUSY: 3, R.NODE_GPUS: 1}, 0),
    "all GPUs in use": (FOUR, [(X2, {}), (X2, {})], (X1, {}), {R.GPU_BUSY: 4}, 0),
    "shares keep whole GPUs": (FOUR, [(mps(1), {}), (mps(1000), {}), (X2, {})], (X2, {}), {R.GPU_BUSY: 4}, 0),
    "an exclusive job keeps shares out": (FOUR[:1], [(X2, {})], (mps(1), {}), {R.GPU_BUSY: 2}, 0),
    "another mode": (
        FOUR[:1],
        [(turn(1), {}), (mps(1000), {})],
        (mps(1), {}),
        {R.GPU_MODE: 1, R.GPU_COMPUTE: 1},
        0,
    ),
    "compute": (FOUR[:1], [(mps(600), {}), (mps(700), {})], (mps(500), {}), {R.GPU_COMPUTE: 2}, 0),
    "memory": (
        FOUR[:1],
        [(mps(500, memory_bytes=30 * GIB), {}), (mps(600), {})],
        (mps(500, memory_bytes=3 * GIB), {}),
        {R.GPU_MEMORY: 1, R.GPU_COMPUTE: 1},
        0,
    ),
    "models and busy ones": (
        MIXED,
        [(whole(2, gpu_models=("A100",)), {})],
        (whole(2, gpu_models=("A100",)), {}),
        {R.GPU_MODEL: 3, R.GPU_BUSY: 2},
        0,
    ),
    "memory that a smaller model has not": (
        MIXED,
        [(whole(2, gpu_models=("A100",)), {})],
        (whole(1, memory_bytes=40 * GIB), {}),
        {R.GPU_MEMORY: 3, R.GPU_BUSY: 2},
        0,
    ),
    "no slice free": (
        MIXED,
        [(mig("4g.40gb"), {}), (mig("7g.80gb"), {})],
        (mig("4g.40gb"), {}),
        {R.MIG_GEOMETRY: 5},
        0,
    ),
    "48 clients": (FOUR[:1], [(mps(10, gpus=2), {})] * 48, (mps(10), {}), {R.MPS_CLIENTS: 2}, 0),
    "another tenant": (
        FOUR[:1],
        [(mps(10, isolation=Isolation.TENANT, gpus=2), {"tenant": "red"})],
        (mps(10), {"tenant": "blue"}),
        {R.ISOLATION: 2},
        0,
    ),
    "its own wish to be apart": (
        FOUR[:1],
        [(mps(10, gpus=2), {"tenant": "red"})],
        (mps(10, isolation=Isolation.TENANT), {"tenant": "blue"}),
        {R.ISOLATION: 2},
        0,
    ),
    "its own promise": (
        FOUR[:1],
        [(mps(500, gpus=2), {"profile": "busy"})],
        (mps(500, max_slowdown=1.01), {"profile": "half"}),
        {R.OWN_PROMISE: 2},
        0,
    ),
    "a neighbour's promise": (
        FOUR[:1],
        [(mps(500, gpus=2, max_slowdown=1.01), {"profile": "half"})],
        (mps(500), {"profile": "busy"}),
        {R.NEIGHBOUR_PROMISE: 2},
        0,
    ),
    "CPU": (
        (node("m", f"2x{V100}", cpu_milli=4000), *FOUR[1:]),
        [(whole(1, cpu_milli=4000), {}), (X2, {})],
        (whole(1, cpu_milli=1), {}),
        {R.NODE_CPU: 2, R.GPU_BUSY: 2},
        0,
    ),
    "RAM": (
        (node("m", f"2x{V100}", ram_bytes=4 * GIB),),
        [(whole(1, ram_bytes=4 * GIB), {})],
        (whole(1, ram_bytes=1), {}),
        {R.NODE_RAM: 2},
        0,
    ),
    "CPU of nodes, without GPUs": (
        (node("m", f"2x{V100}", cpu_milli=4000), node("n", None, cpu_milli=4000)),
        [(Request(gpus=0, cpu_milli=4000), {}), (Request(gpus=0, cpu_milli=3000), {})],
        (Request(gpus=0, cpu_milli=2000), {}),
        {R.NODE_CPU: 2},
        0,
    ),
    "room for some of a gang": (FOUR, [(X1, {})], (X1, {"workers": 4}), {R.GPU_BUSY: 1, R.GANG: 1}, 3),
    "room for none of a gang": (
        FOUR,
        [(X1, {}), (X1, {}), (X1, {}), (X1, {})],
        (X1, {"workers": 4}),
        {R.GPU_BUSY: 4, R.GANG: 4},
        0,
    ),
    "room for some of a gang in one of its modes": (
        FOUR[:1],
        [(turn(300, gpus=2), {})],
        (Request(compute_milli=500, modes=MPS | TIMESLICE), {"workers": 3}),
        {R.GANG: 1},
        2,
    ),
    "workers of two GPUs": (
        FOUR,
        [(X1, {})],
        (X2, {"workers": 2}),
        {R.GPU_BUSY: 1, R.NODE_GPUS: 1, R.GANG: 1},
        2,
    ),
}


def waits(nodes, running, waiting, policy: str = "backfill") -> Desk:
    desk = Desk(policy, nodes, belief="additive")
    desk.tell(ProfileDefined(BUSY), ProfileDefined(SM500))
    for i, (request, more) in enumerate(running):
        assert desk.submit(f"r{i}", request, **more) != []
    request, more = waiting
    assert desk.submit("job", request, **more) == []
    assert desk.state("job") is JobState.QUEUED
    return desk


@pytest.mark.parametrize(("nodes", "running", "waiting", "reasons", "fitting"), WAITING.values(), ids=WAITING)
def test_why_a_job_waits(nodes, running, waiting, reasons, fitting):
    explanation = waits(nodes, running, waiting).scheduler.explain("job")
    assert explanation.outcome is Outcome.NO_FIT
    assert (dict(explanation.reasons), explanation.candidates) == (reasons, fitting)


@pytest.mark.parametrize(("nodes", "running", "waiting", "reasons", "fitting"), WAITING.values(), ids=WAITING)
def test_looking_changes_nothing(nodes, running, waiting, reasons, fitting):
    desk, blind = (waits(nodes, running, waiting) for _ in range(2))
    tables = [table.copy() for table in (desk.scheduler.cluster.gpus, desk.scheduler.cluster.nodes)]
    records = copy.deepcopy(list(desk.scheduler.records()))
    assert desk.scheduler.explain("job") == desk.scheduler.explain("job")
    assert list(desk.scheduler.records()) == records
    assert (tables[0] == desk.scheduler.cluster.gpus).all()
    assert (tables[1] == desk.scheduler.cluster.nodes).all()
    assert desk.tell(exited("r0")) == blind.tell(exited("r0"))


def test_a_lost_node_is_named():
    desk = Desk("backfill", FOUR)
    desk.submit("a", X2)
    desk.tell(NodeLost("n"))
    desk.submit("job", X1)
    assert desk.reasons("job") == {R.GPU_BUSY: 2, R.NODE_UNAVAILABLE: 2}
    desk.tell(NodeLost("m"))
    assert desk.reasons("job") == {R.NODE_UNAVAILABLE: 4}


@pytest.mark.parametrize(("profile", "told"), [(None, True), ("half", False)])
def test_a_promise_that_nobody_can_give_is_told(profile, told):
    desk = Desk("cotenant", (node("n", "1xV100-SXM2-32GB"),), belief="additive")
    desk.tell(ProfileDefined(SM500))
    desk.submit("job", mps(300, max_slowdown=1.2), profile=profile)
    assert desk.reasons("job") == {R.OWN_PROMISE: 1}
    assert ("without a profile, nobody can promise" in desk.scheduler.explain("job").note) == told


def test_places_that_were_not_counted_are_not_none_at_all():
    desk = Desk("best-fit", FOUR)
    desk.submit("first", X1)  # nobody else asks for the same: some nodes are looked at
    desk.submit("second", X1)
    assert desk.scheduler.explain("first").candidates is None


def test_before_any_node_has_joined():
    desk = Desk("backfill", ())
    desk.submit("job", X1)
    assert desk.scheduler.explain("job") == Explanation("job", Outcome.NO_FIT, {R.NO_NODES: 1})


def test_those_ahead_in_line_are_counted_where_nobody_overtakes():
    desk = Desk("fifo", FOUR)
    desk.submit("first", X1)
    desk.submit("wide", whole(2), workers=2)
    for i in range(3):
        desk.submit(f"j{i}", whole(1, cpu_milli=i))
    assert desk.reasons("wide") == {R.GPU_BUSY: 1, R.NODE_GPUS: 1, R.GANG: 1}
    for i in range(3):
        explanation = desk.scheduler.explain(f"j{i}")
        assert dict(explanation.reasons) == {R.GPU_BUSY: 1, R.ORDER: 1 + i}
        assert (explanation.candidates, explanation.note) == (3, f"{1 + i} ahead in line")


def test_a_job_that_was_placed_tells_what_is_foreseen_now():
    desk = Desk("best-fit", FOUR, belief="additive")
    desk.tell(ProfileDefined(BUSY), ProfileDefined(SM500))
    desk.submit("half", mps(500), profile="half")
    alone = desk.scheduler.explain("half")
    assert (alone.outcome, alone.predicted_slowdown, alone.predicted_upper) == (Outcome.FIT, 1.0, 1.0)
    desk.submit("busy", mps(500), profile="busy")
    beside = desk.scheduler.explain("half")
    assert beside.predicted_slowdown == pytest.approx(1 + 0.46 * 0.5 * 0.5)
    assert beside.predicted_upper == pytest.approx(1 + 0.46 * 0.5 * 0.5 * 1.1)
    assert (dict(beside.reasons), beside.note) == ({}, "")


def test_the_worst_of_several_gpus_is_foreseen():
    desk = Desk("best-fit", FOUR[:1], belief="additive")
    desk.tell(ProfileDefined(BUSY), ProfileDefined(SM500))
    desk.submit("pair", mps(500, gpus=2), profile="half")
    desk.submit("busy", mps(500), profile="busy")
    assert desk.scheduler.explain("pair").predicted_slowdown == pytest.approx(1.115)
    desk.submit("stranger", mps(300))
    assert desk.scheduler.explain("pair").predicted_slowdown is None


# who -> what is said of it
OUTCOMES = {
    "running": (Outcome.FIT, ""),
    "waiting": (Outcome.NO_FIT, "0 of 1 workers fit"),
    "claiming": (Outcome.PREEMPT, ""),
    "failed": (Outcome.FIT, "worker 0 exited with status 1"),
    "rejected": (Outcome.NO_FIT, f"{R.TOO_LARGE.value}: no free MIG slice of that profile (2)"),
}


@pytest.mark.parametrize(("who", "said"), OUTCOMES.items())
def test_what_is_said_of_whom(who, said):
    desk = Desk("srtf", FOUR[:1])
    desk.submit("failed", X1, duration_s=1.0)
    desk.tell(exited("failed", 1))
    desk.submit("running", X1, preemptible=False)
    desk.submit("leaving", X1, duration_s=50.0)
    desk.submit("claiming", X1, duration_s=5.0)
    desk.submit("waiting", X1, duration_s=20.0)
    desk.submit("rejected", Request(modes=MIG, mig_profile="1g.10gb", compute_milli=900))
    explanation = desk.scheduler.explain(who)
    assert (explanation.outcome, explanation.note) == said


def test_who_pushed_others_out_is_told_so_while_it_runs():
    desk = Desk("srtf", FOUR[:1])
    desk.submit("long", X2, duration_s=50.0)
    desk.submit("short", X1, duration_s=5.0)
    assert desk.scheduler.explain("short").outcome is Outcome.PREEMPT
    desk.tell(exited("long", 143))
    desk.tell(began("short"))
    assert desk.state("short").value == "running"
    assert desk.scheduler.explain("short").outcome is Outcome.PREEMPT
    desk.scheduler.record("short").outcome = None  # a record of an earlier version
    assert desk.scheduler.explain("short").outcome is Outcome.FIT


# what nobody could ever hold here -> the whole text
TOO_LARGE = {
    "more GPUs than a node has": (whole(4), 1, "not enough suitable GPUs on the node (5)"),
    "more workers than there is room for": (
        X1,
        6,
        "not enough room for all workers at once (1)",
    ),
    "more wide workers than there is room for": (X2, 3, "not enough room for all workers at once (1)"),
    "more memory than any GPU has": (
        whole(1, memory_bytes=81 * GIB),
        1,
        "not enough GPU memory (5); asked 81Gi a GPU, the largest has 80Gi",
    ),
    "memory of one model on the other": (
        whole(3, memory_bytes=40 * GIB),
        1,
        "not enough GPU memory (3), not enough suitable GPUs on the node (2)",
    ),
    "a model nobody has": (whole(1, gpu_models=("H100",)), 1, "other GPU model (5)"),
    "a slice where there is no MIG": (
        mig("1g.10gb", gpu_models=("V100",)),
        1,
        "no free MIG slice of that profile (3), other GPU model (2)",
    ),
    "a slice that nobody has": (mig("9g.99gb"), 1, "no free MIG slice of that profile (5)"),
    "more slices than fit": (
        mig("4g.40gb"),
        3,
        "no free MIG slice of that profile (3), not enough room for all workers at once (1)",
    ),
    "more shares than fit": (mps(600), 6, "not enough room for all workers at once (1)"),
    "more CPU than any node has": (whole(1, cpu_milli=9000), 1, "not enough CPU on the node (5)"),
    "more RAM than any node has": (whole(1, ram_bytes=9 * GIB), 1, "not enough RAM on the node (5)"),
    "more CPU without GPUs": (Request(gpus=0, cpu_milli=9000), 1, "not enough CPU on the node (2)"),
}


@pytest.mark.parametrize(("request_", "workers", "text"), TOO_LARGE.values(), ids=TOO_LARGE)
@pytest.mark.parametrize("policy", ["backfill", "fifo", "srtf"])
def test_what_no_node_could_ever_hold_is_rejected_at_once(request_, workers, text, policy):
    desk = Desk(policy, BOUNDED)
    desk.submit("running", X2)
    assert desk.submit("job", request_, workers=workers) == []
    record = desk.scheduler.record("job")
    assert record.failure == f"larger than the cluster could ever hold: {text}"
    assert (record.state, record.ended_s, record.attempt) == (JobState.REJECTED, desk.now_s, 0)


# what the cluster could hold if it were empty and whole waits instead
NOT_TOO_LARGE = {
    "all GPUs of a node": (whole(3), 1),
    "all GPUs there are": (X1, 5),
    "all wide workers there are room for": (X2, 2),
    "all memory of the largest": (whole(1, memory_bytes=80 * GIB), 2),
    "all slices": (mig("4g.40gb"), 2),
    "all shares": (mps(500), 10),
    "all CPU": (whole(1, cpu_milli=8000), 2),
    "two modes, where one alone has no room": (
        Request(compute_milli=500, modes=EXCLUSIVE | MPS | TIMESLICE),
        10,
    ),
}


@pytest.mark.parametrize(("request_", "workers"), NOT_TOO_LARGE.values(), ids=NOT_TOO_LARGE)
def test_what_the_empty_cluster_could_hold_waits(request_, workers):
    desk = Desk("backfill", BOUNDED)
    for i, free in enumerate((whole(2, cpu_milli=8000), whole(3, cpu_milli=8000))):
        assert desk.submit(f"r{i}", free) != []
    desk.tell(NodeLost("a"))
    desk.submit("job", request_, workers=workers)
    assert desk.state("job") is JobState.QUEUED
