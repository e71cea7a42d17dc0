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
from tests.property.plain_books import Lodger, Slot, compute_slices, profiles_of, stranded
from tests.property.test_search import GIB, Dice, holder_of, lenient, seeds

KINDS = (("A100-SXM4-80GB", 80 * GIB), ("A30-24GB", 24 * GIB), ("H100-SXM5-80GB", 80 * GIB))
MIG, EXCLUSIVE = (frozenset({mode}) for mode in (Mode.MIG, Mode.EXCLUSIVE))
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


def mix_for(dice: Dice, model: str) -> Mix:
    """Slices by name, one each, and whole GPUs; the weights sum up to a power of two."""
    names = [cut.name for cut in profiles_of(model)]
    slices = [
        UsualRequest(Request(mig_profile=dice.of(*names), modes=MIG), weight) for weight in (16, 8, 4, 2)
    ]
    return (*slices, UsualRequest(Request(modes=EXCLUSIVE), 2))


def with_slices(slot: Slot, request: Request, copies: int) -> list[Slot]:
    """The GPU after each of so many slices, one after the other; fewer if they do not all fit."""
    need = needs_of(replace(request, gpus=1, devices=Devices.DISTINCT), None, slot.gpu.model, None)[Mode.MIG]
    steps: list[Slot] = []
    for _ in range(copies):
        if not slot.has_room(need):
            break
        slot = slot.with_one_more(need, Lodger(None, "red", False, None, None))
        steps.append(slot)
    return steps


def fill(slot: Slot, usual: list[MigProfile]) -> int:
    """The best fill of what is free with these slices, each worth the scarcer of its two parts."""
    compute, memory = compute_slices(slot.gpu.model), geometry_of(slot.gpu.model).memory_slices
    known: dict[frozenset, int] = {}

    def best(taken: tuple[tuple[MigProfile, int], ...]) -> int:
        key = frozenset((cut.name, start) for cut, start in taken)
        if key not in known:
            known[key] = max(
                (
                    1000 * max(cut.compute_slices * memory, cut.memory_slices * compute) // (compute * memory)
                    + best((*taken, (cut, start)))
                    for cut in usual
                    for start in cut.starts
                    if slot._stands([*taken], cut, start)
                ),
                default=0,
            )
        return known[key]

    return best(tuple(slot.slices())) * 1000 // max(best(()), 1)


def lost(before: Slot, after: Slot, mix: Mix) -> int:
    """What usual requests lose on a node of one GPU, without CPU, RAM and prices."""
    named = {usual.request.mig_profile for usual in mix}
    usual = [cut for cut in profiles_of(before.gpu.model) if cut.name in named]
    worth = fill(before, usual) if before.lodgers else 1000
    free, left = before.free_milli, after.free_milli
    fed = (4 * 8 + 1) * free // 8 - (4 * 8 + 1) * left // 8
    return 3 * (worth - fill(after, usual)) + (free * free - left * left) // 4000 + fed


class Bench:
    """One GPU cut at random, and what the core says of several slices more."""

    def __init__(self, seed: int) -> None:
        dice = Dice(seed)
        self.model, memory = dice.of(*KINDS)
        self.gpu = Gpu("g", self.model, memory)
        self.mix = mix_for(dice, self.model)
        names = [cut.name for cut in profiles_of(self.model) if not cut.media]
        self.slot = Slot(self.gpu)
        for _ in range(dice.randrange(3)):
            steps = with_slices(self.slot, Request(mig_profile=dice.of(*names), modes=MIG), 1)
            self.slot = steps[-1] if steps else self.slot
        copies = dice.of(2, 2, 3, 4)
        single = Request(mig_profile=dice.of(*names), modes=MIG)
        self.request = replace(single, gpus=copies, devices=Devices.SAME)
        self.steps = with_slices(self.slot, single, copies)
        self.fits = len(self.steps) == copies

    def said(self, policy: Placement, few: int, *, compiled: bool) -> int | None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(engine, "FEW_NODES", few)
            cluster = Cluster(self.mix, NoInterference())
            cluster.set_nodes([Node("n", (self.gpu,))])
            for i, lodger in enumerate(self.slot.lodgers):
                job = Job(f"j{i}", self.request, 0.0, i)
                cluster.allocate(holder_of(job, None), Assignment(0, "n", (lodger.share,)))
            search = Search(cluster, policy, NoInterference(), Options(compiled=compiled, exact=True))
            return search.score_on(search.demand(Job("new", self.request, 0.0, 9), None), 0)


@pytest.mark.parametrize("name", ENGINES)
@settings(lenient, max_examples=40)
@given(seed=seeds)
def test_what_several_slices_strand_is_the_sum_of_what_each_strands_after_the_others(name, seed):
    if name == "compiled" and numba is None:
        pytest.skip("numba is not installed")
    bench, (few, compiled) = Bench(seed), ENGINES[name]
    said = bench.said(Stranding(), few, compiled=compiled)
    if not bench.fits:
        assert said is None
        return
    strands = [stranded([slot], 1 << 60, 1 << 60, bench.mix) for slot in (bench.slot, *bench.steps)]
    assert said == sum(after - before for before, after in itertools.pairwise(strands))


@pytest.mark.parametrize("name", ENGINES)
@settings(lenient, max_examples=40)
@given(seed=seeds)
def test_what_usual_requests_lose_by_several_slices_is_worked_out_from_all_of_them(name, seed):
    if name == "compiled" and numba is None:
        pytest.skip("numba is not installed")
    bench, (few, compiled) = Bench(seed), ENGINES[name]
    said = bench.said(Forgoing(), few, compiled=compiled)
    assert said == (lost(bench.slot, bench.steps[-1], bench.mix) if bench.fits else None)


@pytest.mark.parametrize("model", [model for model, _memory in KINDS])
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
