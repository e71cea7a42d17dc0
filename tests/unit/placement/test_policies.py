"""Policies by name: what each is, how they combine, what is refused, and how one adds one's own."""

from __future__ import annotations

import math

import numpy as np
import pytest

from placement import policies
from placement.mix import WHOLE
from placement.model import InvalidSpec, Job, JobKind, Request, UnknownName
from placement.noise import draw
from placement.policies import PLACEMENTS, Offer, Placement, policy_named, policy_names, register

NAMED = [
    # as typed, order, placement
    ("fifo", "fifo", "best-fit"),
    ("backfill", "backfill", "best-fit"),
    ("srtf", "srtf", "best-fit"),
    ("best-fit", "backfill", "best-fit"),
    ("spread", "backfill", "spread"),
    ("random", "backfill", "random"),
    ("fifo+spread", "fifo", "spread"),
    ("spread+fifo", "fifo", "spread"),
    ("srtf+random", "srtf", "random"),
    ("backfill+best-fit", "backfill", "best-fit"),
    ("srtf+fgd", "srtf", "fgd"),
    ("lucid+srtf", "srtf", "lucid"),
    ("hived:red=1x4xA100-SXM4-80GB", "backfill", "hived"),
    ("hived:red=1x4xA100-SXM4-80GB:blue=2x1xT4-16GB+backfill", "backfill", "hived"),
]
ALL = (
    *("fifo", "backfill", "srtf", "cotenant", "best-fit", "worst-fit", "spread", "random", "dot-product"),
    *("clustering", "packing", "fgd", "gandiva", "lucid", "hived", "parvagpu", "miso"),
)
PLACEMENT_NAMES = ", ".join(ALL[3:])
REFUSED = [
    ("", UnknownName, f"'' is unknown; choose one of {', '.join(ALL)}, or ORDER"),
    ("lifo", UnknownName, "'lifo' is unknown"),
    ("FIFO", UnknownName, "'FIFO' is unknown; did you mean 'fifo'"),
    ("fdg", UnknownName, "'fdg' is unknown; did you mean 'fgd'"),
    ("fifo+", InvalidSpec, "a name is missing; write ORDER"),
    ("+fgd", InvalidSpec, "a name is missing; write ORDER"),
    ("fifo,srtf", UnknownName, "'fifo,srtf' is unknown"),
    ("fifo+nowhere", UnknownName, "'nowhere' is unknown"),
    ("fifo+srtf", InvalidSpec, r"at most one order \(fifo, backfill, srtf\)"),
    ("fifo+fifo", InvalidSpec, "at most one order"),
    ("spread+best-fit", InvalidSpec, rf"one placement \({PLACEMENT_NAMES}\)"),
    ("spread+fgd", InvalidSpec, "has two placements, spread and fgd; write"),
    ("fifo+spread+random", InvalidSpec, "at most one"),
    ("fifo+hived", InvalidSpec, "fifo and hived do not go together: one tenant's first job would hold up"),
    ("hived+srtf", InvalidSpec, "srtf and hived do not go together: it would push jobs out of the cells"),
    ("fgd:5", InvalidSpec, "'fgd' takes no options, but was given '5'"),
    ("fifo:5", InvalidSpec, "order 'fifo' takes no options"),
    ("nowhere:5", UnknownName, "'nowhere' is unknown"),
    ("hived:", InvalidSpec, "'': write TENANT=COUNTxGPUSxMODEL"),
    ("hived:red", InvalidSpec, "'red': write TENANT=COUNTxGPUSxMODEL"),
    ("hived:red=1xA100-SXM4-80GB", InvalidSpec, "write COUNTxMODEL"),
    ("hived:=1x1xT4-16GB", InvalidSpec, "'=1x1xT4-16GB': write TENANT"),
    ("hived:red=1x3xT4-16GB", InvalidSpec, "a cell has 1, 2, 4, 8, ... GPUs, not 3"),
    ("hived:red=0x8xA100-SXM4-80GB", InvalidSpec, "write 1 or more cells, not 0"),
    ("hived:red=1x4xA100", UnknownName, "GPU model 'A100' is unknown; did you mean"),
]


def job(**fields) -> Job:
    return Job("job", Request(), 0.0, 1, **fields)


@pytest.mark.parametrize(("spec", "order", "placement"), NAMED)
def test_a_policy_by_name(spec, order, placement):
    policy = policy_named(spec)
    assert (policy.name, policy.order.name, policy.placement.name) == (spec, order, placement)


