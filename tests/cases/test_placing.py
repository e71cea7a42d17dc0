"""Cluster and queue on the left, who gets which place on the right."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from placement.model import Node, NodeLost, Request
from tests.cases.desk import EXCLUSIVE, MIG, MPS, TIMESLICE, Desk, exited, mig, mps, node, turn, whole

V100, T4, A100 = "V100-SXM2-32GB", "T4-16GB", "A100-SXM4-80GB"
GIB = 1 << 30
ANY = EXCLUSIVE | MIG | MPS | TIMESLICE


@dataclass
class Case:
    """``queue`` is submitted one by one; ``plan`` says where each ends up, empty for who waits."""

    policy: str
    cluster: str
    queue: list[tuple[str, Request]]
    plan: dict[str, str]
    fields: dict = field(default_factory=dict)


def cluster(text: str) -> tuple[Node, ...]:
    """``a=2xV100 b=cpu4`` -> nodes a and b; ``cpu4`` and ``ram8`` bound cores and GiB."""
    nodes = []
    for piece in text.split():
        node_id, _, rest = piece.partition("=")
        parts = rest.split("/")
        bounds = {part[:3]: int(part[3:]) for part in parts if part[:3] in ("cpu", "ram")}
        gpus = next((part for part in parts if part[:3] not in ("cpu", "ram")), None)
        cpu, ram = bounds.get("cpu"), bounds.get("ram")
        nodes.append(
            node(node_id, gpus, None if cpu is None else cpu * 1000, None if ram is None else ram * GIB)
        )
    return tuple(nodes)


def cpu(cores: int = 0, ram: int = 0) -> Request:
    return Request(gpus=0, cpu_milli=cores * 1000, ram_bytes=ram * GIB)


X1, X2 = whole(1), whole(2)
TWO_NODES = f"a=2x{V100} b=2x{V100}"

WHOLE_GPUS = {
    "best-fit fills the node that is fullest": Case(
        "best-fit",
        f"a=4x{V100} b=2x{V100} c=3x{V100}",
        [("j1", X1), ("j2", X1), ("j3", X1), ("j4", X1)],
        {"j1": "b-0", "j2": "b-1", "j3": "c-0", "j4": "c-1"},
    ),
    "best-fit takes the node that is left empty": Case(
        "best-fit",
        f"a=4x{V100} b=3x{V100}",
        [("j1", whole(3)), ("j2", whole(4))],
        {"j1": "b-0 b-1 b-2", "j2": "a-0 a-1 a-2 a-3"},
    ),
    "spread takes the node with the most room": Case(
        "spread",
        f"a=2x{V100} b=4x{V100} c=3x{V100}",
        [("j1", X1), ("j2", X1), ("j3", X1), ("j4", X1)],
        {"j1": "b-0", "j2": "b-1", "j3": "c-0", "j4": "a-0"},
    ),
    "ties go to the first node and slot": Case(
        "best-fit", "b=2xT4-16GB a=2xT4-16GB", [("j1", X1), ("j2", X1)], {"j1": "a-0", "j2": "a-1"}
    ),
    "a worker's GPUs are on one node": Case(
        "backfill", f"a=1x{V100} b=1x{V100} c=2x{V100}", [("j", X2)], {"j": "c-0 c-1"}
    ),
    "a GPU model is honoured": Case(
        "best-fit",
        f"a=1x{T4} b=1x{V100} c=1x{T4}",
        [("j1", whole(1, gpu_models=("V100",))), ("j2", whole(1, gpu_models=("v100", "T4-16GB")))],
        {"j1": "b-0", "j2": "a-0"},
    ),
    "a model that is there but taken": Case(
        "best-fit",
        f"a=1x{T4} b=1x{V100}",
        [("j1", whole(1, gpu_models=("V100",))), ("j2", whole(1, gpu_models=("V100",)))],
        {"j1": "b-0", "j2": ""},
    ),
    "memory rules smaller GPUs out": Case(
        "best-fit",
        f"a=1x{T4} b=1x{V100}",
        [("j1", whole(1, memory_bytes=17 * GIB)), ("j2", whole(1, memory_bytes=16 * GIB))],
        {"j1": "b-0", "j2": "a-0"},
    ),
}
BESIDE_GPUS = {
    "CPU rules a node out": Case(
        "best-fit", f"a=1x{V100}/cpu2 b=1x{V100}/cpu8", [("j", whole(1, cpu_milli=4000))], {"j": "b-0"}
    ),
    "RAM rules a node out": Case(
        "best-fit", f"a=1x{V100}/ram2 b=1x{V100}/ram8", [("j", whole(1, ram_bytes=4 * GIB))], {"j": "b-0"}
    ),
    "CPU is used up": Case(
        "best-fit",
        f"a=3x{V100}/cpu4",
        [
            ("j1", whole(1, cpu_milli=3000)),
            ("j2", whole(1, cpu_milli=2000)),
            ("j3", whole(1, cpu_milli=1000)),
        ],
        {"j1": "a-0", "j2": "", "j3": "a-1"},
    ),
    "RAM is used up": Case(
        "best-fit",
        f"a=3x{V100}/ram4",
        [("j1", whole(1, ram_bytes=3 * GIB)), ("j2", whole(1, ram_bytes=2 * GIB)), ("j3", X1)],
        {"j1": "a-0", "j2": "", "j3": "a-1"},
    ),
    "without bounds CPU and RAM never run out": Case(
        "best-fit", "a", [("j1", cpu(10**6, 10**6)), ("j2", cpu(10**6, 10**6))], {"j1": "a", "j2": "a"}
    ),
    "a job without GPUs leaves the larger room for GPUs": Case(
        "best-fit", f"a=2x{V100}/cpu4 b=cpu4", [("j1", cpu(4)), ("j2", cpu(4))], {"j1": "b", "j2": "a"}
    ),
    "spread puts a job without GPUs where most is free": Case(
        "spread", f"a=cpu4 b=2x{V100}/cpu4", [("j1", cpu(4)), ("j2", cpu(4))], {"j1": "b", "j2": "a"}
    ),
    "CPU bounds a gang on each node": Case(
        "best-fit",
        f"a=4x{V100}/cpu2 b=4x{V100}/cpu2",
        [("j", whole(1, cpu_milli=1000))],
        {"j": "a-0 a-1 b-0 b-1"},
        {"workers": 4},
    ),
}
GANGS = {
    "a gang spreads over nodes where it must": Case(
        "best-fit", f"a=1x{V100} b=2x{V100}", [("j", X1)], {"j": "a-0 b-0 b-1"}, {"workers": 3}
    ),
    "workers of two GPUs each": Case(
        "best-fit", f"a=3x{V100} b=3x{V100}", [("j", X2)], {"j": "a-0 a-1 b-0 b-1"}, {"workers": 2}
    ),
    "all or nobody": Case(
        "best-fit",
        f"a=4x{V100} b=2x{V100}",
        [("j1", X2), ("j2", X2), ("j3", X1)],
        {"j1": "b-0 b-1 a-0 a-1", "j2": "", "j3": "a-2 a-3"},
        {"workers": 2},
    ),
    "workers that share GPUs": Case(
        "best-fit",
        f"a=2x{V100}",
        [("j", mps(400))],
        {"j": "a-0:mps:400 a-0:mps:400 a-1:mps:400"},
        {"workers": 3},
    ),
    "workers in MIG slices": Case(
        "best-fit",
        f"a=2x{A100}",
        [("j", mig("3g.40gb"))],
        {"j": "a-0:3g.40gb@4 a-0:3g.40gb@0 a-1:3g.40gb@4"},
        {"workers": 3},
    ),
}
B100, HUGE = mps(100, gpu_models=("T4",)), turn(100, memory_bytes=900 * GIB)
SHARED = {
    "MPS fills the GPU that is fullest": Case(
        "best-fit",
        f"a=2x{V100}",
        [("j1", mps(600)), ("j2", mps(500)), ("j3", mps(400)), ("j4", mps(500))],
        {"j1": "a-0:mps:600", "j2": "a-1:mps:500", "j3": "a-0:mps:400", "j4": "a-1:mps:500"},
    ),
    "best-fit counts 16 cores that are left like one GPU, and looks at the GPUs last": Case(
        "best-fit",
        f"a=1x{T4}/cpu128 b=4x{V100}/cpu64",
        [("j1", B100), ("j2", mps(300))],
        {"j2": "b-0:mps:300"},
    ),
    "to best-fit nodes that differ by less than a hundredth are equal": Case(
        "best-fit",
        f"a=1x{V100}/cpu8 b=1x{T4}/cpu8",
        [("j1", B100), ("j2", mps(100)), ("j3", B100), ("j4", mps(100))],
        {"j1": "b-0:mps:100", "j2": "a-0:mps:100", "j3": "b-0:mps:100", "j4": "b-0:mps:100"},
    ),
    "spread looks at the node before the GPU": Case(
        "spread",
        f"a=1x{V100} b=2x{V100}",
        [("j1", mps(300)), ("j2", mps(300)), ("j3", mps(500)), ("j4", mps(100))],
        {"j1": "b-0:mps:300", "j2": "b-1:mps:300", "j3": "b-0:mps:500", "j4": "a-0:mps:100"},
    ),
    "compute is full": Case(
        "backfill",
        f"a=1x{V100}",
        [("j1", mps(700)), ("j2", mps(301)), ("j3", mps(300)), ("j4", mps(1))],
        {"j1": "a-0:mps:700", "j2": "", "j3": "a-0:mps:300", "j4": ""},
    ),
    "memory is full": Case(
        "backfill",
        f"a=1x{V100}",
        [
            ("j1", mps(100, memory_bytes=20 * GIB)),
            ("j2", mps(100, memory_bytes=12 * GIB + 1)),
            ("j3", mps(100, memory_bytes=12 * GIB)),
            ("j4", mps(100)),
        ],
        {"j1": "a-0:mps:100", "j2": "", "j3": "a-0:mps:100", "j4": "a-0:mps:100"},
    ),
    "memory of a GPU that tells none is never full": Case(
        "backfill",
        "a=1xG2",
        [("j1", HUGE), ("j2", HUGE)],
        {"j1": "a-0:timeslice:100", "j2": "a-0:timeslice:100"},
    ),
    "time slices share like MPS": Case(
        "backfill",
        f"a=1x{T4}",
        [("j1", turn(500)), ("j2", turn(500)), ("j3", turn(1))],
        {"j1": "a-0:timeslice:500", "j2": "a-0:timeslice:500", "j3": ""},
    ),
    "MPS and time slices never on one GPU": Case(
        "backfill",
        f"a=1x{T4}",
        [("j1", mps(100)), ("j2", turn(100)), ("j3", mps(100))],
        {"j1": "a-0:mps:100", "j2": "", "j3": "a-0:mps:100"},
    ),
    "MIG and MPS never on one GPU": Case(
        "backfill",
        f"a=1x{A100}",
        [("j1", mig("1g.10gb")), ("j2", mps(100)), ("j3", turn(100)), ("j4", X1), ("j5", mig("1g.10gb"))],
        {"j1": "a-0:1g.10gb@6", "j2": "", "j3": "", "j4": "", "j5": "a-0:1g.10gb@5"},
    ),
    "nobody joins an exclusive job": Case(
        "backfill",
        f"a=1x{A100}",
        [("j1", X1), ("j2", mps(1)), ("j3", turn(1)), ("j4", mig("1g.10gb")), ("j5", X1)],
        {"j1": "a-0:exclusive:1000", "j2": "", "j3": "", "j4": "", "j5": ""},
    ),
    "an exclusive job joins nobody": Case(
        "backfill", f"a=1x{A100}", [("j1", mps(1)), ("j2", X1)], {"j1": "a-0:mps:1", "j2": ""}
    ),
    "shares before slices before a whole GPU": Case(
        "backfill",
        f"a=1x{A100} b=1x{A100} c=1x{A100} d=1x{A100}",
        [
            ("j1", Request(compute_milli=500, modes=ANY)),
            ("j2", Request(compute_milli=501, modes=TIMESLICE | MIG | EXCLUSIVE)),
            ("j3", Request(compute_milli=501, modes=MIG | EXCLUSIVE)),
            ("j4", Request(compute_milli=501, modes=EXCLUSIVE)),
        ],
        {"j1": "a-0:mps:500", "j2": "b-0:timeslice:501", "j3": "c-0:4g.40gb@0", "j4": "d-0:exclusive:1000"},
    ),
    "the second choice where there is none of the first": Case(
        "backfill",
        f"a=1x{A100}",
        [("j1", turn(500)), ("j2", Request(compute_milli=200, modes=MPS | TIMESLICE))],
        {"j1": "a-0:timeslice:500", "j2": "a-0:timeslice:200"},
    ),
    "a worker's shares are on different GPUs": Case(
        "backfill",
        f"a=2x{V100}",
        [("j1", mps(300, gpus=2)), ("j2", mps(701)), ("j3", mps(700, gpus=2))],
        {"j1": "a-0:mps:300 a-1:mps:300", "j2": "", "j3": "a-0:mps:700 a-1:mps:700"},
    ),
    "48 clients of one MPS server": Case(
        "backfill",
        f"a=1x{V100}",
        [*((f"j{i}", mps(10)) for i in range(48)), ("last", mps(10)), ("other", turn(10))],
        {**{f"j{i}": "a-0:mps:10" for i in range(48)}, "last": "", "other": ""},
    ),
    "48 clients keep a worker of two GPUs out": Case(
        "best-fit",
        f"a=2x{V100}",
        [*((f"j{i}", mps(10)) for i in range(48)), ("pair", mps(10, gpus=2)), ("one", mps(10))],
        {"j47": "a-0:mps:10", "pair": "", "one": "a-1:mps:10"},
    ),
    "memory of one GPU keeps a worker of two out": Case(
        "best-fit",
        f"a=2x{V100}",
        [("j1", mps(10, memory_bytes=30 * GIB)), ("pair", mps(10, memory_bytes=3 * GIB, gpus=2))],
        {"j1": "a-0:mps:10", "pair": ""},
    ),
    "time slices have no clients": Case(
        "backfill", f"a=1x{V100}", [(f"j{i}", turn(10)) for i in range(60)], {"j59": "a-0:timeslice:10"}
    ),
}
SLICES = {
    "small slices leave room for a large one": Case(
        "best-fit",
        f"a=1x{A100}",
        [("j1", mig("1g.10gb")), ("j2", mig("2g.20gb")), ("j3", mig("4g.40gb"))],
        {"j1": "a-0:1g.10gb@6", "j2": "a-0:2g.20gb@4", "j3": "a-0:4g.40gb@0"},
    ),
    "a second 4g waits": Case(
        "best-fit",
        f"a=1x{A100}",
        [("j1", mig("4g.40gb")), ("j2", mig("4g.40gb")), ("j3", mig("3g.40gb"))],
        {"j1": "a-0:4g.40gb@0", "j2": "", "j3": "a-0:3g.40gb@4"},
    ),
    "the slice that holds compute and memory": Case(
        "best-fit",
        f"a=1x{A100}",
        [("j1", Request(modes=MIG, compute_milli=100, memory_bytes=15 * GIB))],
        {"j1": "a-0:1g.20gb@6"},
    ),
    "best-fit fills the GPU that is cut": Case(
        "best-fit",
        f"a=2x{A100}",
        [(f"j{i}", mig("1g.10gb")) for i in range(1, 9)],
        {"j1": "a-0:1g.10gb@6", "j7": "a-0:1g.10gb@0", "j8": "a-1:1g.10gb@6"},
    ),
    "spread cuts the other GPU": Case(
        "spread",
        f"a=2x{A100}",
        [("j1", mig("1g.10gb")), ("j2", mig("1g.10gb"))],
        {"j1": "a-0:1g.10gb@6", "j2": "a-1:1g.10gb@6"},
    ),
    "seven slices fill a GPU as one large one does": Case(
        "best-fit",
        f"a=1x{A100} b=1x{A100}",
        [*((f"j{i}", mig("1g.10gb")) for i in range(7)), ("large", mig("7g.80gb")), ("cpu", cpu(1))],
        {"j6": "a-0:1g.10gb@0", "large": "b-0:7g.80gb@0", "cpu": "a"},
    ),
    "one media engine": Case(
        "best-fit",
        f"a=1x{A100}",
        [("j1", mig("1g.10gb+me")), ("j2", mig("1g.10gb+me")), ("j3", mig("1g.10gb"))],
        {"j1": "a-0:1g.10gb+me@6", "j2": "", "j3": "a-0:1g.10gb@5"},
    ),
}
TABLES = {**WHOLE_GPUS, **BESIDE_GPUS, **GANGS, **SHARED, **SLICES}


@pytest.fixture(params=["compiled", "one by one", "many at once"])
def compiled(request, monkeypatch) -> bool:
    """The three ways in which nodes are looked at must choose alike."""
    if request.param == "many at once":
        monkeypatch.setattr("placement.engine.FEW_NODES", 0)
    elif request.param == "one by one":
        monkeypatch.setattr("placement.engine.FEW_NODES", 1000)
    return request.param == "compiled"


def played(case: Case, *, compiled: bool = True) -> Desk:
    desk = Desk(case.policy, cluster(case.cluster), compiled=compiled)
    for job_id, request in case.queue:
        desk.submit(job_id, request, **case.fields)
    return desk


def where(desk: Desk, job_id: str, expected: str) -> str:
    """What a job holds, in as many words as expected."""
    held = desk.holds(job_id)
    return held if ":" in expected else held.replace(":exclusive:1000", "")


@pytest.mark.parametrize("case", TABLES.values(), ids=TABLES)
def test_who_gets_which_place(case, compiled):
    desk = played(case, compiled=compiled)
    assert {job_id: where(desk, job_id, place) for job_id, place in case.plan.items()} == case.plan


@pytest.mark.parametrize("case", TABLES.values(), ids=TABLES)
def test_when_all_have_left_the_cluster_is_as_good_as_new(case):
    desk, fresh = played(case), Desk(case.policy, cluster(case.cluster))
    tables = desk.scheduler.cluster, fresh.scheduler.cluster
    desk.leave_all()
    assert (tables[0].gpus == tables[1].gpus).all()
    assert (tables[0].nodes == tables[1].nodes).all()
    assert all(state.endswith("cancelled") for state in desk.states().split(", "))


@pytest.mark.parametrize("request_", [X1, mps(100), cpu(1)])
def test_nothing_goes_to_a_lost_node(request_, compiled):
    desk = Desk("best-fit", cluster(f"a=1x{V100} b=2x{V100}"), compiled=compiled)
    desk.submit("before", whole(1, cpu_milli=1))
    desk.tell(NodeLost("b"), exited("before"))
    desk.submit("j1", request_)
    desk.tell(NodeLost("a"))
    desk.submit("j2", request_)
    assert (desk.holds("j1")[:1], desk.holds("j2")) == ("a", "")


def test_a_gang_that_waits_holds_nothing():
    desk = Desk("backfill", cluster(f"a=3x{V100}"))
    desk.submit("first", X1)
    desk.submit("gang", X1, workers=3)
    assert desk.holds("gang") == ""
    assert desk.submit("after", X2) == ["start after.0 a-1,a-2"]
