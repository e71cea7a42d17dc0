"""What free compute is worth, and what a placement takes from others: against the definitions."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations_with_replacement

import numpy as np
import pytest

from placement import columns as k
from placement import engine
from placement import mix as m
from placement.ask import opening_ms
from placement.cluster import Cluster
from placement.interference import AdditiveInterference, NoInterference
from placement.ledger import Ledger
from placement.lodgings import Holder
from placement.mix import UsualRequest
from placement.model import Assignment, Gpu, Job, Lifetime, Mode, Node, Profile, Request, Share, StateError
from placement.options import Options
from placement.packing_duals import residual_worth
from placement.partition import MODE_ORDER
from placement.policies import PLACEMENTS
from placement.policies.cotenant import OUTLASTING, OWN_LOSS
from placement.repartition import Repartition
from placement.search import Search
from placement.usual import USUAL
from tests.cases.desk import Desk, node

V100, T4 = "V100-SXM2-32GB", "T4-16GB"
MPS = frozenset({Mode.MPS})
WHOLE = frozenset({Mode.EXCLUSIVE})


@pytest.mark.parametrize(
    ("demand", "worth"),
    [
        ({}, {1000: 0}),
        ({1000: 5}, {990: 0, 1000: 1000}),
        ({500: 1}, {490: 0, 500: 500, 990: 500, 1000: 1000}),
        ({810: 1}, {190: 0, 800: 0, 810: 1000, 1000: 1000}),  # nothing fits beside it
        ({810: 1, 190: 1}, {1000: 1000}),
        ({600: 1, 400: 1}, {1000: 1000}),
        ({340: 1}, {330: 0, 340: 500, 680: 1000}),
    ],
)
def test_what_a_free_part_of_a_gpu_is_worth(demand, worth):
    table = residual_worth(demand)
    assert {milli: int(table[milli]) for milli in worth} == worth
    assert (np.diff(table) >= 0).all()


@pytest.mark.parametrize(
    "demand", [{100: 9, 250: 3, 300: 4, 470: 2, 650: 1}, {220: 5, 330: 1, 810: 7, 1000: 4}]
)
def test_no_set_of_shares_that_fits_one_gpu_is_worth_more_than_the_gpu(demand):
    """The prices are feasible: what makes them bounds."""
    price = {size: int(residual_worth(demand)[size]) for size in demand}
    sets = [s for n in range(1, 11) for s in combinations_with_replacement(demand, n) if sum(s) <= 1000]
    assert max(sum(price[size] for size in one) for one in sets) in range(990, 1011)


SHARES = ((250, 3), (500, 2), (810, 1))
MIX = (
    *(
        UsualRequest(
            Request(compute_milli=milli, modes=MPS, cpu_milli=8 * milli, ram_bytes=milli << 20), weight
        )
        for milli, weight in SHARES
    ),
    UsualRequest(Request(gpus=4, modes=WHOLE, cpu_milli=16000), 1),
    UsualRequest(Request(modes=WHOLE, gpu_models=("T4",), cpu_milli=4000), 1),
)


def fed(free_milli: int, cpu_milli: int, ram_bytes: int) -> int:
    """Compute that CPU (four ratios, the last one of little weight) and RAM can feed, by the definition."""
    gpus = [(u.request.gpus * (u.request.compute_milli or 1000), u.weight, u.request) for u in MIX]
    total = sum(milli * weight for milli, weight, _request in gpus)
    cpu = sum(weight * request.cpu_milli for _milli, weight, request in gpus)
    ram = sum(weight * (request.ram_bytes >> 20) for _milli, weight, request in gpus)
    most = [
        (weight, min(free_milli, cpu_milli * 1000 // (ratio * cpu // total)))
        for ratio, weight in ((800, 8), (900, 8), (1000, 8), (1400, 1))
    ]
    most.append((8, min(free_milli, (ram_bytes >> 20) * 1000 // (1000 * ram // total))))
    return sum(weight * amount for weight, amount in most) // 8


@pytest.mark.parametrize("taken", [0, 250, 500, 700])
@pytest.mark.parametrize(("asked", "cpu_milli"), [(100, 0), (250, 2000), (300, 9000)])
def test_what_a_share_takes_from_others(taken, asked, cpu_milli):
    """Beside others on the only GPU: its part of the GPU, best fit, and what can be fed afterwards."""
    cluster = Cluster(MIX, NoInterference())
    cluster.set_nodes([Node("n", (Gpu("g", V100),), 10_000, 64 << 30)])
    if taken:
        cluster.allocate(Holder("a", "t"), Assignment(0, "n", (Share("g", Mode.MPS, taken),)))
    search = Search(cluster, PLACEMENTS["cotenant"](), NoInterference(), Options(compiled=False))
    job = Job("b", Request(compute_milli=asked, modes=MPS, cpu_milli=cpu_milli), 0.0, 1)
    score = search.score_on(search.demand(job, None), 0)
    assert search.prices.levels == (0,)  # there is no place for four GPUs that could be lost
    worth = residual_worth(dict([*SHARES, (1000, 4)]))
    free, left = 1000 - taken, 1000 - taken - asked
    before = 1000 if not taken else int(worth[free])
    lost = 3 * (before - int(worth[left])) + (free * free - left * left) // 4000
    lost += fed(free, 10_000, 64 << 30) - fed(left, 10_000 - cpu_milli, 64 << 30)
    assert score == lost  # the second until an empty GPU serves MPS is not counted


def test_who_accepts_either_takes_an_empty_gpu_by_mps_and_not_in_turns():
    """Although turns begin at once: everybody who comes later would have to take turns, too."""
    desk = Desk("cotenant", (node("n", f"1x{V100}"),))
    desk.submit("a", Request(compute_milli=250, modes=frozenset({Mode.TIMESLICE, Mode.MPS})))
    assert desk.holds("a") == "n-0:mps:250"


@pytest.fixture(params=[(1000, False), (0, False), (0, True)], ids=["plain", "numpy", "compiled"])
def options(request, monkeypatch):
    """Each of the ways to run the score."""
    few, compiled = request.param
    monkeypatch.setattr(engine, "FEW_NODES", few)
    return Options(compiled=compiled)


A100 = "A100-SXM4-80GB"
HALF = Profile("half", {A100: 10, f"{A100}/1g.10gb": 5}, sm_milli=500)


@pytest.mark.parametrize("gpus", [1, 2])
@pytest.mark.parametrize(
    "case",
    [
        (AdditiveInterference(), HALF, Mode.MIG, 142, 143),  # as measured: what it holds, for nothing
        (AdditiveInterference(), Profile("busy", sm_milli=500), Mode.MIG, 142, 2521 * 143 // 1000),
        (AdditiveInterference(), HALF, Mode.MPS, 250, 250),
        (AdditiveInterference(), HALF, Mode.MPS, 500, 0),
        (AdditiveInterference(), HALF, Mode.TIMESLICE, 250, 0),
        (AdditiveInterference(), Profile("vague"), Mode.MIG, 142, 0),
        (
            NoInterference(),
            HALF,
            Mode.MIG,
            142,
            0,
        ),  # a belief that says nothing of shares ranks nothing by them
    ],
)
def test_a_share_that_slows_a_job_costs_what_it_holds_for_nothing(case, gpus, options):
    belief, profile, mode, milli, wasted = case
    cluster = Cluster(MIX, belief)
    cluster.set_nodes([Node("n", tuple(Gpu(f"g{i}", A100, 80 << 30) for i in range(2)))])
    search = Search(cluster, PLACEMENTS["cotenant"](), belief, options)
    job = Job("b", Request(gpus=gpus, compute_milli=milli, modes=frozenset({mode})), 0.0, 1)
    known, unknown = (search.score_on(search.demand(job, one), 0) for one in (profile, None))
    assert known - unknown == OWN_LOSS * wasted * gpus // 2


def test_a_resident_of_a_slice_runs_as_fast_there_as_is_known():
    cluster = Cluster(MIX, NoInterference())
    cluster.set_nodes([Node("n", (Gpu("g", A100, 80 << 30),))])
    share = Share("g", Mode.MIG, 142, mig_profile="1g.10gb", mig_start=6)
    cluster.allocate(Holder("a", "t", HALF), Assignment(0, "n", (share,)))
    search = Search(cluster, PLACEMENTS["cotenant"](), NoInterference(), Options(compiled=False))
    assert Repartition(search, Ledger())._speed(["g"]) == pytest.approx(0.071)


@pytest.mark.parametrize(
    ("there", "lasts", "classes"),
    [
        ((), 0, 0),
        ((), 1, 1),
        ((), 4, 1),
        ((0,), 4, 0),  # nobody knows how long those last who are there
        ((1,), 0, 0),
        ((1,), 1, 1),
        ((3,), 2, 0),
        ((1,), 2, 2),
        ((2,), 4, 3),
        ((1, 3), 4, 2),
        ((0, 1), 4, 4),
    ],
)
@pytest.mark.parametrize("gpus", [1, 2])
def test_who_outlasts_all_on_a_gpu_pays_for_that(gpus, there, lasts, classes, options):
    cluster = Cluster(MIX, NoInterference())
    cluster.set_nodes([Node("n", tuple(Gpu(f"g{i}", V100) for i in range(2)))])
    for i, lifetime in enumerate(there):
        both = tuple(Share(f"g{j}", Mode.MPS, 100) for j in range(2))
        cluster.allocate(Holder(f"a{i}", "t", lifetime=lifetime), Assignment(0, "n", both))
    search = Search(cluster, PLACEMENTS["cotenant"](), NoInterference(), options)
    job = Job("b", Request(gpus=gpus, compute_milli=250, modes=MPS), 0.0, 1)
    demands = [search.demand(replace(job, lifetime=Lifetime(each)), None) for each in (0, lasts)]
    unknown, known = (search.score_on(demand, 0) for demand in demands)
    assert known == unknown + OUTLASTING * classes * gpus


def cluster_of(*nodes: tuple[str, int]) -> Cluster:
    cluster = Cluster(MIX, NoInterference())
    cluster.set_nodes(
        [
            Node(f"n{i}", tuple(Gpu(f"g{i}/{j}", m) for j in range(n)), 64_000)
            for i, (m, n) in enumerate(nodes)
        ]
    )
    return cluster


def test_prices_rise_when_places_for_several_gpus_get_scarce_and_stay_while_they_are_near():
    cluster = cluster_of(*[(V100, 4)] * 20)
    search = Search(cluster, PLACEMENTS["cotenant"](), NoInterference(), Options(compiled=False))
    share = search.demand(Job("b", Request(compute_milli=250, modes=MPS), 0.0, 1), None)
    search.score_on(share, 0)
    plenty = search.prices.levels[0]
    for i in range(19):  # one GPU of each but the last: no place for four is left there
        cluster.allocate(Holder(f"a{i}", "t"), Assignment(0, f"n{i}", (Share(f"g{i}/0", Mode.MPS, 250),)))
    last, first = cluster.row_of("n19"), cluster.row_of("n0")
    before = search.score_on(share, last), search.score_on(share, first)
    search.review_prices()
    scarce = search.prices.levels[0]
    assert plenty < scarce
    assert search.score_on(share, last) > before[0]  # the last place costs more now, the others as before
    assert search.score_on(share, first) == before[1]
    search.review_prices()
    assert search.prices.levels[0] == scarce


def test_a_kind_that_some_must_have_has_a_price_when_it_is_scarce():
    cluster = cluster_of((T4, 1), *[(V100, 4)] * 20)
    search = Search(cluster, PLACEMENTS["cotenant"](), NoInterference(), Options(compiled=False))
    share = search.demand(Job("b", Request(compute_milli=250, modes=MPS), 0.0, 1), None)
    search.score_on(share, 0)
    assert search.prices.levels[1] > 0
    tables = cluster.mix_tables
    kinds = {model: i for i, (model, _memory) in enumerate(cluster.kinds)}
    at = int(tables[m.KIND_PRICES_AT])
    assert tables[at + kinds[T4]] > 0 == tables[at + kinds[V100]]


def kinds_of(*kinds: tuple[str, int, int]) -> list[Node]:
    """Nodes of four GPUs: model, memory in GiB, how many nodes."""
    return [
        Node(f"{model}-{gib}-{i}", tuple(Gpu(f"{model}-{gib}/{i}/{j}", model, gib << 30) for j in range(4)))
        for model, gib, count in kinds
        for i in range(count)
    ]


def test_levels_are_those_of_what_can_get_scarce_not_of_so_many_things():
    """Another kind in the place of one, of the same model: as many things, but other ones."""
    cluster = Cluster(MIX, NoInterference())
    cluster.set_nodes(kinds_of((V100, 32, 20), (T4, 16, 1)))
    search = Search(cluster, PLACEMENTS["cotenant"](), NoInterference(), Options(compiled=False))
    search.catch_up()
    scarce = search.prices.levels
    cluster.set_nodes(kinds_of((V100, 32, 20), (T4, 15, 20)))
    search.catch_up()
    assert len(search.prices.levels) == len(scarce)
    assert search.prices.levels[1] < scarce[1]


def test_levels_are_kept_where_more_nodes_come_of_the_same_kinds():
    cluster = Cluster(MIX, NoInterference())
    cluster.set_nodes(kinds_of((V100, 32, 20), (T4, 16, 1)))
    search = Search(cluster, PLACEMENTS["cotenant"](), NoInterference(), Options(compiled=False))
    search.catch_up()
    scarce = search.prices.levels
    cluster.set_nodes(kinds_of((V100, 32, 20), (T4, 16, 20)))
    search.catch_up()
    assert search.prices.levels == scarce
    search.review_prices()
    assert search.prices.levels[1] < scarce[1]


@pytest.mark.parametrize("thing", [0, 1], ids=["places for four GPUs", "T4s"])
def test_what_is_free_on_nodes_that_are_not_up_is_no_supply(thing):
    cluster = Cluster(MIX, NoInterference())
    cluster.set_nodes(kinds_of((V100, 32, 20), (T4, 16, 20)))
    search = Search(cluster, PLACEMENTS["cotenant"](), NoInterference(), Options(compiled=False))
    search.catch_up()
    plenty = search.prices.levels[thing]
    for i in range(1, 20):
        cluster.set_up(f"{T4}-16-{i}", up=False)
        if thing == 0:  # elsewhere something is free, but no four GPUs
            share = Share(f"{V100}-32/{i}/0", Mode.MPS, 10)
            cluster.allocate(Holder(f"a{i}", "t"), Assignment(0, f"{V100}-32-{i}", (share,)))
    search.review_prices()
    assert search.prices.levels[thing] > plenty


@pytest.mark.parametrize(
    ("model", "opening"),
    [("A100-SXM4-80GB", (0, 13_000, 1_000, 0)), ("H100-SXM5-80GB", (0, 3_000, 1_000, 0))],
)
def test_an_empty_gpu_has_the_price_of_its_change_of_mode(model, opening):
    """MIG: its mode, its instances, and a reset where turning it on takes one; MPS: its server."""
    cluster = Cluster(MIX, NoInterference())
    cluster.set_nodes([Node("n", (Gpu("t", T4, 16 << 30), Gpu("g", model, 80 << 30)))])
    search = Search(cluster, PLACEMENTS["cotenant"](), NoInterference(), Options(compiled=False))
    ask = search.ask_of(search.demand(Job("b", Request(compute_milli=100), 0.0, 1), None))
    modes = Mode.EXCLUSIVE, Mode.MIG, Mode.MPS, Mode.TIMESLICE
    assert tuple(ask.terms[MODE_ORDER.index(mode), 1, k.PRICE] for mode in modes) == opening
    with pytest.raises(StateError, match="cannot be set up for mig"):
        opening_ms(T4, Mode.MIG)


def test_what_is_taken_for_usual_fits_common_gpus():
    cluster = Cluster(USUAL)
    cluster.set_nodes([Node("n", (Gpu("g", "A100-SXM4-80GB", 80 << 30),))])
    shares = sum(1 for usual in USUAL if usual.request.gpus == 1)
    assert int(cluster.gpus[0, 0, k.USABLE]).bit_count() >= shares