def test_blanks_around_the_parts_of_a_policy_do_not_matter():
    assert policy_named(" srtf + fgd ").name == "srtf+fgd"


@pytest.mark.parametrize(("spec", "error", "message"), REFUSED)
def test_a_refused_policy(spec, error, message):
    with pytest.raises(error, match=message):
        policy_named(spec)


def test_all_names_work_alone():
    assert policy_names() == ALL
    assert [policy_named(name).name for name in policy_names()] == list(policy_names())


@pytest.mark.parametrize(
    ("name", "strict", "preemptive", "rank_per_s", "knows_durations"),
    [
        ("fifo", True, False, 0.0, False),
        ("backfill", False, False, 0.0, False),
        ("srtf", False, True, -1.0, True),
    ],
)
def test_what_an_order_may_do(name, strict, preemptive, rank_per_s, knows_durations):
    order = policy_named(name).order
    assert (order.strict, order.preemptive, order.rank_per_s) == (strict, preemptive, rank_per_s)
    assert policy_named(name).knows_durations is order.knows_durations is knows_durations


@pytest.mark.parametrize(
    ("name", "remaining_s", "time_limit_s", "rank"),
    [
        ("fifo", 5.0, 9.0, 0.0),
        ("fifo", None, None, 0.0),
        ("backfill", 5.0, 9.0, 0.0),
        ("srtf", 5.0, 9.0, 5.0),
        ("srtf", 0.0, 9.0, 0.0),
        ("srtf", None, 9.0, 9.0),
        ("srtf", None, None, math.inf),
    ],
)
def test_the_rank_of_a_job(name, remaining_s, time_limit_s, rank):
    assert policy_named(name).order.rank(job(time_limit_s=time_limit_s), remaining_s) == rank


@pytest.fixture
def registries(monkeypatch):
    monkeypatch.setattr(policies, "ORDERS", dict(policies.ORDERS))
    monkeypatch.setattr(policies, "PLACEMENTS", dict(policies.PLACEMENTS))


class Youngest:
    name = "youngest"
    strict = preemptive = knows_durations = False
    rank_per_s = 0.0

    def rank(self, job, remaining_s):
        return -job.submit_s


class Leftmost(policies.Placement):
    name = "leftmost"


@pytest.mark.usefixtures("registries")
def test_ones_own_policies_combine_like_the_others():
    register("youngest", order=Youngest)
    register("leftmost", placement=Leftmost)
    for spec, order, placement in (
        ("youngest", Youngest, policies.BestFit),
        ("leftmost", policies.Backfill, Leftmost),
        ("youngest+leftmost", Youngest, Leftmost),
        ("youngest+spread", Youngest, policies.Spread),
    ):
        policy = policy_named(spec)
        assert (type(policy.order), type(policy.placement)) == (order, placement)
    assert policy_names() == (*ALL[:3], "youngest", *ALL[3:], "leftmost")


@pytest.mark.usefixtures("registries")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        *((name, "is taken; give yours another name") for name in ("fifo", "spread")),
        *((name, "must not be empty or contain") for name in ("my+own", "+", "my:own", "my,own", "", " my")),
    ],
)
def test_a_name_that_is_taken_or_cannot_be_typed(name, message):
    with pytest.raises(InvalidSpec, match=message):
        register(name, order=Youngest)
    with pytest.raises(InvalidSpec, match=message):
        register(name, placement=Leftmost)
    assert Youngest not in policies.ORDERS.values()
    assert Leftmost not in policies.PLACEMENTS.values()


# -- scores, by hand from the published formulae: a cost is 100 less the published score --------------------


def offer(**fields) -> Offer:
    return Offer(**{**dict.fromkeys(Offer._fields, 0), **fields})


