"""HiveD's guarantee against a random adversary, judged from what jobs hold and nothing else."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from placement.lifecycle import JobState
from placement.model import InvalidSpec, Mode, NodeJoined, NodeLost, Request, node_from_short_form
from placement.policies import policy_named
from tests.cases.desk import Desk, whole
from tests.property.world import Happen, Submit, World

A100, H100 = "A100-SXM4-80GB", "H100-SXM5-80GB"
SHAPE = [(A100, 4, None), (A100, 4, None), (A100, 2, None), (H100, 2, None)]
CELLS = {("red", A100): {4: 1, 1: 1}, ("blue", A100): {2: 2, 1: 1}, ("blue", H100): {2: 1}}
QUOTAS = ":".join(
    f"{tenant}={count}x{size}x{model}"
    for (tenant, model), sizes in CELLS.items()
    for size, count in sizes.items()
)


class HivedWorld(World):
    """Also sees to it that nobody is pushed out of a cell."""

    def step(self, events) -> None:
        told = len(self.log)
        super().step(events)
        for line in self.log[told:]:
            _at, what, job_id, *_rest, last = line.split()
            if (what, last) == ("stop", "preempted"):
                left = self.scheduler.record(job_id).vacating
                assert [place.cell for place in left] == [None], f"pushed out of a cell: {line}"


def cells_in_use(world: World):
    """Used GPUs of each bound cell, by tenant and model: {(size, node, first slot): count}."""
    used = defaultdict(lambda: defaultdict(int))
    owner = {}
    for record in world.scheduler.records():
        for place in record.assignments:
            if place.cell is None:
                continue
            node = world.nodes[place.node_id]
            slots = [[gpu.uuid for gpu in node.gpus].index(share.gpu_uuid) for share in place.shares]
            first = min(slots) // place.cell * place.cell
            assert max(slots) < first + place.cell, "a worker reaches beyond its cell"
            whose = record.job.tenant, node.gpus[0].model
            used[whose][place.cell, place.node_id, first] += len(slots)
            for slot in range(first, first + place.cell):
                mine = (whose, place.cell)
                assert owner.setdefault((place.node_id, slot), mine) == mine, "cells overlap"
    return used


def private_room(world: World, tenant: str, model: str, gpus: int) -> bool:
    """Whether one more worker fits into a tenant's private cluster."""
    used = cells_in_use(world)[tenant, model]
    for size, count in CELLS.get((tenant, model), {}).items():
        bound = [taken for (cell, _node, _slot), taken in used.items() if cell == size]
        assert len(bound) <= count, "more cells than owned"
        if len(bound) < count and size >= gpus:
            return True
        if any(size - taken >= gpus for taken in bound):
            return True
    return False


def turn_of(rng: random.Random) -> list:
    if rng.random() < 0.55:
        models = rng.choice([(), (A100,), (H100,)])
        request = Request(
            gpus=rng.choice([1, 1, 2, 3, 4]), modes=frozenset({Mode.EXCLUSIVE}), gpu_models=models
        )
        tenant = rng.choice(["red", "red", "blue", "green"])
        return [Submit(request, 1, tenant, rng.choice([0, 0, 9]), None, None, False, rng.random() < 0.8)]
    return [Happen(rng.choice(["end", "end", "leave", "leave", "cancel"]), rng.randint(0, 99))]


@settings(deadline=None, max_examples=40, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.randoms(use_true_random=False))
def test_whoever_fits_into_its_private_cluster_never_waits(rng):
    world = HivedWorld.new(SHAPE, f"hived:{QUOTAS}", compiled=False)
    for _ in range(25):
        world.now_s += 1
        world.step(world.events_of(turn_of(rng)))
        world.check()
        for record in world.scheduler.waiting():
            job = record.job
            for model in job.request.gpu_models or (A100, H100):
                assert not private_room(world, job.tenant, model, job.request.gpus), f"{job} waits"


def test_the_adversary_does_fill_the_cluster_and_push_jobs_out():
    """Else the test above would show nothing."""
    preempted = waited = 0
    for seed in range(10):
        rng = random.Random(seed)
        world = HivedWorld.new(SHAPE, f"hived:{QUOTAS}", compiled=False)
        for _ in range(40):
            world.now_s += 1
            world.step(world.events_of(turn_of(rng)))
            waited += len(world.scheduler.waiting())
        preempted += sum("preempted" in line for line in world.log)
    assert preempted > 10
    assert waited > 50


def test_a_job_that_may_not_be_pushed_out_needs_cells():
    world = HivedWorld.new(SHAPE, f"hived:{QUOTAS}", compiled=False)
    whole = frozenset({Mode.EXCLUSIVE})
    for tenant, gpus in (("green", 1), ("red", 4), ("red", 4), ("blue", 4)):
        submit = Submit(Request(gpus=gpus, modes=whole), 1, tenant, 0, None, None, False, False)
        world.step(world.events_of([submit]))
    states = [record.state for record in world.scheduler.records()]
    assert states == [JobState.REJECTED, JobState.STARTING, JobState.QUEUED, JobState.REJECTED]
    assert "has no cells for it" in world.scheduler.record("job-1").failure


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (f"red=1x8x{A100}", f"policy hived: its tenants are promised 1 cell of 8x{A100} more than"),
        (f"red=2x4x{A100}:blue=1x4x{A100}", f"promised 1 cell of 4x{A100} more"),
        ("red=1x1xT4-16GB", "this cluster has none"),
    ],
)
def test_a_promise_that_a_cluster_cannot_keep(options, message):
    nodes = [node_from_short_form(f"4x{A100}", f"n-{i}") for i in range(2)]
    with pytest.raises(InvalidSpec, match=message):
        policy_named(f"hived:{options}").placement.check(nodes)
    policy_named(f"hived:red=1x4x{A100}:blue=2x2x{A100}").placement.check(nodes)


@pytest.mark.parametrize(
    ("options", "joined", "failure"),
    [
        (f"red=2x4x{A100}", 2, ""),
        (f"red=3x4x{A100}", 2, f"need 1 more of 4 GPUs than this cluster has, so none of {A100} is sure"),
        (f"red=1x4x{A100}:blue=4x2x{A100}", 2, "need 2 more of 2 GPUs"),
        (f"red=1x4x{A100}:blue=9x2x{H100}", 2, ""),  # they are of no concern to it
        (f"red=3x4x{A100}", 0, ""),  # nobody knows yet
    ],
)
@pytest.mark.parametrize("lost", [False, True])
def test_a_job_that_needs_a_cell_is_rejected_while_the_nodes_cannot_keep_all_promises(
    options, joined, failure, lost
):
    nodes = [node_from_short_form(f"4x{A100}", f"n-{i}") for i in range(joined)]
    desk = Desk(f"backfill+hived:{options}", tuple(nodes), compiled=False)
    if lost and nodes:  # it may come back
        desk.tell(NodeLost("n-1"))
    desk.submit("sure", whole(2), tenant="red", preemptible=False)
    desk.submit("guest", whole(2), tenant="red")
    assert failure in desk.scheduler.record("sure").failure
    assert (desk.state("sure") is JobState.REJECTED) == bool(failure)
    assert desk.state("guest") is (JobState.STARTING if nodes else JobState.QUEUED)
    desk.tell(*(NodeJoined(node_from_short_form(f"4x{A100}", f"m-{i}")) for i in range(2)))
    desk.submit("later", whole(2), tenant="red", preemptible=False)
    short = options.startswith("red=3") and not nodes
    assert (desk.state("later") is JobState.REJECTED) == short
