"""Several shares of a worker in one MIG slice, and slices that are smaller than a job could use."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import pytest

from placement import columns as k
from placement.alternatives import LOSS, other_slice
from placement.ask import opening_ms
from placement.interference import NoInterference, model_named
from placement.ledger import Ledger
from placement.model import (
    Devices,
    Isolation,
    Job,
    JobKind,
    Mode,
    NodeJoined,
    Profile,
    ProfileDefined,
    Reason,
    Request,
    Share,
)
from placement.options import Options
from placement.partition import Change, Instance, Setup, needs_in_slice, repartition, transition
from placement.policies import PLACEMENTS, policy_named
from placement.policies.cotenant import OWN_LOSS
from placement.repartition import Repartition
from placement.scheduler import Scheduler
from placement.search import Search
from tests.cases.desk import GIB, MIG, MPS, TIMESLICE, Desk, began, exited, mig, node, stopped

A100, A30, V100 = ("A100-SXM4-80GB", 80 * GIB), ("A30-24GB", 24 * GIB), ("V100-SXM2-32GB", 32 * GIB)


def several(count: int, milli: int | None, modes: frozenset[Mode] = MIG | MPS, **fields) -> Request:
    """So many shares of one GPU."""
    return Request(gpus=count, compute_milli=milli, modes=modes, devices=Devices.SAME, **fields)


NEEDS = {
    # request, GPU, one of the shares and the slice
    "the smallest slice that holds them": (several(4, 70), A100, "mps 71 2g.20gb"),
    "they divide what is left of it": (several(2, 150), A100, "mps 214 3g.40gb"),
    "as turns": (several(4, 70, MIG | TIMESLICE), A100, "timeslice 71 2g.20gb"),
    "as clients where both would do": (several(2, 70, frozenset(Mode)), A100, "mps 71 1g.10gb"),
    "more clients than a slice may have": (several(7, 10), A100, "mps 40 2g.20gb"),
    "which does not matter to those who take turns": (
        several(7, 10, MIG | MPS | TIMESLICE), A100, "timeslice 20 1g.10gb"
    ),
    "memory for all of them": (several(2, 50, memory_bytes=9 * GIB), A100, "mps 71 1g.20gb"),
    "sized by memory alone": (several(2, None, memory_bytes=9 * GIB), A100, "mps 71 1g.20gb"),
    "another GPU": (several(2, 100), A30, "mps 125 1g.6gb"),
    "all that a GPU has": (several(2, 500), A100, "mps 500 7g.80gb"),
    "more memory than any slice has": (several(2, 50, memory_bytes=40 * GIB), A100, None),
    "neither clients nor turns": (several(2, 70, MIG), A100, None),
    "no slices": (several(2, 70, MPS | TIMESLICE), A100, None),
    "a GPU without slices": (several(2, 70), V100, None),
    "one share": (Request(compute_milli=70, modes=MIG | MPS), A100, None),
    "on different GPUs": (Request(gpus=2, compute_milli=70, modes=MIG | MPS), A100, None),
    "slices of a name": (several(2, None, mig_profile="3g.40gb"), A100, None),
    "isolated by hardware": (several(2, 70, isolation=Isolation.HARDWARE), A100, None),
    "a size that nobody knows": (several(2, None), A100, None),
}  # fmt: skip


@pytest.mark.parametrize(("request_", "gpu", "expected"), NEEDS.values(), ids=NEEDS)
def test_the_slice_for_several_shares(request_, gpu, expected):
    need = next(needs_in_slice(request_, None, *gpu), None)
    if need is None:
        assert expected is None
        return
    names = [cut.name for cut in geometry(gpu[0]).profiles]
    assert f"{need.mode.value} {need.compute_milli} {names[need.mig_profile]}" == expected
    assert (need.gpu_mode, need.memory_bytes) == (Mode.MIG, request_.memory_bytes)


def geometry(model: str):
    from placement.partition import geometry_of

    found = geometry_of(model)
    assert found is not None
    return found


@dataclass(frozen=True)
class Case:
    """GPUs of nodes a, b, ..., jobs in the order in which they come, and what each ends up with."""

    gpus: str
    queue: list[tuple[str, Request]]
    plan: dict[str, str]
    policy: str = "best-fit"
    workers: int = 1


def text(share: str, count: int) -> str:
    return " ".join([share] * count)


CASES = {
    "where a GPU is cut already": Case(
        "1xA100-SXM4-80GB",
        [("j1", mig("4g.40gb")), ("j2", several(4, 70))],
        {"j1": "a-0:4g.40gb@0", "j2": text("a-0:mps:71:2g.20gb@4", 4)},
    ),
    "a slice each where that is preferred": Case(
        "1xA100-SXM4-80GB",
        [("j1", mig("4g.40gb")), ("j2", several(2, 70))],
        {"j2": "a-0:1g.10gb@6 a-0:1g.10gb@5"},
    ),
    "services take the least": Case(
        "1xA100-SXM4-80GB",
        [("j1", several(4, 70)), ("j2", several(4, 70)), ("j3", several(4, 70)), ("j4", several(4, 70))],
        {
            "j1": text("a-0:mps:71:2g.20gb@4", 4),
            "j2": text("a-0:mps:71:2g.20gb@2", 4),
            "j3": text("a-0:mps:71:2g.20gb@0", 4),
            "j4": "",
        },
        "parvagpu",
    ),
    "turns": Case(
        "1xA100-SXM4-80GB",
        [("j1", mig("4g.40gb")), ("j2", several(4, 70, MIG | TIMESLICE))],
        {"j2": text("a-0:timeslice:71:2g.20gb@4", 4)},
    ),
    "a slice is not shared with strangers": Case(
        "1xA100-SXM4-80GB",
        [("j1", mig("4g.40gb")), ("j2", several(4, 40)), ("j3", several(2, 40)), ("j4", several(2, 40))],
        {"j2": text("a-0:mps:71:2g.20gb@4", 4), "j3": text("a-0:mps:71:1g.10gb@6", 2), "j4": ""},
    ),
    "all of a gang": Case(
        "1xA100-SXM4-80GB 1xA100-SXM4-80GB",
        [("j", several(6, 70, MIG | MPS, memory_bytes=3 * GIB))],
        {"j": text("a-0:mps:71:3g.40gb@4", 6) + " " + text("a-0:mps:71:3g.40gb@0", 6)},
        "parvagpu",
        2,
    ),
    "a gang where each worker alone would take slices": Case(
        "1xA100-SXM4-80GB",
        [("j1", mig("4g.40gb")), ("j2", several(2, 70))],
        {"j2": " ".join(text(f"a-0:mps:71:1g.10gb@{at}", 2) for at in (6, 5, 4))},
        workers=3,
    ),
    "our own policy": Case(
        "1xA100-SXM4-80GB",
        [("j1", mig("4g.40gb")), ("j2", several(4, 70))],
        {"j2": text("a-0:mps:71:2g.20gb@4", 4)},
        "cotenant",
    ),
}


@pytest.fixture(params=["compiled", "one by one", "many at once"])
def compiled(request, monkeypatch) -> bool:
    monkeypatch.setattr("placement.engine.FEW_NODES", 0 if request.param == "many at once" else 1000)
    return request.param == "compiled"


def desk_of(case: Case, *, compiled: bool = False) -> Desk:
    nodes = tuple(node(node_id, gpus) for node_id, gpus in zip("abcdefgh", case.gpus.split(), strict=False))
    desk = Desk(case.policy, nodes, compiled=compiled)
    for job_id, request in case.queue:
        desk.submit(
            job_id, request, kind=JobKind.INFERENCE, workers=1 if request.mig_profile else case.workers
        )
    return desk


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_where_several_shares_go(case, compiled):
    desk = desk_of(case, compiled=compiled)
    assert {job_id: desk.holds(job_id) for job_id in case.plan} == case.plan


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_when_all_have_left_the_cluster_is_as_good_as_new(case):
    desk, fresh = desk_of(case), desk_of(Case(case.gpus, [], {}, case.policy))
    desk.leave_all()
    assert (desk.scheduler.cluster.gpus == fresh.scheduler.cluster.gpus).all()
    assert (desk.scheduler.cluster.nodes == fresh.scheduler.cluster.nodes).all()


def test_a_slice_with_several_shares_is_room_for_another_slice_when_they_leave():
    desk = Desk("srtf", (node("a", "1xA100-SXM4-80GB"),))
    desk.submit("long", several(4, 240), duration_s=1000.0)
    assert desk.holds("long") == text("a-0:mps:240", 4)
    desk.tell(began("long"), exited("long"))
    desk.submit("cut", mig("4g.40gb"), duration_s=900.0)
    desk.submit("inside", several(4, 70), duration_s=1000.0)
    assert desk.holds("inside") == text("a-0:mps:71:2g.20gb@4", 4)
    assert desk.submit("short", mig("3g.40gb"), duration_s=1.0) == ["stop inside.0 preempted"]
    assert desk.tell(stopped("inside")) == ["start short.0 a-0"]


def test_shares_that_are_rounded_down_one_by_one_free_all_of_their_slice():
    desk = Desk("srtf", (node("a", "1xA100-SXM4-80GB"),))
    desk.submit("cut", mig("4g.40gb"), preemptible=False)
    desk.submit("inside", several(20, 20), duration_s=1000.0)
    assert desk.holds("inside") == text("a-0:mps:21:3g.40gb@4", 20)  # 8 thousandths less than the slice
    assert desk.submit("short", mig("3g.40gb"), duration_s=1.0) == ["stop inside.0 preempted"]


def test_a_slice_with_several_shares_stays_where_slices_go_by_speed():
    """They were placed before the manager was started with that policy."""
    desk = Desk("parvagpu", (node("a", "1xA100-SXM4-80GB"),))
    speeds = {f"{A100[0]}/{cut}": float(rate) for cut, rate in (("2g.20gb", 6), ("4g.40gb", 9))}
    desk.tell(ProfileDefined(Profile("p", {A100[0]: 10.0, **speeds}, sm_milli=800)))
    desk.submit("inside", several(4, 70))
    old = desk.scheduler
    desk.scheduler = Scheduler.restore(
        policy_named("miso"), old.belief, copy.deepcopy(old.snapshot()), Options(compiled=False)
    )
    assert desk.submit("j", Request(modes=MIG), profile="p") == ["start j.0 a-0"]
    assert (desk.holds("inside"), desk.holds("j")) == (text("a-0:mps:71:2g.20gb@4", 4), "a-0:4g.40gb@0")


def test_what_it_takes_to_cut_a_slice_with_several_shares_is_that_of_one_slice():
    desk = Desk("parvagpu", (node("a", "1xA100-SXM4-80GB"),))
    desk.submit("inside", several(4, 70))
    options = Options(compiled=False)
    search = Search(desk.scheduler.cluster, PLACEMENTS["cotenant"](), model_named("none"), options)
    price = Repartition(search, Ledger())._price
    gpu, old, new = "GPU-a-0", Instance("2g.20gb", 4), Instance("3g.40gb", 4)
    into_slice = Share(gpu, Mode.MIG, 428, None, new.profile, new.start)
    assert price(into_slice, {"inside"}) == repartition(Change((old,), (new,), moved=1))
    beside = Share(gpu, Mode.MPS, 71, None, "1g.10gb", 6)
    assert price(beside, set()) == repartition(Change((), (Instance("1g.10gb", 6),), moved=0))
    setup = Setup(A100[0], Mode.MIG, 4, 1, settled=False)
    assert price(Share(gpu, Mode.EXCLUSIVE, 1000), {"inside"}) == transition(setup, Mode.EXCLUSIVE)


def test_several_shares_of_a_slice_are_weighed_as_a_slice_in_which_they_slow_each_other():
    desk = Desk("cotenant", (node("a", "1xA100-SXM4-80GB"),))
    options = Options(compiled=False)
    search = Search(desk.scheduler.cluster, PLACEMENTS["cotenant"](), model_named("additive"), options)
    job, profile = Job("j", several(4, 70), 0.0, 1), Profile("p", sm_milli=100)
    term = search.ask_of(search.demand(job, profile)).terms[k.OTHER_MIG_RANK, 0]
    slowdown = (1 + 3 * 0.46 * 0.35 * 0.248) * 350 / 248
    assert (term[k.MILLI], term[k.ALONE]) == (285, round(1000 * slowdown) - 1000)
    assert term[k.PRICE] == opening_ms(A100[0], Mode.MIG) != opening_ms(A100[0], Mode.MPS)


def test_who_finds_no_slice_for_several_shares_is_told_what_is_in_the_way():
    desk = Desk("best-fit", (node("a", "1xA100-SXM4-80GB"),))
    desk.tell(desk.job("x", mig("4g.40gb")), desk.job("y", mig("3g.40gb")))
    desk.submit("eight", several(8, 20))
    assert desk.reasons("eight") == {Reason.GPU_MODE: 1}


BUSY = Profile("busy", sm_milli=70, dram_milli=600)
TWO_OF_SEVEN, THREE_OF_SEVEN = "a-0:mps:71:2g.20gb@4", "a-0:mps:107:3g.40gb@4"
PROMISES = {
    "none": (None, TWO_OF_SEVEN),
    "one that holds": (2.3, TWO_OF_SEVEN),
    "one that holds in a larger slice": (2.2, THREE_OF_SEVEN),
    "one that would not": (2.1, None),
}


@pytest.mark.parametrize(("promise", "share"), PROMISES.values(), ids=PROMISES)
def test_those_in_a_slice_slow_each_other_and_nobody_else(promise, share):
    """Each uses 0.245 of the SMs of 2g.20gb and more DRAM bandwidth than it has; three others do, too.

    1 + 3 x (0.46 x 0.245 x 0.245 + 0.35), and a tenth of what is above 1 on top for the bound.
    """
    desk = Desk("best-fit", (node("a", "1xA100-SXM4-80GB"),), belief="additive")
    desk.tell(ProfileDefined(BUSY))
    desk.submit("beside", mig("4g.40gb"), profile="busy")
    desk.submit("four", several(4, 70, max_slowdown=promise), profile="busy")
    assert desk.holds("four") == ("" if share is None else text(share, 4))
    assert desk.scheduler.explain("beside").predicted_slowdown == 1.0
    if share == TWO_OF_SEVEN:
        foreseen = desk.scheduler.explain("four").predicted_slowdown
        assert foreseen == pytest.approx(1 + 3 * (0.46 * 0.245 * 0.245 + 0.35))


FORESEEN = {
    # what one uses of the SMs, how many of which mode, the slice, and what is foreseen: the company there is
    # as on a GPU that all use so much more of, and the slice is smaller than a job may use
    "turns": (100, 4, TIMESLICE, "2g.20gb", 1 + 3 * 1.12 * 0.35),
    "turns of all that a slice has": (1000, 2, TIMESLICE, "1g.10gb", (1 + 1.12) * 1000 / 142),
    "clients": (100, 4, MPS, "2g.20gb", (1 + 3 * 0.46 * 0.35 * 0.248) * 350 / 248),
    "clients of all that a slice has": (
        1000, 2, MPS, "1g.10gb", (1 + 0.46 * 0.497) * 1000 / 497 * 1000 / 142
    ),
}  # fmt: skip


@pytest.mark.parametrize(("sm_milli", "count", "mode", "cut", "expected"), FORESEEN.values(), ids=FORESEEN)
def test_a_slice_is_to_those_who_share_it_a_smaller_gpu(sm_milli, count, mode, cut, expected):
    desk = Desk("best-fit", (node("a", "1xA100-SXM4-80GB"),), belief="additive")
    desk.tell(ProfileDefined(Profile("p", sm_milli=sm_milli)))
    for beside in ("4g.40gb", "2g.20gb") if cut == "1g.10gb" else ("4g.40gb",):
        desk.submit(f"beside {beside}", mig(beside))
    desk.submit("j", several(count, 70, MIG | mode), profile="p")
    assert f":{cut}@" in desk.holds("j")
    assert desk.scheduler.explain("j").predicted_slowdown == pytest.approx(expected)


def test_a_promise_in_a_shared_slice_is_judged_by_what_is_known_of_it_and_no_neighbour_can_break_it():
    """Twice 1.5 as measured in the slice; the model alone would say much more."""
    measured = Profile("p", {A100[0]: 15, f"{A100[0]}/1g.10gb": 10}, sm_milli=1000)
    desk = Desk("best-fit", (node("a", "1xA100-SXM4-80GB"),), belief="additive")
    desk.tell(ProfileDefined(measured))
    desk.submit("beside", mig("4g.40gb"))
    desk.submit("j", several(2, 70, MIG | TIMESLICE, max_slowdown=3.4), profile="p")
    assert desk.holds("j") == text("a-0:timeslice:71:1g.10gb@6", 2)
    assert desk.scheduler.explain("j").predicted_slowdown == pytest.approx((1 + 1.12) * 1.5)
    desk.submit("next", mig("2g.20gb"))
    assert desk.holds("next") == "a-0:2g.20gb@4"


@dataclass
class Counting:
    """A model that counts how often it is asked about several at once."""

    name: str = "counting"
    asked: int = 0

    def predict(self, gpu_model, residents):
        self.asked += len(residents) > 1
        return NoInterference().predict(gpu_model, residents)


@pytest.mark.parametrize("modes", [MIG | MPS, MPS], ids=["in a slice", "on the GPU"])
def test_a_gpu_is_asked_about_once_however_many_shares_there_are(modes):
    asked = []
    for count in (2, 12):
        desk, belief = Desk("parvagpu", (node("a", "1xA100-SXM4-80GB"),)), Counting()
        desk.scheduler = Scheduler(policy_named("parvagpu"), belief, Options(compiled=False))
        desk.tell(NodeJoined(desk.nodes[0]))
        desk.submit("j", several(count, 10, modes), kind=JobKind.INFERENCE)
        desk.scheduler.explain("j")
        desk.tell(began("j"), exited("j"))
        asked.append(belief.asked)
    assert asked[0] == asked[1] > 0


# -- smaller slices ----------------------------------------------------------------------------------------

HALF, NEARLY = Profile("half", sm_milli=500), Profile("nearly", sm_milli=300)
SLICED = Profile("sliced", {A100[0]: 10, f"{A100[0]}/3g.40gb": 4}, sm_milli=500)
SMALLER = {
    # profile, request, policy: which slice of a GPU with three slices left
    "half a GPU's use, and no promise": (HALF, Request(modes=MIG), "cotenant", ""),
    "one that holds in a smaller slice": (HALF, Request(modes=MIG, max_slowdown=1.2), "cotenant", "3g.40gb"),
    "one that does not": (HALF, Request(modes=MIG, max_slowdown=1.1), "cotenant", ""),
    "no slower than it has to be": (HALF, Request(modes=MIG, max_slowdown=9.0), "cotenant", "3g.40gb"),
    "a slice that nearly fits": (NEARLY, Request(modes=MIG, max_slowdown=9.0), "cotenant", "2g.20gb"),
    "as it was measured": (SLICED, Request(modes=MIG, max_slowdown=2.6), "cotenant", "2g.20gb"),
    "measured, and too slow": (SLICED, Request(modes=MIG, max_slowdown=2.0), "cotenant", "2g.20gb"),
    "its compute is stated": (HALF, Request(compute_milli=500, modes=MIG, max_slowdown=2.0), "cotenant", ""),
    "a policy that does not choose": (HALF, Request(modes=MIG, max_slowdown=2.0), "best-fit", ""),
    "nothing is known": (None, Request(modes=MIG, max_slowdown=2.0), "cotenant", ""),
    "services": (HALF, Request(modes=MIG, max_slowdown=2.0), "parvagpu", "2g.20gb"),
    "services that take the least": (HALF, Request(modes=MIG, max_slowdown=9.0), "parvagpu", "1g.10gb"),
    "and their memory": (
        HALF, Request(modes=MIG, max_slowdown=9.0, memory_bytes=15 * GIB), "parvagpu", "1g.20gb"
    ),
    "and what was measured": (SLICED, Request(modes=MIG, max_slowdown=1.2), "parvagpu", ""),
}  # fmt: skip


@pytest.mark.parametrize(("profile", "request_", "policy", "cut"), SMALLER.values(), ids=SMALLER)
def test_a_slice_may_be_as_small_as_the_promise_allows(profile, request_, policy, cut, compiled):
    desk = Desk(policy, (node("a", "1xA100-SXM4-80GB"),), belief="additive", compiled=compiled)
    if profile is not None:
        desk.tell(ProfileDefined(profile))
    desk.submit("beside", mig("4g.40gb"))
    name = None if profile is None else profile.name
    desk.submit("j", request_, profile=name, kind=JobKind.INFERENCE)
    assert desk.holds("j").partition("@")[0] == (f"a-0:{cut}" if cut else "")
    upper = desk.scheduler.explain("j").predicted_upper
    assert not cut or (upper is not None and upper <= (request_.max_slowdown or 0))


def test_the_slice_that_a_job_can_use_is_not_offered_twice():
    request, belief = Request(modes=MIG, max_slowdown=1.1), model_named("additive")
    assert other_slice(request, HALF, A100, belief, smaller=True) is None


WITH_ROOM = {
    "a slice that nearly fits": (300, "1g.10gb", "a-0:2g.20gb@4"),
    "not one in which it would be much slower": (1000, None, "a-0:exclusive:1000"),
}


@pytest.mark.parametrize(("sm_milli", "beside", "expected"), WITH_ROOM.values(), ids=WITH_ROOM)
def test_where_there_is_room_the_loss_in_a_slice_decides(sm_milli, beside, expected):
    desk = Desk("cotenant", (node("a", "1xA100-SXM4-80GB"),), belief="additive")
    desk.tell(ProfileDefined(Profile("p", sm_milli=sm_milli)))
    if beside is not None:
        desk.submit("beside", mig(beside))
    desk.submit("j", Request(max_slowdown=2.0), profile="p")
    assert desk.holds("j") == expected


def test_others_are_moved_for_a_smaller_slice_where_there_can_be_no_larger_one():
    desk = Desk("cotenant", (node("a", "2xA100-SXM4-80GB"),), belief="additive")
    desk.tell(ProfileDefined(NEARLY))
    for job_id, cut in (("x", "4g.40gb"), ("y", "1g.10gb"), ("moved", "1g.10gb"), ("z", "4g.40gb")):
        desk.submit(job_id, mig(cut), preemptible=job_id == "moved", duration_s=9e5)
        desk.tell(began(job_id))
    desk.submit("w", mig("2g.20gb"), preemptible=False)
    assert desk.holds("moved") == "a-0:1g.10gb@5"
    desk.tell(at_s=5000.0)
    orders = desk.submit("j", Request(modes=MIG, max_slowdown=2.0), profile="nearly", duration_s=8e5)
    assert (orders, desk.holds("j")) == (["stop moved.0 moved"], "a-0:2g.20gb@4")


def test_the_slice_that_is_offered_is_chosen_by_what_the_score_makes_of_its_loss():
    assert OWN_LOSS == 6 * LOSS
