"""What an offer says, above all what it strands, against the definition: the node before and after."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings

from placement import engine
from placement.cluster import Cluster
from placement.interference import AdditiveInterference
from placement.mix import MOST_USUAL, Mix, UsualRequest
from placement.model import Assignment, Gpu, Job, Mode, Node, Request, Share
from placement.options import Options
from placement.policies import Offer, Placement
from placement.policies.base import Measure
from placement.search import Search
from tests.property.plain_books import Books
from tests.property.plain_search import Asked, PlainSearch
from tests.property.test_search import GIB, PROFILES, Dice, holder_of, lenient, seeds

EXCLUSIVE, MIG, MPS, TURNS = (frozenset({m}) for m in (Mode.EXCLUSIVE, Mode.MIG, Mode.MPS, Mode.TIMESLICE))


class Listening(Placement):
    """Likes every place, and remembers all that it was offered."""

    name = "listening"
    any_mode = True
    weighs = Measure.STRANDED
    heard: ClassVar[list[Offer]] = []

    @staticmethod
    def score(at: Offer) -> Any:
        """Always 0."""
        Listening.heard.append(Offer(*map(int, at)))
        return 0


def offers_of(look: Any) -> list[Offer]:
    """All different offers that somebody hears, in an order in which what is stranded comes last."""
    Listening.heard.clear()
    look()
    return sorted(set(Listening.heard), key=lambda at: (*at._replace(stranded=0), at.stranded))


class Workshop:
    """One node and its mix, in the core and in the plain books."""

    def __init__(self, node: Node, mix: Mix) -> None:
        self.cluster = Cluster(mix, AdditiveInterference())
        self.cluster.set_nodes([node])
        options = Options(compiled=False, exact=True)
        self.search = Search(self.cluster, Listening(), AdditiveInterference(), options)
        self.books = Books({node.node_id: node}, AdditiveInterference(), mix)
        self.plain = PlainSearch(self.books, Listening(), 0, None)
        self.jobs = 0

    def job(self, request: Request, tenant: str = "red") -> Job:
        self.jobs += 1
        return Job(f"job-{self.jobs:03}", request, 0.0, self.jobs, tenant=tenant)

    def offered(self, job: Job, profile: Any = None) -> tuple[list[Offer], list[Offer]]:
        """What the core offers a job, and what is worked out anew."""
        demand = self.search.demand(job, profile)
        core = offers_of(lambda: self.search.place(holder_of(job, profile), demand, job))
        for worker in range(job.workers):
            self.cluster.release(job.job_id, worker)
        return core, offers_of(
            lambda: self.plain.worker(Asked(job, profile, Listening(), self.books.belief), 0, None)
        )

    def settle(self, dice: Dice, request: Request) -> None:
        """Somebody moves in at a place chosen at random."""
        job, profile = self.job(request, dice.of("red", "blue")), dice.of(*PROFILES)
        places = list(
            self.plain.places(Asked(job, profile, Listening(), self.books.belief), *self.books.nodes)
        )
        if places:
            self.move_in(job, dice.of(*places).shares, profile)

    def move_in(self, job: Job, shares: tuple[Share, ...], profile: Any = None) -> None:
        assignment = Assignment(0, *self.books.nodes, shares)
        self.books.take(job, profile, assignment)
        self.cluster.allocate(holder_of(job, profile), assignment)

    def move_out(self, job_id: str) -> None:
        self.books.drop(job_id)
        self.cluster.release(job_id, 0)


def usual_mix(dice: Dice, count: int) -> Mix:
    """Requests in all modes; of several GPUs only whole ones, some for certain models alone."""
    mix = []
    for _ in range(count):
        request = replace(dice.request(calm=True), max_slowdown=None)
        if request.gpus > 1:
            request = replace(request, modes=EXCLUSIVE, mig_profile=None)
        mix.append(UsualRequest(request, dice.randrange(1, 50), dice.of(*PROFILES)))
        if dice.random() < 0.4:
            mix.append(UsualRequest(replace(request, gpu_models=("V100",)), 7, mix[-1].profile))
    return tuple(mix)


@settings(lenient, max_examples=30)
@given(seed=seeds)
def test_every_offer_is_what_the_node_would_be_like(seed):
    dice = Dice(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "FEW_NODES", 1000)
        workshop = Workshop(dice.node("n"), usual_mix(dice, dice.randrange(1, 8)))
        for _ in range(8):
            workshop.settle(dice, dice.request(calm=True))
            if dice.random() < 0.3 and workshop.books.held:
                workshop.move_out(dice.of(*sorted(workshop.books.held))[0])
            job, profile = workshop.job(dice.request(calm=True)), dice.of(*PROFILES)
            core, anew = workshop.offered(job, profile)
            # Popularities are rounded down, each by less than one.
            slack = 1000 * len(workshop.books.slots("n")) * len(workshop.books.mix) * max(job.request.gpus, 1)
            assert [at._replace(stranded=0) for at in core] == [at._replace(stranded=0) for at in anew], job
            for one, other in zip(core, anew, strict=True):
                assert abs(one.stranded - other.stranded) <= slack, f"{job}\n{one}\n{other}"


def node_of(count: int, model: str = "V100-SXM2-32GB", **beside: int) -> Node:
    return Node("n", tuple(Gpu(f"g{j}", model, 32 * GIB) for j in range(count)), **beside)


HALF = UsualRequest(Request(compute_milli=500, modes=MPS), 1)
WHOLE_ONE = UsualRequest(Request(modes=EXCLUSIVE), 1)
PAIR = UsualRequest(Request(gpus=2, modes=EXCLUSIVE), 1)
BARE = UsualRequest(Request(gpus=0), 1)
P = 1 << 20


def share(milli: int) -> Request:
    return Request(compute_milli=milli, modes=MPS)


def turn(milli: int) -> Request:
    return Request(compute_milli=milli, modes=TURNS)


GROWTH = {
    "700 left, half a GPU still fits": ((HALF,), share(300), 0),
    "400 left, it does not": ((HALF,), share(600), 400 * P),
    "another mode, too little left": ((HALF,), turn(600), 400 * P),
    "another mode, enough left": ((HALF,), turn(100), 900 * P),
    "whole, nothing left": ((HALF,), Request(modes=EXCLUSIVE), 0),
    "no longer whole": ((WHOLE_ONE,), share(100), 900 * P),
    "no pair any more, all of it": ((PAIR,), share(100), 1900 * P),
    "one of a pair": ((PAIR,), Request(modes=EXCLUSIVE), 1000 * P),
    "both of a pair": ((PAIR,), Request(gpus=2, modes=EXCLUSIVE), 0),
    "stranded before, now in use": ((BARE,), share(300), -300 * P),
    "half and half": ((HALF, BARE), share(600), (400 - 600) * P // 2),
}
"""Usual requests, what is asked for on two empty GPUs, and how much more is stranded then."""


@pytest.mark.parametrize("case", GROWTH)
def test_growth_of_what_is_stranded(case):
    mix, asked, grown = GROWTH[case]
    workshop = Workshop(node_of(2), mix)
    core, _anew = workshop.offered(workshop.job(asked))
    assert {at.stranded for at in core} == {grown}


def test_who_takes_the_last_cpu_strands_the_gpus():
    usual = UsualRequest(Request(compute_milli=100, modes=MPS, cpu_milli=1000), 1)
    workshop = Workshop(node_of(2, cpu_milli=2500), (usual,))
    core, _anew = workshop.offered(workshop.job(Request(compute_milli=500, modes=MPS, cpu_milli=2000)))
    assert {at.stranded for at in core} == {1500 * P}
    core, _anew = workshop.offered(workshop.job(Request(gpus=0, cpu_milli=2000)))
    assert {at.stranded for at in core} == {2000 * P}


def test_requests_that_differ_in_the_model_alone_count_where_they_may_run():
    mix = tuple(
        UsualRequest(replace(HALF.request, gpu_models=(m,)), 1) for m in ("V100", "T4", "V100", "A100")
    )
    workshop = Workshop(node_of(1), mix)
    core, _anew = workshop.offered(workshop.job(Request(compute_milli=600, modes=MPS)))
    # Before, 1000 for those of other models; after, 400 for all.
    assert [at.stranded for at in core] == [400 * P - 1000 * P // 2]


def test_of_many_usual_requests_the_least_popular_are_left_out():
    mix = tuple(UsualRequest(Request(compute_milli=10 * i, modes=MPS), 100 - i) for i in range(1, 71))
    workshop = Workshop(node_of(1), mix)
    core, _anew = workshop.offered(workshop.job(Request(compute_milli=350, modes=MPS)))
    kept = mix[:MOST_USUAL]
    assert len(mix) > MOST_USUAL
    total = sum(usual.weight for usual in kept)
    too_large = sum(usual.weight for usual in kept if usual.request.compute_milli > 650)
    assert core[0].stranded == pytest.approx(650 * P * too_large / total, abs=1000 * len(mix))
