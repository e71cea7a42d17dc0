"""What holds for the core when jobs are moved for others, on random clusters and random histories."""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from placement.lifecycle import ENDED, JobState
from placement.model import Mode, Request
from placement.options import Options
from placement.scheduler import Scheduler
from tests.cases.movers import moving_registered
from tests.property.test_core import lenient, play
from tests.property.world import GIB, Happen, Submit, World

POLICIES = (
    "fifo+moving",
    "backfill+moving",
    "srtf+moving",
    "backfill+miso",
    "srtf+miso",
    "backfill+cotenant",
)

ALONE, CUT, SHARED = frozenset({Mode.EXCLUSIVE}), frozenset({Mode.MIG}), frozenset({Mode.MPS})
REQUESTS = (
    *(Request(gpus=gpus, modes=ALONE) for gpus in (1, 1, 2, 2, 3)),
    *(
        Request(modes=CUT, mig_profile=name)
        for name in ("1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb")
    ),
    *(Request(compute_milli=milli, modes=SHARED) for milli in (300, 600)),
    Request(compute_milli=300, modes=SHARED, max_slowdown=1.3),
    Request(compute_milli=500, modes=ALONE | CUT | SHARED, cpu_milli=3000),
    Request(gpus=2, compute_milli=500, modes=SHARED | ALONE, memory_bytes=9 * GIB),
)
"""Few kinds that get in each other's way, so that there is often something to move."""

SHAPES = (("A100-SXM4-80GB", None), ("A100-SXM4-80GB", 8000), ("V100-SXM2-32GB", None))
HAPPENINGS = (
    "end",
    "end",
    "end",
    "leave",
    "leave",
    "leave",
    "leave",
    "fail",
    "cancel",
    "lose",
    "fence",
    "return",
)


@dataclass(frozen=True)
class Story:
    """A random cluster and what happens on it; drawn by a seed: much must happen before one is moved."""

    seed: int

    def shape(self) -> list[tuple[str, int, int | None]]:
        draw = random.Random(self.seed)
        return [(model, draw.randint(1, 3), cpu) for model, cpu in draw.choices(SHAPES, k=draw.randint(2, 3))]

    def turns(self) -> list[list[Submit | Happen]]:
        draw = random.Random(-1 - self.seed)
        return [[_item(draw) for _ in range(draw.randint(1, 3))] for _ in range(24)]


def _item(draw: random.Random) -> Submit | Happen:
    if draw.random() < 0.55:
        return Submit(
            request=draw.choice(REQUESTS),
            workers=draw.choice([1, 1, 1, 1, 2, 2, 3]),
            tenant=draw.choice(["red", "blue"]),
            priority=draw.choice([0, 0, 0, 5]),
            duration_s=draw.choice([None, None, 500.0]),
            profile=draw.choice([None, "light", "heavy"]),
            immediate=draw.random() < 0.1,
            preemptible=draw.random() < 0.9,
        )
    return Happen(draw.choice(HAPPENINGS), draw.randint(0, 99))


stories = st.builds(Story, st.integers(0, 1 << 20))


@pytest.fixture(autouse=True, scope="module")
def nobody_needs_to_settle():
    with moving_registered(settled_s=0.0):
        yield


@pytest.mark.parametrize("policy", POLICIES)
@lenient
@given(story=stories)
def test_nothing_that_runs_side_by_side_exceeds_what_there_is(policy, story):
    world = World.new(story.shape(), policy)
    for turn in story.turns():
        play(world, [turn])
        for record in world.scheduler.records():
            kept = bool(record.next_place)
            assert not kept or (record.state is JobState.STOPPING and not record.assignments)
            assert not kept or len(record.vacating) == record.job.workers


@pytest.mark.parametrize("policy", POLICIES)
@lenient
@given(story=stories)
def test_after_everybody_left_the_state_is_bit_for_bit_the_start(policy, story):
    world = World.new(story.shape(), policy)
    gpus, cluster_nodes = world.scheduler.cluster.gpus.copy(), world.scheduler.cluster.nodes.copy()
    play(world, story.turns())
    world.empty()
    for node in world.nodes.values():
        world.scheduler.cluster.set_up(node.node_id, up=True)
    assert np.array_equal(world.scheduler.cluster.gpus, gpus)
    assert np.array_equal(world.scheduler.cluster.nodes, cluster_nodes)
    assert all(record.state in ENDED for record in world.scheduler.records())


@pytest.mark.parametrize("policy", POLICIES)
@lenient
@given(story=stories, seed=st.integers(0, 1000))
def test_the_order_of_events_of_one_moment_does_not_matter(policy, story, seed):
    one = play(World.new(story.shape(), policy), story.turns(), shuffle=0)
    other = play(World.new(story.shape(), policy), story.turns(), shuffle=seed)
    assert sorted(one.log) == sorted(other.log)


@pytest.mark.parametrize("policy", POLICIES)
@lenient
@example(story=Story(5055), at=10)  # one that has been moved may be pushed out for one who waits
@given(story=stories, at=st.integers(0, 13))
def test_a_restored_scheduler_decides_like_the_one_that_never_died(policy, story, at):
    """Once at any time, and whenever somebody is on the move."""
    steady, restored = World.new(story.shape(), policy), World.new(story.shape(), policy)
    for i, turn in enumerate(story.turns()):
        if i == at or any(record.next_place for record in restored.scheduler.records()):
            old = restored.scheduler
            ended = {r.job.job_id: r for r in old.records() if r.state in ENDED}
            restored.scheduler = Scheduler.restore(
                old.policy, old.belief, copy.deepcopy(old.snapshot()), Options(seed=7)
            )
            for record in ended.values():  # the checks look at ended jobs too
                restored.scheduler._ledger.enter(record)
        play(steady, [turn])
        play(restored, [turn])
    assert restored.log == steady.log


@pytest.mark.parametrize("policy", POLICIES)
@lenient
@given(story=stories)
def test_what_is_planned_changes_nothing(policy, story):
    """Explaining everybody after each step, what-ifs included, leaves every decision as it was."""
    silent, asked = World.new(story.shape(), policy), World.new(story.shape(), policy)
    for turn in story.turns():
        play(silent, [turn])
        play(asked, [turn])
        for record in list(asked.scheduler.records()):
            asked.scheduler.explain(record.job.job_id)
    assert asked.log == silent.log
