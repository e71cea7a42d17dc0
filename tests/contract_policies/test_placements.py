"""What every placement policy has to keep, whatever it prefers, alone and with every order of jobs."""

from __future__ import annotations

import copy
import random

import pytest

from placement.jit import numba
from placement.lifecycle import ENDED
from placement.model import ExitCause, InvalidSpec, Mode, NodeJoined, StartWorker
from placement.options import Options
from placement.policies import ORDERS, PLACEMENTS, Offer, policy_named
from placement.scheduler import Scheduler
from tests.contract_policies.histories import OPTIONS, play, world_of
from tests.property.world import World

NAMES = sorted(PLACEMENTS)
ALONE = [name + OPTIONS.get(name, "") for name in NAMES]
PAIRS = [
    f"{order}+{name}{OPTIONS.get(name, '')}"
    for order in ORDERS
    for name in NAMES
    if not PLACEMENTS[name]().misfit(ORDERS[order]())
]


@pytest.mark.parametrize("policy", ALONE)
@pytest.mark.parametrize("seed", range(2))
def test_the_same_history_gives_the_same_decisions_one_by_one_and_many_at_once(policy, seed, monkeypatch):
    logs = []
    for few_nodes in (4, 0, 1000):
        monkeypatch.setattr("placement.engine.FEW_NODES", few_nodes)
        logs.append(play(*world_of(policy, seed)).log)
    assert logs[0]
    assert logs[1:] == logs[:1] * 2


@pytest.mark.skipif(numba is None, reason="numba is not installed")
@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", NAMES)
def test_compiled_and_plain_scores_are_alike(name):
    """The loop around them is compared in tests/property/test_search.py, with scores of every figure."""
    placement, dice = PLACEMENTS[name](), random.Random(4)
    offers = [
        Offer(*(dice.choice((0, 1, 2, dice.randrange(9000))) for _ in Offer._fields)) for _ in range(200)
    ]
    for plain in (placement.score, placement.within):
        compiled = numba.njit(plain)
        assert [compiled(at) for at in offers] == [plain(at) for at in offers]


@pytest.mark.parametrize(("policy", "seed"), [*((pair, 7) for pair in PAIRS), *((name, 6) for name in ALONE)])
def test_capacity_and_promises_hold_and_a_restart_changes_nothing(policy, seed):
    """Each step is audited.  Policies that forget say what; here nothing happens that they could learn."""
    (steady, history), (restored, _same) = world_of(policy, seed), world_of(policy, seed)
    for number, turn in enumerate(history):
        if number % 5 == seed % 5:
            old = restored.scheduler
            ended = [record for record in old.records() if record.state in ENDED]
            restored.scheduler = Scheduler.restore(
                policy_named(policy), old.belief, copy.deepcopy(old.snapshot()), Options(7, compiled=False)
            )
            for record in ended:  # the checks look at ended jobs too
                restored.scheduler._ledger.enter(record)
        play(steady, [turn])
        play(restored, [turn])
    assert restored.log == steady.log
    steady.empty()
    assert {record.state for record in steady.scheduler.records()} <= ENDED


@pytest.mark.parametrize("policy", PAIRS)
def test_everything_that_could_ever_fit_gets_its_turn(policy):
    """Without promises: one that nobody can vouch for may wait until more is known."""
    world = play(*world_of(policy, 5, promises=False))
    bring_all_nodes_back(world)
    for _ in range(200):
        if not world.auditor.running and not world.scheduler.waiting():
            break
        end_all_that_runs(world)
    assert world.scheduler.waiting() == []
    assert {record.state for record in world.scheduler.records()} <= ENDED


def bring_all_nodes_back(world: World) -> None:
    world.now_s += 1
    world.down.clear()
    world.step([NodeJoined(node) for node in world.nodes.values()])
    world.check()


def end_all_that_runs(world: World) -> None:
    world.now_s += 1
    events = []
    for job_id, worker in sorted(world.auditor.running):
        told = (job_id, worker) in world.leaving
        events += world._exit(job_id, worker, ExitCause.STOPPED if told else ExitCause.EXITED, 0)
    world.step(events)
    world.check()


# -- work conservation ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ALONE)
@pytest.mark.parametrize("seed", range(6, 8))
def test_no_gpu_stands_empty_while_somebody_waits_for_just_that(policy, seed):
    """Of policies that say why they idle, only jobs are asked for of which that does not hold."""
    world, history = world_of(policy, seed)
    for turn in history:
        play(world, [turn])
        assert [job for job in waiting(world) if empty_gpus_for(world, job)] == []


def waiting(world: World) -> list:
    """Jobs of one worker that wait and accept a whole GPU, and may be put back in the queue."""
    jobs = [record.job for record in world.scheduler.waiting()]
    return [
        job
        for job in jobs
        if job.workers == 1 and job.request.gpus and job.preemptible and Mode.EXCLUSIVE in job.request.modes
    ]


def empty_gpus_for(world: World, job) -> bool:
    """Whether a node has as many GPUs that nobody holds as the job asks for, and the CPU."""
    records = list(world.scheduler.records())
    held = [place for r in records for place in (*r.assignments, *r.vacating, *r.next_place)]
    busy = {share.gpu_uuid for place in held for share in place.shares}
    request, uses = job.request, {record.job.job_id: record.job.request.cpu_milli for record in records}
    for node in world.nodes.values():
        if node.node_id in world.down:
            continue
        models = request.gpu_models
        free = [
            gpu
            for gpu in node.gpus
            if gpu.uuid not in busy
            and (request.memory_bytes or 0) <= (gpu.memory_bytes or 0)
            and (not models or any(gpu.model.startswith(model) for model in models))
        ]
        cpu_milli = sum(
            uses[r.job.job_id]
            for r in records
            for place in (*r.assignments, *r.vacating, *r.next_place)
            if place.node_id == node.node_id
        )
        if len(free) >= request.gpus and (node.cpu_milli or 1 << 40) - cpu_milli >= request.cpu_milli:
            return True
    return False


@pytest.mark.parametrize("policy", [name for name in NAMES if not PLACEMENTS[name].idles])
@pytest.mark.parametrize("seed", range(6, 8))
def test_nobody_waits_whom_best_fit_would_place(policy, seed):
    """Gangs aside: whether one fits depends on where its first workers went."""
    world, history = world_of(policy, seed)
    for turn in history:
        play(world, [turn])
        other = Scheduler.restore(
            policy_named("backfill+best-fit"),
            world.scheduler.belief,
            copy.deepcopy(world.scheduler.snapshot()),
            Options(7, compiled=False, exact=True),
        )
        started = [c.job_id for c in other.step([], world.now_s).commands if isinstance(c, StartWorker)]
        assert [job_id for job_id in started if world.auditor.jobs[job_id].workers == 1] == []


def test_who_idles_says_why():
    assert {name for name in NAMES if PLACEMENTS[name].idles} == {
        "gandiva",
        "hived",
        "lucid",
        "miso",
        "parvagpu",
    }
    assert all(len(PLACEMENTS[name].idles) > 20 for name in NAMES if PLACEMENTS[name].idles)


# -- combinations --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", sorted(ORDERS))
@pytest.mark.parametrize("name", NAMES)
def test_orders_and_placements_combine_or_say_why_not(order, name):
    why = PLACEMENTS[name]().misfit(ORDERS[order]())
    if why:
        with pytest.raises(InvalidSpec, match=why):
            policy_named(f"{order}+{name}")
    else:
        policy = policy_named(f"{name}+{order}")
        assert (policy.order.name, policy.placement.name) == (order, name)
