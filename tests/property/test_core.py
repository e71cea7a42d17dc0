"""What holds for the core whatever happens, on random clusters and random histories."""

from __future__ import annotations

import copy
import random

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from placement.jit import numba
from placement.lifecycle import ENDED
from placement.model import JobCancelled, JobSubmitted
from placement.options import Options
from placement.scheduler import Scheduler
from tests.property.world import World, histories, nodes

POLICIES = ("fifo", "backfill", "srtf", "best-fit", "spread", "random", "srtf+spread")
lenient = settings(
    deadline=None,
    max_examples=12,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    report_multiple_bugs=False,
)


def play(world: World, history: list, *, shuffle: int | None = None) -> World:
    for turn in history:
        world.now_s += 1
        events = world.events_of(turn)
        if shuffle is not None:
            arrivals = [event for event in events if isinstance(event, JobSubmitted)]
            others = [event for event in events if not isinstance(event, JobSubmitted | JobCancelled)]
            random.Random(shuffle).shuffle(arrivals)
            events = arrivals + others if shuffle % 2 else others + arrivals
        try:
            world.step(events)
            world.check()
        except AssertionError as error:
            raise AssertionError("\n".join([*world.log, str(events), str(error)])) from error
    return world


@pytest.mark.parametrize("policy", POLICIES)
@lenient
@given(shape=nodes, history=histories)
def test_nothing_that_runs_side_by_side_exceeds_what_there_is(policy, shape, history):
    play(World.new(shape, policy), history)


@pytest.mark.parametrize("policy", POLICIES)
@lenient
@given(shape=nodes, history=histories)
def test_after_everybody_left_the_state_is_bit_for_bit_the_start(policy, shape, history):
    world = World.new(shape, policy)
    gpus, cluster_nodes = world.scheduler.cluster.gpus.copy(), world.scheduler.cluster.nodes.copy()
    play(world, history)
    world.empty()
    for node in world.nodes.values():
        world.scheduler.cluster.set_up(node.node_id, up=True)
    assert np.array_equal(world.scheduler.cluster.gpus, gpus)
    assert np.array_equal(world.scheduler.cluster.nodes, cluster_nodes)
    assert all(record.state in ENDED for record in world.scheduler.records())


@pytest.mark.skipif(numba is None, reason="numba is not installed")
@pytest.mark.parametrize("policy", POLICIES)
@lenient
@given(shape=nodes, history=histories)
def test_compiled_and_plain_kernels_decide_alike(policy, shape, history):
    assert (
        play(World.new(shape, policy), history).log
        == play(World.new(shape, policy, compiled=False), history).log
    )


@pytest.mark.parametrize("policy", ["backfill", "srtf"])
@lenient
@given(shape=nodes, history=histories)
def test_many_nodes_at_once_and_one_by_one_decide_alike(policy, shape, history, monkeypatch_module):
    monkeypatch_module.setattr("placement.engine.FEW_NODES", 0)
    vectorised = play(World.new(shape, policy, compiled=False), history).log
    monkeypatch_module.setattr("placement.engine.FEW_NODES", 1000)
    assert play(World.new(shape, policy, compiled=False), history).log == vectorised


@pytest.mark.parametrize("policy", POLICIES)
@lenient
@given(shape=nodes, history=histories, seed=st.integers(0, 1000))
def test_the_order_of_events_of_one_moment_does_not_matter(policy, shape, history, seed):
    one = play(World.new(shape, policy), history, shuffle=0)
    other = play(World.new(shape, policy), history, shuffle=seed)
    assert sorted(one.log) == sorted(other.log)


@pytest.mark.parametrize("policy", POLICIES)
@lenient
@given(shape=nodes, history=histories)
def test_the_order_in_which_nodes_join_does_not_matter(policy, shape, history):
    one, other = World.new(shape, policy), World.new(shape, policy)
    other.scheduler.cluster.set_nodes(reversed(list(other.nodes.values())))
    assert play(one, history).log == play(other, history).log


@pytest.mark.parametrize("policy", POLICIES)
@lenient
@given(shape=nodes, history=histories, at=st.integers(0, 13))
def test_a_restored_scheduler_decides_like_the_one_that_never_died(policy, shape, history, at):
    steady, restored = World.new(shape, policy), World.new(shape, policy)
    for i, turn in enumerate(history):
        if i == at:
            old = restored.scheduler
            ended = {r.job.job_id: r for r in old.records() if r.state in ENDED}
            restored.scheduler = Scheduler.restore(
                old.policy, old.belief, copy.deepcopy(old.snapshot()), Options(seed=7)
            )
            for record in ended.values():  # the checks of this test look at ended jobs too
                restored.scheduler._ledger.enter(record)
        play(steady, [turn])
        play(restored, [turn])
    assert restored.log == steady.log


@pytest.mark.parametrize("policy", POLICIES)
@lenient
@given(shape=nodes, history=histories)
def test_nobody_who_waits_could_have_been_placed(policy, shape, history):
    """Trying everybody again after each step changes nothing: no group was left blocked wrongly."""
    thrifty, thorough = World.new(shape, policy), World.new(shape, policy)
    for turn in history:
        play(thrifty, [turn])
        for group in list(thorough.scheduler._placer.line.blocked_groups()):
            thorough.scheduler._placer.line.reopen(group)
        play(thorough, [turn])
    assert thrifty.log == thorough.log


@lenient
@given(shape=nodes, history=histories)
def test_rollback_restores_bit_for_bit(shape, history):
    world = play(World.new(shape, "backfill"), history)
    cluster = world.scheduler.cluster
    gpus, cluster_nodes = cluster.gpus.copy(), cluster.nodes.copy()
    residents = {g.uuid: cluster.residents(g.uuid) for n in world.nodes.values() for g in n.gpus}
    cluster.checkpoint()
    for job_id, worker in sorted(world.auditor.running, key=lambda key: (key[0][::-1], -key[1])):
        cluster.release(job_id, worker)
    cluster.rollback()
    assert np.array_equal(cluster.gpus, gpus)
    assert np.array_equal(cluster.nodes, cluster_nodes)
    assert residents == {g.uuid: cluster.residents(g.uuid) for n in world.nodes.values() for g in n.gpus}


@pytest.fixture(scope="module")
def monkeypatch_module():
    with pytest.MonkeyPatch.context() as patch:
        yield patch
