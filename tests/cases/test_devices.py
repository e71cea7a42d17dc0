"""Several shares of one worker: each on another GPU, or all on the same one, as the request says."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from placement import columns
from placement.ask import compile_ask
from placement.cluster import Cluster
from placement.interference import AdditiveInterference
from placement.lodgings import Holder
from placement.mix import UsualRequest
from placement.model import (
    Assignment,
    Devices,
    InvalidAmount,
    InvalidSpec,
    Isolation,
    JobCancelled,
    Mode,
    Profile,
    ProfileDefined,
    Reason,
    Request,
    Share,
)
from placement.partition.geometry import geometry_of
from placement.policies.best_fit import BestFit
from tests.cases.desk import (
    GIB,
    MIG,
    MPS,
    TIMESLICE,
    WHOLE,
    Desk,
    began,
    exited,
    mig,
    mps,
    node,
    stopped,
    turn,
)
from tests.cases.movers import Moving, moving_registered

SAME, DISTINCT = Devices.SAME, Devices.DISTINCT
V100, A100 = "V100-SXM2-32GB", "A100-SXM4-80GB"
ANY = frozenset(Mode)


@dataclass(frozen=True)
class Case:
    """GPUs of nodes a, b, ..., jobs in the order in which they come, and what each ends up with."""

    gpus: str
    queue: list[tuple[str, Request]]
    plan: dict[str, str]
    fields: dict = field(default_factory=dict)
    policy: str = "best-fit"


def same(request_of, share, count=2, **fields) -> Request:
    return request_of(share, gpus=count, devices=SAME, **fields)


CASES = {
    "two shares are on two GPUs unless said otherwise": Case(
        f"2x{V100}", [("j", mps(300, gpus=2))], {"j": "a-0:mps:300 a-1:mps:300"}
    ),
    "two shares of the same GPU": Case(
        f"2x{V100}", [("j", same(mps, 300))], {"j": "a-0:mps:300 a-0:mps:300"}
    ),
    "one GPU is enough for the same, not for different ones": Case(
        f"1x{V100}",
        [("apart", mps(300, gpus=2)), ("j", same(mps, 300))],
        {"apart": "", "j": "a-0:mps:300 a-0:mps:300"},
    ),
    "all of them fit or none": Case(
        f"2x{V100}",
        [("j1", mps(500)), ("j2", mps(500, gpus=2)), ("j3", same(mps, 300)), ("j4", mps(500))],
        {"j1": "a-0:mps:500", "j2": "a-0:mps:500 a-1:mps:500", "j3": "", "j4": "a-1:mps:500"},
    ),
    "time slices": Case(
        f"1x{V100}",
        [("j1", same(turn, 250, 3)), ("j2", same(turn, 150)), ("j3", turn(250))],
        {"j1": "a-0:timeslice:250 a-0:timeslice:250 a-0:timeslice:250", "j2": "", "j3": "a-0:timeslice:250"},
    ),
    "memory counts for each": Case(
        f"1x{V100}",
        [("j1", same(mps, 100, memory_bytes=16 * GIB)), ("j2", mps(100, memory_bytes=1))],
        {"j1": "a-0:mps:100 a-0:mps:100", "j2": ""},
    ),
    "memory that is there only once": Case(
        f"1x{V100}",
        [("j1", mps(100, memory_bytes=1)), ("j2", same(mps, 100, memory_bytes=16 * GIB))],
        {"j1": "a-0:mps:100", "j2": ""},
    ),
    "each is a client of the MPS server": Case(
        f"1x{V100}",
        [("j1", same(mps, 10, 46)), ("j2", same(mps, 10, 3)), ("j3", same(mps, 10, 2)), ("j4", mps(10))],
        {"j1": " ".join(["a-0:mps:10"] * 46), "j2": "", "j3": "a-0:mps:10 a-0:mps:10", "j4": ""},
    ),
    "two slices of one GPU": Case(
        f"2x{A100}", [("j", same(mig, "3g.40gb"))], {"j": "a-0:3g.40gb@4 a-0:3g.40gb@0"}
    ),
    "slices on different GPUs": Case(
        f"2x{A100}", [("j", mig("3g.40gb", gpus=2))], {"j": "a-0:3g.40gb@4 a-1:3g.40gb@4"}
    ),
    "slices one after the other, where there is room": Case(
        f"1x{A100}",
        [("j1", mig("2g.20gb")), ("j2", same(mig, "2g.20gb", 3)), ("j3", same(mig, "1g.10gb", 5))],
        {
            "j1": "a-0:2g.20gb@4",
            "j2": "",
            "j3": " ".join(f"a-0:1g.10gb@{start}" for start in (6, 3, 2, 1, 0)),
        },
    ),
    "the mode in which both fit": Case(
        f"1x{A100}",
        [("j1", same(mps, 400)), ("j2", Request(gpus=2, compute_milli=100, modes=ANY, devices=SAME))],
        {"j1": "a-0:mps:400 a-0:mps:400", "j2": "a-0:mps:100 a-0:mps:100"},
    ),
    "never as whole GPUs": Case(
        f"2x{V100}",
        [("j1", turn(100)), ("j2", mps(100)), ("j3", Request(gpus=2, compute_milli=480, devices=SAME))],
        {"j1": "a-0:timeslice:100", "j2": "a-1:mps:100", "j3": ""},
    ),
    "a gang of pairs": Case(
        f"2x{V100} 1x{V100}",
        [("j", same(mps, 300))],
        {"j": "b-0:mps:300 b-0:mps:300 a-0:mps:300 a-0:mps:300 a-1:mps:300 a-1:mps:300"},
        {"workers": 3},
    ),
    "CPU is asked for once a worker": Case(
        f"1x{V100}/2000",
        [("j1", same(mps, 100, 5, cpu_milli=1500)), ("j2", mps(100, cpu_milli=501))],
        {"j1": " ".join(["a-0:mps:100"] * 5), "j2": ""},
    ),
    "a tenant that wants no neighbours is its own neighbour": Case(
        f"1x{V100}",
        [("j1", same(mps, 100, isolation=Isolation.TENANT)), ("j2", mps(100))],
        {"j1": "a-0:mps:100 a-0:mps:100", "j2": "a-0:mps:100"},
    ),
}


def nodes_of(text: str):
    nodes = []
    for node_id, piece in zip("abcdefgh", text.split(), strict=False):
        gpus, _, cpu = piece.partition("/")
        nodes.append(node(node_id, gpus, int(cpu) if cpu else None))
    return tuple(nodes)


@pytest.fixture(params=["compiled", "one by one", "many at once"])
def compiled(request, monkeypatch) -> bool:
    monkeypatch.setattr("placement.engine.FEW_NODES", 0 if request.param == "many at once" else 1000)
    return request.param == "compiled"


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_where_shares_go(case, compiled):
    desk = Desk(case.policy, nodes_of(case.gpus), compiled=compiled)
    for job_id, request in case.queue:
        desk.submit(job_id, request, **case.fields)
    assert {job_id: desk.holds(job_id) for job_id in case.plan} == case.plan


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_when_all_have_left_the_cluster_is_as_good_as_new(case):
    desk, fresh = (Desk(case.policy, nodes_of(case.gpus)) for _ in range(2))
    for job_id, request in case.queue:
        desk.submit(job_id, request, **case.fields)
    desk.leave_all()
    assert (desk.scheduler.cluster.gpus == fresh.scheduler.cluster.gpus).all()
    assert (desk.scheduler.cluster.nodes == fresh.scheduler.cluster.nodes).all()


NEVER = {
    "more memory than a GPU has": (
        f"2x{V100}", Request(gpus=2, memory_bytes=17 * GIB, devices=SAME), Reason.GPU_MEMORY
    ),
    "slices, which alone isolate": (
        f"2x{V100}",
        Request(gpus=2, compute_milli=100, isolation=Isolation.HARDWARE, devices=SAME),
        Reason.MIG_GEOMETRY,
    ),
    "whole GPUs for lack of a share": (f"2x{V100}", Request(gpus=2, devices=SAME), Reason.GPU_COMPUTE),
    "more slices than there is room for": (f"2x{A100}", same(mig, "4g.40gb"), Reason.MIG_GEOMETRY),
    "slices of a GPU without any": (
        f"2x{V100}", Request(gpus=2, compute_milli=100, modes=MIG, devices=SAME), Reason.MIG_GEOMETRY
    ),
    "more clients than a server has": (f"2x{V100}", same(mps, 10, 49), Reason.MPS_CLIENTS),
}  # fmt: skip


@pytest.mark.parametrize(("gpus", "request_", "reason"), NEVER.values(), ids=NEVER)
def test_what_no_gpu_can_hold_is_rejected_with_the_reason(gpus, request_, reason):
    desk = Desk("best-fit", nodes_of(gpus))
    desk.submit("j", request_)
    assert desk.states() == "j rejected"
    assert f"{reason.value} (2)" in desk.scheduler.record("j").failure


WAITING = {
    "compute": ([("j1", mps(500))], same(mps, 300), {Reason.GPU_COMPUTE: 1}),
    "memory": ([("j", mps(9, memory_bytes=2))], same(mps, 9, memory_bytes=16 * GIB), {Reason.GPU_MEMORY: 1}),
    "clients": ([("j1", same(mps, 10, 47))], same(mps, 10), {Reason.MPS_CLIENTS: 1}),
}  # fmt: skip


@pytest.mark.parametrize(("held", "request_", "reasons"), WAITING.values(), ids=WAITING)
def test_why_they_wait(held, request_, reasons):
    desk = Desk("best-fit", nodes_of(f"1x{V100}"))
    for job_id, request in held:
        desk.submit(job_id, request)
    desk.submit("pair", request_)
    assert (desk.state("pair").value, desk.reasons("pair")) == ("queued", reasons)


PROMISES = {
    "one alone is not slowed": (mps(400, max_slowdown=1.2), True),
    "its own second share slows it": (same(mps, 400, max_slowdown=1.2), False),
    "and may": (same(mps, 400, max_slowdown=1.6), True),
    "on different GPUs it would not": (mps(400, max_slowdown=1.2, gpus=2), True),
}


@pytest.mark.parametrize(("request_", "placed"), PROMISES.values(), ids=PROMISES)
def test_a_promise_holds_beside_ones_own_shares(request_, placed):
    """SM use of 0.4 beside as much: 1 + 0.46 x 0.4 x 0.4 and DRAM 0.35 x 0.7 x 0.7, a tenth of it on top."""
    desk = Desk("best-fit", nodes_of(f"2x{A100}"), belief="additive")
    desk.tell(ProfileDefined(Profile("p", sm_milli=400, dram_milli=700)))
    desk.submit("j", request_, profile="p")
    assert bool(desk.holds("j")) == placed


def test_a_neighbours_promise_counts_every_share():
    desk = Desk("best-fit", nodes_of(f"1x{A100}"), belief="additive")
    desk.tell(ProfileDefined(Profile("p", sm_milli=200, dram_milli=500)))
    desk.submit("host", mps(200, max_slowdown=1.2), profile="p")
    desk.submit("pair", same(mps, 200), profile="p")
    desk.submit("one", mps(200), profile="p")
    assert (desk.holds("pair"), desk.holds("one")) == ("", "a-0:mps:200")
    assert desk.reasons("pair") == {Reason.NEIGHBOUR_PROMISE: 1}


def test_isolation_keeps_strangers_from_both_shares():
    desk = Desk("best-fit", nodes_of(f"1x{V100}"))
    desk.submit("theirs", same(mps, 200, isolation=Isolation.TENANT), tenant="red")
    desk.submit("mine", mps(100), tenant="blue")
    desk.submit("pair", same(mps, 100), tenant="red")
    assert (desk.holds("mine"), desk.holds("pair")) == ("", "a-0:mps:100 a-0:mps:100")


def test_room_for_both_shares_is_made():
    desk = Desk("srtf", nodes_of(f"1x{V100}"))
    for i in range(3):
        desk.submit(f"long{i}", mps(300), duration_s=1000.0 + i)
    orders = desk.submit("short", same(mps, 300), duration_s=10.0)
    assert orders == ["stop long1.0 preempted", "stop long2.0 preempted"]
    assert desk.tell(stopped("long2"), stopped("long1")) == ["start short.0 a-0,a-0"]


def test_a_worker_leaves_with_all_its_shares():
    desk = Desk("best-fit", nodes_of(f"1x{A100}"))
    desk.submit("pair", same(mig, "2g.20gb", 3))
    desk.submit("next", mig("7g.80gb"))
    desk.tell(JobCancelled("pair"))
    assert desk.tell(stopped("pair")) == ["start next.0 a-0"]


REFUSED = {
    "one share": ({"gpus": 1}, InvalidSpec, "devices: same puts several shares on one GPU; ask for"),
    "no share": ({"gpus": 0}, InvalidSpec, "ask for at least 2 with gpus"),
    "whole GPUs": ({"modes": WHOLE.modes}, InvalidSpec, "devices: same shares a GPU, but mode accepts"),
    "isolation by whole GPUs": (
        {"isolation": Isolation.HARDWARE, "modes": MPS | WHOLE.modes}, InvalidSpec, "needs mode mig"
    ),
    "more than the GPU": (
        {"compute_milli": 501}, InvalidAmount, "devices: 2 shares of 50.1% are more than the same GPU has"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("fields", "error", "message"), REFUSED.values(), ids=REFUSED)
def test_a_refused_request(fields, error, message):
    with pytest.raises(error, match=message):
        Request(**{"gpus": 2, "devices": SAME, **fields})


@pytest.mark.parametrize("fields", [{"compute_milli": 500}, {"modes": TIMESLICE | WHOLE.modes}, {"gpus": 48}])
def test_an_accepted_request(fields):
    request = Request(**{"gpus": 2, "devices": SAME, **fields})
    assert (request.gpus_apart, request.shares_per_gpu) == (1, request.gpus)
    assert (Request(gpus=3).gpus_apart, Request(gpus=3).shares_per_gpu) == (3, 1)


@pytest.mark.parametrize("model", ["A30-24GB", "A100-SXM4-40GB", A100, "H100-NVL-94GB", "B200-180GB"])
def test_slices_one_after_the_other_are_as_many_as_there_is_room_for(model):
    geometry = geometry_of(model)
    for profile in range(len(geometry.profiles)):
        for state in range(0, 4096, 7):
            room = int(geometry.room[state, profile])
            assert len(set(geometry.starts_of(state, profile, room))) == room


@pytest.mark.parametrize(("taken", "usable"), [(400, 1), (401, 0)])
def test_a_usual_pair_needs_room_for_both(taken, usable):
    """What is left for one share alone is stranded where pairs are usual (FGD, ATC'23)."""
    cluster = Cluster(mix=(UsualRequest(same(mps, 300), 1),))
    cluster.set_nodes(nodes_of(f"1x{V100}"))
    share = Share("GPU-a-0", Mode.MPS, taken)
    cluster.allocate(Holder("j", "default"), Assignment(0, "a", (share,)))
    assert cluster.gpus.item(0, 0, columns.USABLE) == usable


IN_THE_WAY = {
    "shares": (mps(300), mps(700), same(mps, 400), "a-0:mps:400 a-0:mps:400"),
    "slices": (
        mig("1g.10gb"),
        same(mig, "1g.10gb", 6),
        same(mig, "3g.40gb"),
        "a-0:3g.40gb@4 a-0:3g.40gb@0",
    ),
    "one of three slices": (
        mig("2g.20gb"),
        same(mig, "2g.20gb", 2),
        same(mig, "2g.20gb", 3),
        "a-0:2g.20gb@4 a-0:2g.20gb@2 a-0:2g.20gb@0",
    ),
}


@pytest.mark.parametrize(("small", "filler", "request_", "place"), IN_THE_WAY.values(), ids=IN_THE_WAY)
def test_who_is_in_the_way_of_one_of_the_shares_is_moved(small, filler, request_, place):
    with moving_registered(settled_s=0.0):
        _one_is_moved(small, filler, request_, place)


def _one_is_moved(small: Request, filler: Request, request_: Request, place: str) -> None:
    desk = Desk(f"backfill+{Moving.name}", nodes_of(f"1x{A100} 1x{A100}"))
    for job_id, request in (("p", small), ("filler", filler), ("q", small)):
        desk.submit(job_id, request)
    desk.tell(began("p"), began("q"), began("filler"))
    desk.tell(exited("filler"))
    assert [desk.holds(job)[0] for job in "pq"] == ["a", "b"]
    assert desk.submit("pair", request_) == ["stop p.0 moved"]
    desk.tell(stopped("p"))
    assert (desk.holds("pair"), desk.holds("p")[0]) == (place, "b")


def test_what_fits_is_not_counted_as_lacking_other_gpus():
    desk = Desk("best-fit", nodes_of(f"1x{V100}"))
    desk.submit("j", mps(300))
    desk.submit("gang", same(mps, 300), workers=2, priority=1)
    assert desk.states() == "j starting, gang rejected"
    assert desk.scheduler.record("gang").failure.endswith(f"ever hold: {Reason.GANG.value} (1)")


def test_the_neighbours_feel_every_share():
    """What a worker presses on others counts for each of its shares, what it suffers once."""
    cluster, profile = Cluster(), Profile("p", sm_milli=400, dram_milli=700)
    cluster.set_nodes(nodes_of(f"1x{A100}"))
    one, pair = (
        compile_ask(request, profile, cluster, BestFit(), AdditiveInterference()).terms[columns.MPS_RANK, 0]
        for request in (mps(200), same(mps, 200))
    )
    presses, senses = [columns.PRESSES, columns.PRESSES_2], [columns.SENSES, columns.SENSES_2]
    assert (pair[presses] == 2 * one[presses]).all()
    assert (pair[senses] == one[senses]).all()
    assert (one[presses + senses] > 0).all()