GROWTH = WHOLE  # one thousandth of a GPU more that is stranded
SCORES = [
    # policy, offer, cost
    # 50 % of the CPU left of 128 cores, 50 % of the compute left of 8 GPUs
    ("best-fit", {"cpu_left": 0, "node_left": 0}, 0),
    ("best-fit", {"cpu_left": 128_000, "node_left": 8000}, 100),
    ("best-fit", {"cpu_left": 64_000, "node_left": 0}, 25),
    ("best-fit", {"cpu_left": 96_000, "node_left": 7500}, 85),  # int(15.6) of 100
    ("best-fit", {"cpu_left": 1, "node_left": 0}, 1),  # int(99.9996)
    # half of (CPU left x asked) + half of (GPUs left x asked), as they were before
    ("dot-product", {"cpu": 64_000, "cpu_left": 64_000, "taken": 8000, "node_left": 0}, 75),
    ("dot-product", {"cpu": 8000, "cpu_left": 88_000, "taken": 500, "node_left": 3500}, 4),
    ("dot-product", {"taken": 1000, "node_left": 7000, "cpu_left": 9000}, 7),  # int(93.75)
    ("dot-product", {"cpu_left": 9000, "node_left": 7000}, 0),
    # 25 for how full the node is, 75 alone among its kind, 50 its kind and others, 25 nobody, 0 others alone
    ("clustering", {"shape": 2, "shapes": 0, "taken": 1000, "node_left": 7000}, 75),
    ("clustering", {"shape": 2, "shapes": 2, "taken": 1000, "node_left": 6000}, 22),  # 3 + 75
    ("clustering", {"shape": 2, "shapes": 3, "taken": 1000, "node_left": 5000}, 44),  # 6 + 50
    ("clustering", {"shape": 2, "shapes": 1, "taken": 1000, "node_left": 3000}, 88),  # 12
    ("clustering", {"shapes": 1, "node_left": 3000}, 0),  # no GPU asked for: all equal
    # an unused node: max(33 - n, n); opens u GPUs of a used one: max(50 - u, 33); a GPU in use: 50 to 100
    ("packing", {"taken": 1000, "gpus": 8, "empties": 8, "opened": 1}, 75),
    ("packing", {"taken": 1000, "gpus": 2, "empties": 2, "opened": 1}, 69),
    ("packing", {"taken": 1000, "gpus": 8, "empties": 7, "opened": 1}, 51),
    ("packing", {"taken": 4000, "gpus": 8, "empties": 7, "opened": 4}, 54),
    ("packing", {"taken": 20_000, "gpus": 32, "empties": 31, "opened": 20}, 67),
    ("packing", {"taken": 200, "gpu_left": 400, "gpus": 8, "empties": 7}, 6),  # 60 % left: 100 - 6
    ("packing", {"taken": 200, "gpu_left": 150, "gpus": 8, "empties": 7}, 3),
    # int(100 x sigmoid(compute that is no longer stranded, in GPUs))
    ("fgd", {"stranded": 0}, 50),
    ("fgd", {"stranded": 1000 * GROWTH}, 74),  # 26.9
    ("fgd", {"stranded": -1000 * GROWTH}, 27),  # 73.1
    ("fgd", {"stranded": 5000 * GROWTH}, 100),  # 0.7
    ("fgd", {"stranded": -5000 * GROWTH}, 1),  # 99.3
    ("fgd", {"stranded": 1 * GROWTH}, 51),  # 49.98
]
PREFERRED = [
    # policy, the better place, the worse
    ("worst-fit", {"gpu_left": 700, "node_left": 700}, {"gpu_left": 600, "node_left": 7000}),
    ("worst-fit", {"gpu_left": 700, "node_left": 800}, {"gpu_left": 700, "node_left": 700}),
    ("spread", {"node_left": 7000, "gpu_left": 100}, {"node_left": 6000, "gpu_left": 900}),
    ("spread", {"node_left": 7000, "gpu_left": 900}, {"node_left": 7000, "gpu_left": 100}),
    ("gandiva", {"residents": 0, "node_left": 7000}, {"residents": 1, "node_left": 100}),
    ("gandiva", {"residents": 0, "node_left": 100}, {"residents": 0, "node_left": 7000}),
    ("lucid", {"residents": 0, "node_left": 7000}, {"residents": 1, "node_left": 100}),
    ("parvagpu", {"mode": 2, "gpu_left": 800}, {"mode": 0, "gpu_left": 100}),
    ("parvagpu", {"mode": 0, "gpu_left": 800}, {"mode": 3, "gpu_left": 0}),
    ("parvagpu", {"mode": 2, "gpu_left": 100}, {"mode": 2, "gpu_left": 800}),
]


@pytest.mark.parametrize(("name", "fields", "cost"), SCORES)
def test_the_score_of_a_place(name, fields, cost):
    assert policies.PLACEMENTS[name]().score(offer(**fields)) == cost


@pytest.mark.parametrize(("name", "better", "worse"), PREFERRED)
def test_which_place_is_preferred(name, better, worse):
    score = policies.PLACEMENTS[name]().score
    assert score(offer(**better)) < score(offer(**worse))


