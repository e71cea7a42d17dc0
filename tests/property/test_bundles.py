"""Several shares on one GPU: what they strand and what others lose by them, one share after the other."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings

from placement import engine
from placement.cluster import Cluster
from placement.interference import NoInterference
from placement.jit import numba
from placement.mix import Mix, UsualRequest
from placement.model import Assignment, Devices, Gpu, Job, Mode, Node, Request
from placement.options import Options
from placement.partition import MigProfile, geometry_of, needs_of
from placement.policies import Offer, Placement
from placement.policies.base import Measure
from placement.search import Search
from tests.property.plain_books import Lodger, Slot, compute_slices, popularities, profiles_of
from tests.property.test_search import GIB, Dice, holder_of, lenient, seeds

KINDS = (
    ("A100-SXM4-80GB", 80 * GIB),
    ("A30-24GB", 24 * GIB),
    ("H100-SXM5-80GB", 80 * GIB),
    ("P100-SXM2-16GB", 16 * GIB),  # of 16 clients
)
MIG, EXCLUSIVE = (frozenset({mode}) for mode in (Mode.MIG, Mode.EXCLUSIVE))
SHARES = frozenset({Mode.MPS, Mode.TIMESLICE})
ENGINES = {"plain": (1000, False), "numpy": (0, False), "compiled": (0, True)}


class Stranding(Placement):
    """Tells what a place strands."""

    name = "stranding"
    any_mode = True
    weighs = Measure.STRANDED

    @staticmethod
    def score(at: Offer) -> Any:
        """Just that."""
        return at.stranded


class Forgoing(Placement):
    """Tells what usual requests lose by a place."""

    name = "forgoing"
    any_mode = True
    weighs = Measure.FORGONE

    @staticmethod
    def score(at: Offer) -> Any:
        """Just that."""
        return at.forgone


def several(request: Request, copies: int) -> Request:
    """So many of them for one worker, all on one GPU."""
    return replace(request, gpus=copies, devices=Devices.SAME) if copies > 1 else request


def mix_for(dice: Dice, model: str) -> Mix:
    """Slices by name and shares, one or several at once, and whole GPUs; the weights: a power of two."""
    names = [cut.name for cut in profiles_of(model)]
    asked = [Request(mig_profile=dice.of(*names), modes=MIG) for _ in range(3 if names else 0)]
    asked += [Request(compute_milli=dice.of(10, 50, 200), modes=SHARES) for _ in range(6 - len(asked))]
    usual = [UsualRequest(several(request, dice.of(1, 2, 3, 4)), 2) for request in asked]
    return (*usual, UsualRequest(Request(modes=EXCLUSIVE), 4))


def with_shares(slot: Slot, request: Request, mode: Mode, copies: int) -> list[Slot]:
    """The GPU after each of so many shares, one after the other; fewer if they do not all fit."""
    single = replace(request, gpus=1, devices=Devices.DISTINCT)
    need = needs_of(single, None, slot.gpu.model, slot.gpu.memory_bytes).get(mode)
    steps: list[Slot] = []
    while need is not None and len(steps) < copies and slot.has_room(need):
        slot = slot.with_one_more(need, Lodger(None, "red", False, None, None))
        steps.append(slot)
    return steps


def stranded(slot: Slot, mix: Mix) -> int:
    """Free compute of a GPU times the popularity of the usual requests that it could not serve now."""
    total = 0
    for usual, popularity in zip(mix, popularities(mix), strict=True):
        request = usual.request
        copies = request.gpus if request.devices is Devices.SAME else 1
        serves = any(len(with_shares(slot, request, mode, copies)) == copies for mode in request.modes)
        total += 0 if serves else popularity * slot.free_milli
    return total


def fill(slot: Slot, usual: list[tuple[MigProfile, int]]) -> int:
    """The best fill of what is free with these slices, each worth the scarcer of its two parts."""
    compute, memory = compute_slices(slot.gpu.model), geometry_of(slot.gpu.model).memory_slices
    known: dict[frozenset, int] = {}

    def best(taken: tuple[tuple[MigProfile, int], ...]) -> int:
        key = frozenset((cut.name, start) for cut, start in taken)
        if key not in known:
            known[key] = max(
                (
                    copies
                    * (
                        1000
                        * max(cut.compute_slices * memory, cut.memory_slices * compute)
                        // (compute * memory)
                    )
                    + best((*taken, *((cut, start) for start in starts)))
                    for cut, copies in usual
                    for starts in itertools.combinations(cut.starts, copies)
                    if stand(taken, cut, starts)
                ),
                default=0,
            )
        return known[key]

    def stand(taken: tuple[tuple[MigProfile, int], ...], cut: MigProfile, starts: tuple[int, ...]) -> bool:
        placed = [*taken]
        for start in starts:
            if not slot._stands(placed, cut, start):
                return False
            placed.append((cut, start))
        return True

    return best(tuple(slot.slices())) * 1000 // max(best(()), 1)


def lost(before: Slot, after: Slot, mix: Mix) -> int:
    """What usual requests lose by slices on a node of one GPU, without CPU, RAM and prices."""
    by_name = {cut.name: cut for cut in profiles_of(before.gpu.model)}
    named = [usual.request for usual in mix if usual.request.mig_profile is not None]
    usual = sorted({(r.mig_profile, r.gpus) for r in named if fits_at_all(before, r)})
    usual = usual or [(cut.name, 1) for cut in by_name.values() if not cut.media]  # then all single ones
    fills = [fill(slot, [(by_name[name], copies) for name, copies in usual]) for slot in (before, after)]
    worth = fills[0] if before.lodgers else 1000
    free, left = before.free_milli, after.free_milli
    fed = (4 * 8 + 1) * free // 8 - (4 * 8 + 1) * left // 8
    return 3 * (worth - fills[1]) + (free * free - left * left) // 4000 + fed


def fits_at_all(slot: Slot, request: Request) -> bool:
    return len(with_shares(Slot(slot.gpu), request, Mode.MIG, request.gpus)) == request.gpus


class Bench:
    """One GPU shared at random, and what the core says of several shares more."""

    def __init__(self, seed: int, *, slices: bool) -> None:
        dice = Dice(seed)
        model, memory = dice.of(*(KINDS[:3] if slices else KINDS))
        self.gpu = Gpu("g", model, memory)
        self.mix = mix_for(dice, model)
        names = [cut.name for cut in profiles_of(model) if not cut.media]
        self.mode = Mode.MIG if slices else dice.of(Mode.MPS, Mode.TIMESLICE)

        def asked() -> Request:
            if slices:
                return Request(mig_profile=dice.of(*names), modes=MIG)
            return Request(compute_milli=dice.of(10, 50, 120), modes=frozenset({self.mode}))

        self.slot = Slot(self.gpu)
        for _ in range(dice.of(0, 1, 2) if slices else dice.of(0, 1, 2, 7, 12)):
            steps = with_shares(self.slot, asked(), self.mode, 1)
            self.slot = steps[-1] if steps else self.slot
        copies = dice.of(1, 2, 2, 3, 4)
        self.request = several(asked(), copies)
        self.steps = with_shares(self.slot, self.request, self.mode, copies)
        self.fits = len(self.steps) == copies

    def said(self, policy: Placement, name: str) -> int | None:
        few, compiled = ENGINES[name]
        if compiled and numba is None:
            pytest.skip("numba is not installed")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(engine, "FEW_NODES", few)
            cluster = Cluster(self.mix, NoInterference())
            cluster.set_nodes([Node("n", (self.gpu,))])
            for i, lodger in enumerate(self.slot.lodgers):
                job = Job(f"j{i}", self.request, 0.0, i)
                cluster.allocate(holder_of(job, None), Assignment(0, "n", (lodger.share,)))
            search = Search(cluster, policy, NoInterference(), Options(compiled=compiled, exact=True))
            return search.score_on(search.demand(Job("new", self.request, 0.0, 9), None), 0)


@pytest.mark.parametrize("slices", [True, False], ids=["slices", "shares"])
@pytest.mark.parametrize("name", ENGINES)
@settings(lenient, max_examples=40)
@given(seed=seeds)
def test_what_several_shares_strand_is_the_sum_of_what_each_strands_after_the_others(name, slices, seed):
    bench = Bench(seed, slices=slices)
    said = bench.said(Stranding(), name)
    if not bench.fits:
        assert said is None
        return
    strands = [stranded(slot, bench.mix) for slot in (bench.slot, *bench.steps)]
    assert said == sum(after - before for before, after in itertools.pairwise(strands))


@pytest.mark.parametrize("name", ENGINES)
@settings(lenient, max_examples=40)
@given(seed=seeds)
def test_what_usual_requests_lose_by_several_slices_is_worked_out_from_all_of_them(name, seed):
    bench = Bench(seed, slices=True)
    said = bench.said(Forgoing(), name)
    assert said == (lost(bench.slot, bench.steps[-1], bench.mix) if bench.fits else None)


@pytest.mark.parametrize("model", [model for model, _memory in KINDS[:3]])
def test_the_occupancy_after_a_bundle_is_that_of_its_slices_one_by_one(model):
    geometry = geometry_of(model)
    for bundle, (profile, copies) in enumerate(geometry.bundles):
        for state in range(0, 1 << 12, 7):
            after = int(geometry.after[state, bundle])
            assert (after >= 0) == (geometry.room[state, profile] >= copies)
            if after >= 0:
                for start in geometry.starts_of(state, profile, copies):
                    state = geometry.add(state, profile, start)  # noqa: PLW2901 - one slice after the other
                assert after == state
