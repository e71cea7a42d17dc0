"""The workers of a gang together: on one node, in one NVLink domain, in one rack, on GPUs of one type."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from placement.model import (
    InvalidSpec,
    Isolation,
    Level,
    Node,
    NodeJoined,
    NodeLost,
    Profile,
    ProfileDefined,
    Reason,
    Request,
    Together,
    node_from_short_form,
)
from placement.policies import policy_named
from placement.topology import aligned
from tests.cases.desk import WHOLE, Desk, exited, mps, stopped, turn, whole

T4, V100, A100 = "T4-16GB", "V100-SXM2-32GB", "A100-SXM4-80GB"
NODE, NVLINK, RACK, GPU_TYPE = (
    Together(level) for level in (Level.NODE, Level.NVLINK, Level.RACK, Level.GPU_TYPE)
)
MUST = {wish: Together(wish.level, required=True) for wish in (NODE, NVLINK, RACK, GPU_TYPE)}


def cluster(text: str) -> tuple[Node, ...]:
    """``a=4xV100@r1/n2`` is node a in rack r1 and NVLink domain n2; ``@/n2`` and ``@r1`` know only one."""
    nodes = []
    for piece in text.split():
        node_id, _, rest = piece.partition("=")
        gpus, _, place = rest.partition("@")
        rack, _, domain = place.partition("/")
        made = [
            node_from_short_form(part, f"{node_id}{'' if i == 0 else i}")
            for i, part in enumerate(gpus.split("+"))
        ]
        held = tuple(gpu for part in made for gpu in part.gpus)
        nodes.append(Node(node_id, held, nvlink_domain=domain or None, rack=rack or None))
    return tuple(nodes)


@dataclass(frozen=True)
class Case:
    """A cluster, those who are there before, the wish of a gang, and where its workers end up."""

    nodes: str
    wish: Together | None
    plan: str
    workers: int = 4
    before: list[tuple[str, Request]] = field(default_factory=list)
    request: Request = WHOLE
    policy: str = "best-fit"


# Best-fit by itself fills the smallest holes first: b and c, in two racks, before the four GPUs of a.
HOLES = f"a=4x{V100}@r1/n1 b=2x{V100}@r1/n2 c=2x{V100}@r2/n3"
RACKS = f"a=2x{V100}@r1 b=2x{V100}@r2 c=3x{V100}@r2 d=3x{V100}@r3"
DOMAINS = f"a=1x{V100}@r1/n1 b=3x{V100}@r1/n2 c=3x{V100}@r1/n2 d=2x{V100}@r2/n3 e=2x{V100}@r2/n3"
TYPES = f"a=2x{T4} b=2x{V100} c=2x{T4} d=1x{V100}"

NODES = {
    "without a wish each worker goes where it fits best": Case(HOLES, None, "b-0 b-1 c-0 c-1"),
    "one node that has room": Case(HOLES, NODE, "a-0 a-1 a-2 a-3"),
    "and must": Case(HOLES, MUST[NODE], "a-0 a-1 a-2 a-3"),
    "no node has room, so anywhere": Case(HOLES, NODE, "b-0 b-1 c-0 c-1 a-0", workers=5),
    "no node has room, so nowhere": Case(HOLES, MUST[NODE], "", workers=5),
    "the node in which the least is left": Case(f"a=8x{V100} b=4x{V100} c=5x{V100}", NODE, "b-0 b-1 b-2 b-3"),
    "the first node among equals": Case(f"b=4x{V100} a=4x{V100}", NODE, "a-0 a-1 a-2 a-3"),
    "a node of no known rack or domain": Case(f"a=1x{V100} b=2x{V100}", MUST[NODE], "b-0 b-1", workers=2),
    "workers of several GPUs": Case(
        f"a=2x{V100} b=2x{V100} c=5x{V100}", NODE, "c-0 c-1 c-2 c-3", workers=2, request=whole(2)
    ),
    "shares of one GPU": Case(
        f"a=1x{V100} b=2x{V100}", NODE, "b-0 b-0 b-1", workers=3, before=[("t", mps(500))], request=mps(400)
    ),
    "workers without GPUs": Case(f"a=1x{V100} b=2x{V100}", MUST[NODE], "a a", 2, request=Request(gpus=0)),
}  # fmt: skip
PLACES = {
    "one rack": Case(RACKS, RACK, "b-0 b-1 c-0 c-1", workers=4),
    "the rack in which the least is left": Case(f"{RACKS} e=1x{V100}@r3", RACK, "e-0 d-0 d-1 d-2", workers=4),
    "no rack has room, so anywhere": Case(RACKS, RACK, "a-0 a-1 b-0 b-1 c-0 c-1", workers=6),
    "no rack has room, so nowhere": Case(RACKS, MUST[RACK], "", workers=6),
    "one node of a rack before two": Case(RACKS, RACK, "c-0 c-1 c-2", workers=3),
    "an NVLink domain of a rack before a whole rack": Case(
        f"{DOMAINS} f=1x{V100}@r2/n4", RACK, "d-0 d-1 e-0 e-1"
    ),
    "nodes of unknown racks are in no rack together": Case(f"a=2x{V100} b=2x{V100}", MUST[RACK], ""),
    "a node of an unknown rack is in one": Case(f"a=2x{V100} b=4x{V100}", MUST[RACK], "b-0 b-1 b-2 b-3"),
    "one NVLink domain": Case(DOMAINS, NVLINK, "d-0 d-1 e-0 e-1"),
    "one NVLink domain, and must": Case(DOMAINS, MUST[NVLINK], "b-0 b-1 b-2 c-0 c-1", workers=5),
    "no domain has room, so nowhere": Case(DOMAINS, MUST[NVLINK], "", workers=7),
    "one node of a domain before two": Case(DOMAINS, NVLINK, "b-0 b-1 b-2", workers=3),
    "a node of no known domain is in none": Case(
        f"a=4x{V100}@r1 b=2x{V100}@r1/n1 c=2x{V100}@r2/n1", MUST[NVLINK], "b-0 b-1 c-0 c-1"
    ),
    "a domain over two racks is not one rack": Case(
        f"a=2x{V100}@r1/n1 b=2x{V100}@r2/n1 c=2x{V100}@r1", MUST[RACK], "a-0 a-1 c-0 c-1"
    ),
    "those who are there count": Case(
        f"a=2x{V100}@r1 b=2x{T4}@r1 c=2x{V100}@r2 d=1x{V100}@r2", MUST[RACK], "b-1 a-0 a-1",
        workers=3, before=[("t", whole(1, gpu_models=(T4,))), ("v", whole(1, gpu_models=(V100,)))],
    ),
}  # fmt: skip
TYPED = {
    "without a wish the types are mixed": Case(TYPES, None, "d-0 a-0 a-1 b-0"),
    "one type, the one of which the least is left": Case(TYPES, GPU_TYPE, "d-0 b-0 b-1", workers=3),
    "one type that has room": Case(TYPES, GPU_TYPE, "a-0 a-1 c-0 c-1"),
    "no type has room, so any": Case(TYPES, GPU_TYPE, "d-0 a-0 a-1 b-0 b-1", workers=5),
    "no type has room, so none": Case(TYPES, MUST[GPU_TYPE], "", workers=5),
    "of the types asked for": Case(
        f"{TYPES} e=4x{A100}", MUST[GPU_TYPE], "e-0 e-1 e-2 e-3",
        request=whole(1, gpu_models=("V100", "A100")),
    ),
    "a type whose name begins another's": Case(
        f"a=2xV100 b=1x{V100} c=2x{T4}", MUST[GPU_TYPE], "", workers=3
    ),
    "in a mode that all can use": Case(
        f"a=1x{A100} b=1x{V100}", MUST[GPU_TYPE], "b-0 b-0", workers=2, request=turn(500),
        before=[("m", mps(100, gpu_models=("A100",)))],
    ),
}  # fmt: skip
TABLES = {
    f"{name}: {case}": row
    for name, table in (("node", NODES), ("place", PLACES), ("type", TYPED))
    for case, row in table.items()
}


@pytest.fixture(params=["compiled", "one by one", "many at once"])
def compiled(request, monkeypatch) -> bool:
    monkeypatch.setattr("placement.engine.FEW_NODES", 0 if request.param == "many at once" else 1000)
    return request.param == "compiled"


def played(case: Case, *, compiled: bool = True) -> Desk:
    desk = Desk(case.policy, cluster(case.nodes), compiled=compiled)
    for job_id, request in case.before:
        desk.submit(job_id, request)
    desk.submit("gang", with_wish(case.request, case.wish), workers=case.workers)
    return desk


def with_wish(request: Request, wish: Together | None) -> Request:
    return replace(request, together=wish)


def slots(desk: Desk, job_id: str) -> str:
    return " ".join(place.partition(":")[0] for place in desk.holds(job_id).split())


@pytest.mark.parametrize("case", TABLES.values(), ids=TABLES)
def test_where_a_gang_goes(case, compiled):
    assert slots(played(case, compiled=compiled), "gang") == case.plan


NEVER = {
    "on one node": (HOLES, MUST[NODE], 5, 1),
    "in one rack": (RACKS, MUST[RACK], 7, 2),
    "in one NVLink domain": (DOMAINS, MUST[NVLINK], 8, 2),
    "on GPUs of one type": (TYPES, MUST[GPU_TYPE], 6, 2),
}


@pytest.mark.parametrize(("nodes", "wish", "workers", "missing"), NEVER.values(), ids=NEVER)
def test_what_can_never_be_together_is_rejected_with_the_reason(nodes, wish, workers, missing):
    desk = Desk("best-fit", cluster(nodes))
    desk.submit("gang", with_wish(whole(1), wish), workers=workers)
    assert desk.states() == "gang rejected"
    assert f"{Reason.TOGETHER.value} ({missing})" in desk.scheduler.record("gang").failure


WAITING = {
    "apart there is room": ([3], {Reason.GPU_BUSY: 3, Reason.TOGETHER: 2}, "2 of 4 workers fit on one node"),
    "there is no room at all": (
        [3, 2],
        {Reason.GPU_BUSY: 5, Reason.GANG: 2},
        "2 of 4 workers fit on one node",
    ),
}


@pytest.mark.parametrize(("before", "reasons", "note"), WAITING.values(), ids=WAITING)
def test_why_a_gang_waits_and_until_when(before, reasons, note):
    desk = Desk("best-fit", cluster(HOLES))
    for i, gpus in enumerate(before):
        desk.submit(f"j{i}", whole(gpus))
    desk.submit("gang", with_wish(whole(1), MUST[NODE]), workers=4)
    why = desk.scheduler.explain("gang")
    assert (desk.holds("gang"), desk.reasons("gang"), why.note) == ("", reasons, note)
    desk.tell(exited("j0"))
    assert slots(desk, "gang") == "a-0 a-1 a-2 a-3"


def test_a_domain_that_would_break_a_promise_is_left_out(compiled):
    desk = Desk("best-fit", cluster(f"a=1x{A100} b=1x{A100}"), belief="additive", compiled=compiled)
    desk.tell(ProfileDefined(Profile("p", sm_milli=400, dram_milli=700)))
    strict, loose = mps(400, max_slowdown=1.4), mps(200)
    desk.submit("host", strict, profile="p")
    for level, place in ((NODE, "b-0 b-0 b-0"), (MUST[NODE], "")):
        desk.submit(f"gang {level.required}", with_wish(loose, level), profile="p", workers=3)
        assert slots(desk, f"gang {level.required}") == place


def test_isolation_holds_within_a_domain(compiled):
    """The node in which the least is left is full of strangers for one tenant, and home for the other."""
    for tenant, place in (("blue", "b-0 b-0"), ("red", "a-0 a-0")):
        desk = Desk("best-fit", cluster(f"a=1x{V100} b=1x{V100}"), compiled=compiled)
        apart = mps(300, isolation=Isolation.TENANT)
        desk.submit("host", apart, tenant="red")
        desk.submit("gang", with_wish(apart, MUST[NODE]), tenant=tenant, workers=2)
        assert slots(desk, "gang") == place


def test_nobody_is_pushed_out_for_a_gang_that_still_would_not_be_together():
    desk = Desk("srtf", cluster(f"a=2x{V100} b=2x{V100}"))
    for i in range(4):
        desk.submit(f"j{i}", duration_s=1000.0, preemptible=i % 2 == 1)
    assert desk.submit("gang", with_wish(whole(1), MUST[NODE]), workers=2, duration_s=10.0) == []
    assert desk.submit("apart", whole(1), workers=2, duration_s=10.0) != []


def test_a_gang_takes_the_place_of_those_whose_leaving_brings_it_together():
    desk = Desk("srtf", cluster(f"a=2x{V100} b=2x{V100}"))
    for i in range(3):
        desk.submit(f"long{i}", whole(1), duration_s=1000.0 + i)
    assert desk.submit("gang", with_wish(whole(1), MUST[NODE]), workers=2, duration_s=10.0) == [
        "stop long2.0 preempted"
    ]
    assert desk.tell(stopped("long2")) == ["start gang.0 b-0", "start gang.1 b-1"]


def test_a_node_that_moves_to_another_rack():
    here, there = (cluster(f"a=2x{V100}@r1 b=2x{V100}@{rack}") for rack in ("r2", "r1"))
    desk = Desk("best-fit", here)
    desk.submit("early", with_wish(whole(1), MUST[RACK]), workers=3)
    desk.tell(*map(NodeJoined, there))
    desk.submit("late", with_wish(whole(1), MUST[RACK]), workers=3)
    assert (desk.state("early").value, slots(desk, "late")) == ("rejected", "a-0 a-1 b-0")


def test_a_lost_node_is_in_no_domain():
    desk = Desk("best-fit", cluster(f"a=2x{V100}@r1 b=2x{V100}@r1 c=4x{V100}@r2"))
    desk.tell(NodeLost("b"))
    desk.submit("gang", with_wish(whole(1), MUST[RACK]), workers=3)
    assert slots(desk, "gang") == "c-0 c-1 c-2"


@pytest.mark.parametrize(
    ("gathers", "wish", "plan"), [(False, None, "b-0 b-1 c-0"), (True, None, "a-0 a-1 a-2")]
)
def test_a_policy_that_gathers_wishes_for_all_gangs(gathers, wish, plan, monkeypatch):
    placement = type(policy_named("best-fit").placement)
    monkeypatch.setattr(placement, "gathers", gathers)
    desk = Desk("best-fit", cluster(HOLES))
    desk.submit("gang", with_wish(whole(1), wish), workers=3)
    assert slots(desk, "gang") == plan


def test_a_policy_that_gathers_lets_a_gang_wish_otherwise(monkeypatch):
    monkeypatch.setattr(type(policy_named("best-fit").placement), "gathers", True)
    desk = Desk("best-fit", cluster(f"a=4x{V100} b=2x{V100} c=1x{T4}"))
    desk.submit("gang", with_wish(whole(1, gpu_models=(V100,)), GPU_TYPE), workers=3)
    assert slots(desk, "gang") == "b-0 b-1 a-0"


@pytest.mark.parametrize("level", [Level.NVLINK, Level.GPU_TYPE])
def test_workers_without_gpus_have_no_gpus_in_common(level):
    with pytest.raises(
        InvalidSpec, match=f"together: {level.value} is about GPUs, and the workers ask for none"
    ):
        Request(gpus=0, together=Together(level))


ALIGNED = {
    "a pair": ([0, 1, 2, 3], 2, [0, 1]),
    "the smallest block that holds them": ([1, 2, 3], 2, [2, 3]),
    "a quad for three": ([1, 2, 4, 5, 6, 7], 3, [4, 5, 6]),
    "no block": ([1, 2], 2, [1, 2]),
    "a pair rather than half of a quad": ([0, 1, 2, 3, 6, 7], 2, [6, 7]),
}


@pytest.mark.parametrize(("empty", "wanted", "slots_"), ALIGNED.values(), ids=ALIGNED)
def test_whole_gpus_in_aligned_blocks(empty, wanted, slots_):
    assert [*aligned(tuple(empty), wanted)] == slots_