@pytest.mark.parametrize("name", ["best-fit", "dot-product", "clustering", "packing"])
def test_inside_a_node_the_fullest_gpu_is_taken(name):
    within = policies.PLACEMENTS[name]().within
    assert within(offer(gpu_left=200)) < within(offer(gpu_left=300))


@pytest.mark.parametrize("name", ALL[3:])
def test_many_places_score_like_one_at_a_time(name):
    rng = np.random.default_rng(3)
    fields = {field: rng.integers(0, 9000, 50) for field in Offer._fields}
    fields |= {"mode": rng.integers(0, 4, 50), "residents": rng.integers(0, 3, 50)}
    fields |= {"shape": 1 << rng.integers(0, 4, 50), "shapes": rng.integers(0, 16, 50)}
    placement = policies.PLACEMENTS[name]
    one_by_one = [
        (placement.score(Offer(*row)), placement.within(Offer(*row)))
        for row in zip(*(fields[field].tolist() for field in Offer._fields), strict=True)
    ]
    many = Offer(**fields)
    score, within = (np.broadcast_to(f(many), 50) for f in (placement.score, placement.within))
    assert list(zip(score.tolist(), within.tolist(), strict=True)) == one_by_one


def test_draws_are_the_same_in_every_replay_and_depend_on_everything():
    draws = {(s, q, w): draw(s, q, w, 1 << 60) for s in range(4) for q in range(4) for w in range(4)}
    assert draws == {key: draw(*key, 1 << 60) for key in draws}
    assert len(set(draws.values())) == len(draws)
    assert draw(0, 1, 0, 1000) == 432, "another hash makes recorded runs come out otherwise"


def test_draws_are_even():
    counts = [0] * 4
    for sequence in range(4000):
        counts[draw(7, sequence, 0, 4)] += 1
    assert all(900 < count < 1100 for count in counts)


@pytest.mark.parametrize("name", sorted(set(ALL[3:]) & set(policies.PLACEMENTS)))
@pytest.mark.parametrize("kind", list(JobKind))
def test_what_is_asked_for_is_the_same_object_every_time(name, kind):
    """Requests are known again by their identity: a new one each time would be compiled each time."""
    job = Job("a", Request(gpus=2, compute_milli=300), 0.0, 1, kind=kind)
    placement = policies.PLACEMENTS[name]()
    assert placement.asks(job) is placement.asks(job)


class Mistaken(Placement):
    name = "mistaken"

    @staticmethod
    def score(at):
        return at.gpuleft


class Fractional(Placement):
    name = "fractional"

    @staticmethod
    def score(at):
        return at.gpu_left / 1000


class Silent(Placement):
    name = "silent"

    @staticmethod
    def within(at):
        return None


class NoPlacement:
    name = "no-placement"


@pytest.mark.parametrize(
    ("mine", "complaint"),
    [
        (Mistaken, "its score fails on an offer: AttributeError: 'Offer' object has no attribute 'gpuleft'"),
        (Fractional, "its score gives 0.001, but must give a whole number"),
        (Silent, "its within gives None, but must give a whole number"),
        (NoPlacement, "NoPlacement does not derive from Placement"),
    ],
)
def test_a_mistake_in_a_score_is_told_before_anything_is_compiled(mine, complaint, monkeypatch):
    monkeypatch.setitem(PLACEMENTS, "mine", mine)
    with pytest.raises(InvalidSpec, match="policy 'mine'") as refused:
        policy_named("fifo+mine")
    assert str(refused.value).endswith(complaint)


class Bare:
    name = "bare"


class Timid(Youngest):
    preemptive = "no"


class Failing(Youngest):
    def rank(self, job, remaining_s):
        raise RuntimeError("boom")


class Wordy(Youngest):
    def rank(self, job, remaining_s):
        return "first"


@pytest.mark.parametrize(
    ("mine", "complaint"),
    [
        (Bare, "Bare has no 'strict' that is a bool"),
        (Timid, "Timid has no 'preemptive' that is a bool"),
        (Failing, "its rank fails on a job: RuntimeError: boom"),
        (Wordy, "its rank gives 'first', but must give a number"),
    ],
)
def test_a_mistake_in_an_order_is_told_before_it_orders_anything(mine, complaint, monkeypatch):
    monkeypatch.setitem(policies.ORDERS, "mine", mine)
    with pytest.raises(InvalidSpec, match="policy 'mine'") as refused:
        policy_named("mine+fgd")
    assert str(refused.value).endswith(complaint)
