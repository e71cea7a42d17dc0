"""The search against a plain one that looks at everything, on random clusters with residents in all modes."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from placement import engine
from placement.cluster import Cluster
from placement.interference import AdditiveInterference
from placement.jit import numba
from placement.lodgings import Holder
from placement.mix import Mix, UsualRequest
from placement.model import Gpu, Isolation, Job, Lifetime, Mode, Node, Profile, Request
from placement.options import Options
from placement.policies import PLACEMENTS, Placement
from placement.policies.base import Measure
from placement.search import Search
from tests.property.plain_books import Books
from tests.property.plain_search import PlainSearch
from tests.property.plain_worth import PlainWorth
from tests.property.tangled import Apart, Choosy, Steps, Tangled

GIB = 1 << 30
POLICIES: dict[str, type[Placement]] = {
    **{name: type(build()) for name, build in PLACEMENTS.items()},
    "tangled": Tangled,
    "steps": Steps,
    "choosy": Choosy,
    "apart": Apart,
}
PLAIN = [name for name, policy in POLICIES.items() if not policy.gathers]
"""Policies whose places are worked out anew here; ``apart`` is `cotenant`, but for where its gangs go."""
COMPILED = ("best-fit", "tangled", "apart")
KINDS = (
    ("A100-SXM4-80GB", 80 * GIB),
    ("A30-24GB", 24 * GIB),
    ("V100-SXM2-32GB", 32 * GIB),
    ("P100-SXM2-16GB", 16 * GIB),
    ("G2", None),
)
SIZES = 0, 1, 1, 2, 3, 4, 8
PROFILES = (
    None,
    None,
    Profile("light", sm_milli=200, dram_milli=100),
    Profile("heavy", sm_milli=870, dram_milli=690, memory_bytes=9 * GIB),
    Profile("vague"),
    Profile(
        "sliced",
        {"A100-SXM4-80GB": 10, "A100-SXM4-80GB/1g.10gb": 3, "A100-SXM4-80GB/2g.20gb": 7, "A30-24GB": 6}
        | {"A30-24GB/1g.6gb": 2},
        sm_milli=400,
    ),
)
MIX: Mix = (
    UsualRequest(Request(compute_milli=300, cpu_milli=1000, modes=frozenset({Mode.MPS})), 20),
    UsualRequest(Request(compute_milli=500, memory_bytes=12 * GIB, ram_bytes=2 * GIB), 10),
    UsualRequest(Request(gpus=1, modes=frozenset({Mode.EXCLUSIVE}), cpu_milli=3000), 12),
    UsualRequest(Request(gpus=2, modes=frozenset({Mode.EXCLUSIVE}), gpu_models=("A100", "V100")), 8),
    UsualRequest(Request(mig_profile="2g.20gb", modes=frozenset({Mode.MIG})), 6),
    UsualRequest(Request(gpus=0, cpu_milli=2000), 4),
    UsualRequest(Request(gpus=2, modes=frozenset({Mode.EXCLUSIVE}), gpu_models=("P100",)), 4),
)
"""Weights sum up to a power of two, so that popularities are exact."""

lenient = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)


class Dice(random.Random):
    """Random worlds, all from one seed."""

    def of(self, *choices: Any) -> Any:
        return choices[self.randrange(len(choices))]

    def node(self, name: str, *, mixed: bool = False) -> Node:
        """A node of any size, of one kind of GPU unless ``mixed``."""
        kinds = [self.of(*KINDS), self.of(*KINDS)] if mixed else [self.of(*KINDS)]
        count = self.of(*SIZES)
        gpus = tuple(Gpu(f"{name}/{j}", *self.of(*kinds)) for j in range(count))
        limited = self.random() < 0.5
        return Node(name, gpus, self.of(4000, 9000) if limited else None, 8 * GIB if limited else None)

    def modes(self) -> frozenset[Mode]:
        several = ({Mode.MPS, Mode.MIG}, {Mode.TIMESLICE, Mode.EXCLUSIVE}, Mode, Mode)
        return frozenset(self.of(*({mode} for mode in Mode), *several))

    def request(self, *, calm: bool) -> Request:
        """Whatever one may ask for; if ``calm`` without promises and tenants that keep apart."""
        modes = self.modes()
        apart = self.of(*[Isolation.NONE] * 4, *([] if calm else [Isolation.TENANT] * 2), Isolation.HARDWARE)
        if apart is Isolation.HARDWARE:
            modes |= {Mode.EXCLUSIVE}
        return Request(
            gpus=self.of(0, 1, 1, 1, 1, 1, 2, 3),
            memory_bytes=self.of(None, 2 * GIB, 9 * GIB, 14 * GIB),
            compute_milli=self.of(None, 10, 100, 250, 330, 500, 1000),
            gpu_models=self.of((), (), (), ("A100",), ("V100", "P100")),
            modes=modes,
            mig_profile=self.of("1g.10gb+me", "2g.20gb")
            if Mode.MIG in modes and self.random() < 0.1
            else None,
            isolation=apart,
            max_slowdown=None if calm else self.of(None, None, 1.0, 1.123, 1.477, 2.5),
            cpu_milli=self.of(0, 300, 1500),
            ram_bytes=self.of(0, 0, GIB),
        )


@dataclass
class Desk:
    """A cluster of the core, the plain books beside it, and the same jobs for both."""

    seed: int
    policy: type[Placement]
    sight: int | None = None
    compiled: bool = False
    audited: bool = True

    def __post_init__(self) -> None:
        self.dice = Dice(self.seed)
        nodes = [self.node(f"n{i}") for i in range(self.dice.randrange(1, 8))]
        belief = AdditiveInterference()
        mix = MIX if self.policy.weighs is not Measure.NOTHING else ()
        self.cluster = Cluster(mix, belief)
        self.cluster.set_nodes(nodes)
        sizes = (64, 16) if self.sight is None else (self.sight, 1)
        options = Options(5, self.compiled, self.sight is None, *sizes)
        self.search = Search(self.cluster, self.policy(), belief, options)
        self.books = Books({node.node_id: node for node in nodes}, belief, mix)
        self.plain = PlainSearch(self.books, self.policy(), 5, self.sight)
        self.live: dict[str, tuple[Job, Profile | None]] = {}
        self.jobs = 0
        self.log: list[Any] = []
        # What is drawn depends on how often: such policies are judged without promises.
        self.calm = self.policy.noise
        self.requests = [self.dice.request(calm=self.calm) for _ in range(8)]

    def node(self, name: str) -> Node:
        """Of one kind of GPU where fragments are weighed: they are exact there alone."""
        exact = self.policy.weighs is not Measure.NOTHING
        return self.dice.node(name, mixed=not exact and self.dice.random() < 0.3)

    def run(self, turns: int) -> None:
        """Jobs come and go and nodes fail; every answer is compared with the plain one."""
        for _ in range(turns):
            what = self.dice.random()
            if what < 0.7:
                self.submit()
            elif what < 0.9 and self.live:
                self.end(self.dice.of(*sorted(self.live)))
            elif what < 0.93:
                self.replace_nodes()
            elif what < 0.95:
                self.cluster.neighbourhoods.sweep()
                self.search.review_prices()
            else:
                node_id = self.dice.of(*sorted(self.books.nodes))
                up = self.dice.random() < 0.6
                (self.books.down.discard if up else self.books.down.add)(node_id)
                self.cluster.set_up(node_id, up=up)

    def replace_nodes(self) -> None:
        """A node joins, and one that nobody uses may leave."""
        nodes = self.books.nodes
        idle = sorted(nodes.keys() - {held[2].node_id for held in self.books.held.values()})
        if idle and self.dice.random() < 0.5:
            del nodes[self.dice.of(*idle)]
        name = f"n{self.dice.randrange(100)}"
        nodes.setdefault(name, self.node(name))
        self.cluster.set_nodes(nodes.values())

    def submit(self) -> None:
        self.jobs += 1
        job, profile = self.job(), self.dice.of(*PROFILES)
        job = replace(job, profile=None if profile is None else profile.name)
        self.search.entered(job)
        asks = self.search.placement.asks
        like = [j for j, p in self.live.values() if asks(j) == asks(job) and p == profile]
        minds = self.policy.weighs_lifetimes
        same = [j for j in like if not minds or j.lifetime == job.lifetime]
        demand = self.search.demand(job, profile)
        found = self.search.place(holder_of(job, profile), demand, job)
        if self.audited:
            if self.policy.weighs is Measure.FORGONE:
                present = [(g.model, g.memory_bytes) for n in self.books.nodes.values() for g in n.gpus]
                self.plain.worth = PlainWorth(MIX, self.cluster.kinds, self.search.prices.levels, present)
            expected = self.plain.place(job, profile, alone=not same)
            assert found == expected, f"seed {self.seed}, {job}, {profile}"
        self.log.append(found)
        if found is None:
            self.search.left(job)
            return
        self.live[job.job_id] = (job, profile)
        for assignment in found:
            self.books.take(job, profile, assignment)

    def job(self) -> Job:
        """A job that asks for what some ask for, for something new, or for all clients of an MPS server."""
        dice, name, tenant = self.dice, f"job-{self.jobs:03}", self.dice.of("red", "blue")
        lifetime = dice.of(*Lifetime, Lifetime.BELOW_1_H)
        if dice.random() < 0.05:
            small = Request(compute_milli=1, modes=frozenset({Mode.MPS}))
            workers = dice.of(15, 16, 17, 47, 48)
            return Job(name, small, 0.0, self.jobs, tenant=tenant, workers=workers, lifetime=lifetime)
        request = dice.of(*self.requests, dice.request(calm=self.calm))
        workers = dice.of(1, 1, 1, 2, 4)
        return Job(name, request, 0.0, self.jobs, tenant=tenant, workers=workers, lifetime=lifetime)

    def end(self, job_id: str) -> None:
        job, _profile = self.live.pop(job_id)
        for worker in range(job.workers):
            self.cluster.release(job_id, worker)
        self.search.left(job)
        self.books.drop(job_id)


def holder_of(job: Job, profile: Profile | None) -> Holder:
    request = job.request
    isolating = request.isolation is Isolation.TENANT
    return Holder(job.job_id, job.tenant, profile, request.max_slowdown, isolating,
                  request.cpu_milli, request.ram_bytes, int(job.lifetime))  # fmt: skip


seeds = st.integers(0, 1 << 32)


@pytest.mark.parametrize("few", [0, 1000], ids=["numpy", "plain"])
@pytest.mark.parametrize("policy", PLAIN)
@settings(lenient, max_examples=5)
@given(seed=seeds)
def test_the_exact_search_takes_the_best_of_all_places(policy, few, seed):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "FEW_NODES", few)
        Desk(seed, POLICIES[policy]).run(25)


@pytest.mark.parametrize("policy", PLAIN)
@settings(lenient, max_examples=5)
@example(seed=956, sight=2)  # of a gang that takes sets, the second worker met company of the first
@given(seed=seeds, sight=st.integers(1, 3))
def test_the_bounded_search_takes_the_best_of_the_first_places_in_sight(policy, seed, sight):
    Desk(seed, POLICIES[policy], sight=sight).run(25)


class Storied(Cluster):
    """Has seen more kinds of GPUs than there are bits for, before the first node of today."""

    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        gone = [Gpu(f"gone/{i}", "A100-SXM4-80GB", 70 * GIB + i) for i in range(64)]
        self.set_nodes([Node("gone", tuple(gone))])


@pytest.mark.parametrize("sight", [None, 2])
@settings(lenient, max_examples=4)
@given(seed=seeds)
def test_more_kinds_of_gpus_than_there_are_bits_and_the_largest_nodes(sight, seed):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{__name__}.Cluster", Storied)
        patch.setattr(f"{__name__}.SIZES", (0, 1, 5, 64))
        Desk(seed, POLICIES["best-fit"], sight=sight).run(25)


@pytest.mark.timeout(240)  # compiling takes seconds, on a busy machine many
@pytest.mark.skipif(numba is None, reason="numba is not installed")
@pytest.mark.parametrize("policy", COMPILED)
@settings(lenient, max_examples=5)
@given(seed=seeds, sight=st.sampled_from([None, 2]))
def test_compiled_it_takes_the_same_places(policy, seed, sight):
    Desk(seed, POLICIES[policy], sight=sight, compiled=True).run(25)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("sight", [None, 2])
@settings(lenient, max_examples=4)
@given(seed=seeds)
def test_worth_is_the_same_for_all_engines(sight, seed):
    """Where the measure is not worked out anew: one node at a time, many at once, and compiled."""
    logs = []
    for few, compiled in ((1000, False), (0, False), (0, numba is not None)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(engine, "FEW_NODES", few)
            desk = Desk(seed, POLICIES["cotenant"], sight=sight, compiled=compiled, audited=False)
            desk.run(40)
            logs.append(desk.log)
    assert logs[0] == logs[1] == logs[2], f"seed {seed}"
