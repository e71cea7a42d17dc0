"""Histories cut at every step: a restored scheduler goes on as before, and a step says whom it changed."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator

import pytest

from placement import scheduler
from placement.decision_log import lines
from placement.interference import model_named
from placement.lifecycle import ENDED, JobState
from placement.mix import UsualRequest
from placement.model import (
    Event,
    Gpu,
    Isolation,
    Job,
    JobCancelled,
    JobSubmitted,
    Node,
    NodeFenced,
    NodeJoined,
    NodeLost,
    Profile,
    ProfileDefined,
    Request,
)
from placement.options import Options
from placement.policies import policy_named
from placement.scheduler import Scheduler
from tests.cases.desk import MIG, MPS, TIMESLICE, Desk, began, exited, mig, mps, node, stopped, turn, whole
from tests.cases.test_in_slices import several

V100, A100 = "V100-SXM2-32GB", "A100-SXM4-80GB"
NODES = (node("a", f"2x{A100}", cpu_milli=8000), node("v", f"2x{V100}"))
X1, X2 = whole(1), whole(2)

Turn = list[Event]
History = Callable[[Desk], Iterator[Turn]]


def restored(desk: Desk) -> Scheduler:
    old = desk.scheduler
    return Scheduler.restore(old.policy, old.belief, copy.deepcopy(old.snapshot()), Options(seed=desk.seed))


def sharing(desk: Desk) -> Iterator[Turn]:
    yield [ProfileDefined(Profile("p", sm_milli=400)), ProfileDefined(Profile("q", sm_milli=900))]
    yield [desk.job("m1", mig("2g.20gb")), desk.job("m2", mig("1g.10gb"))]
    yield [desk.job("s1", mps(400), profile="p"), desk.job("s2", mps(400, max_slowdown=1.2), profile="p")]
    yield [desk.job("s3", mps(100), profile="q"), desk.job("t1", turn(300)), desk.job("m3", mig("4g.40gb"))]
    yield [exited("m1"), desk.job("m4", mig("4g.40gb"))]
    yield [exited("s2"), desk.job("s4", mps(100), profile="q")]
    yield [desk.job("s5", mps(100, isolation=Isolation.TENANT), tenant="red"), exited("s1")]
    yield [desk.job("s6", mps(50), tenant="blue"), exited("t1"), desk.job("s7", mps(50), tenant="red")]


def queueing(desk: Desk) -> Iterator[Turn]:
    yield [desk.job("g", X2, workers=2), desk.job("w", X2, workers=2, priority=1)]
    yield [
        desk.job("b", X1),
        desk.job("c", Request(gpus=0, cpu_milli=8000)),
        desk.job("now", X1, immediate=True),
    ]
    yield [began("w"), began("w", worker=1), JobCancelled("b")]
    yield [exited("w", 0), desk.job("d", X1, retries=1)]
    yield [exited("w", 0, worker=1)]
    yield [exited("d", 1), JobCancelled("c")]
    yield [exited("g", 1), desk.job("e", X1)]
    yield [stopped("g", worker=1)]


def nodes_come_and_go(desk: Desk) -> Iterator[Turn]:
    yield [desk.job("g", X1, workers=4), desk.job("next", X1)]
    yield [NodeLost("v"), *(began("g", worker=worker) for worker in range(4))]
    yield [desk.job("late", X1), exited("g")]
    yield [NodeFenced("v")]
    yield [NodeJoined(NODES[1]), stopped("g", worker=1)]
    yield [NodeJoined(node("z", f"1x{V100}")), exited("next")]
    yield [NodeLost("a"), desk.job("more", X1), NodeJoined(node("v", f"1x{V100}"))]
    yield [NodeFenced("a"), NodeJoined(NODES[0]), NodeJoined(NODES[1])]


def pushing_out(desk: Desk) -> Iterator[Turn]:
    yield [desk.job("a", X2, duration_s=500.0), desk.job("b", X1, duration_s=300.0, retries=1)]
    yield [desk.job("c", mps(400), duration_s=400.0), began("a"), began("b")]
    yield [desk.job("d", X2, duration_s=50.0), desk.job("e", X1, duration_s=20.0)]
    yield [desk.job("f", X1, duration_s=10.0, time_limit_s=2.0)]
    yield [stopped("b", served_s=2.0), stopped("c", served_s=1.0)]
    yield [stopped("a", served_s=3.0), JobCancelled("e")]
    yield [began("d"), began("f"), desk.job("h", X1, duration_s=1.0)]
    yield [stopped("f"), exited("d"), JobCancelled("b")]
    yield [stopped("f", attempt=2), stopped("e"), exited("h")]


def in_slices(desk: Desk) -> Iterator[Turn]:
    clients, turns = MIG | MPS, MIG | TIMESLICE
    yield [ProfileDefined(Profile("p", sm_milli=100)), ProfileDefined(Profile("h", sm_milli=500))]
    yield [desk.job("m1", mig("4g.40gb")), desk.job("c1", several(4, 70, clients), profile="p")]
    yield [desk.job("t1", several(2, 70, turns), profile="h"), began("m1"), began("c1")]
    yield [desk.job("c2", several(4, 70, clients, max_slowdown=2.0), profile="p")]
    yield [desk.job("small", Request(modes=MIG, max_slowdown=3.0), profile="h")]
    yield [exited("m1"), desk.job("c3", several(2, 200, clients), profile="h", duration_s=5.0)]
    yield [exited("c1"), desk.job("w", X1, duration_s=1.0), desk.job("m2", mig("3g.40gb"), duration_s=1.0)]
    yield [desk.job("g", several(3, 70, clients), workers=2, profile="p", duration_s=2.0)]
    yield [exited("t1"), exited("c2"), exited("small")]
    yield [desk.job("t2", several(6, 40, turns, max_slowdown=4.0), profile="p")]


def time_limits(desk: Desk) -> Iterator[Turn]:
    yield [desk.job("a", X1, time_limit_s=3.0), desk.job("b", X1, time_limit_s=5.0, retries=1)]
    yield [began("a"), exited("b", 1)]
    yield [JobCancelled("b")]
    yield []
    yield [stopped("b", attempt=2)]
    yield [stopped("a")]


HISTORIES = [sharing, in_slices, queueing, nodes_come_and_go, pushing_out, time_limits]
POLICIES = ["fifo", "backfill", "srtf", "spread", "random", "srtf+random"]


def log_of(history: History, policy: str, *, dies_after: int | None = None) -> list[str]:
    desk, log = Desk(policy, NODES, belief="additive", seed=3), []
    for i, events in enumerate(history(desk)):
        if i == dies_after:
            desk.scheduler = restored(desk)
        desk.now_s += 1
        step = desk.scheduler.step(events, desk.now_s)
        log += [*lines(step, desk.now_s), f"next limit at {desk.scheduler.next_deadline_s()}"]
        log += [f"{r.job.job_id} waits, {r.retries_used} retries" for r in desk.scheduler.waiting()]
    return [*log, f"{desk.scheduler.events} events, {desk.scheduler.decisions} decisions"]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("history", HISTORIES)
def test_a_restored_scheduler_goes_on_as_if_it_had_never_died(history, policy):
    steady = log_of(history, policy)
    for dies_after in range(sum(1 for _ in history(Desk(policy, NODES)))):
        assert log_of(history, policy, dies_after=dies_after) == steady, dies_after


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("history", HISTORIES)
def test_a_step_names_every_job_whose_record_it_changed(history, policy):
    desk = Desk(policy, NODES, belief="additive", seed=3)
    for events in history(desk):
        before = {r.job.job_id: copy.deepcopy(r) for r in desk.scheduler.records()}
        desk.now_s += 1
        step = desk.scheduler.step(events, desk.now_s)
        changed = {r.job.job_id for r in desk.scheduler.records() if before.get(r.job.job_id) != r}
        assert changed <= step.changed
        assert step.changed <= {r.job.job_id for r in desk.scheduler.records()}


@pytest.mark.parametrize("history", HISTORIES)
def test_what_is_kept_is_what_has_not_ended(history):
    desk = Desk("backfill", NODES, belief="additive")
    for events in history(desk):
        desk.tell(*events)
    desk.tell(NodeLost("a"))
    snapshot = desk.scheduler.snapshot()
    alive = [r.job.job_id for r in desk.scheduler.records() if r.state not in ENDED]
    assert [r.job.job_id for r in snapshot.records] == alive
    assert {(member.node_id, up) for member, up in snapshot.nodes} >= {("a", False), ("v", True)}
    assert (snapshot.events, snapshot.decisions) == (desk.scheduler.events, desk.scheduler.decisions)
    again = restored(desk)
    assert again.snapshot() == snapshot
    assert not again.available("a")
    for member in again.node_ids():
        for gpu in again.node(member).gpus:
            assert again.residents(gpu.uuid) == desk.scheduler.residents(gpu.uuid)


@pytest.mark.parametrize("state", [JobState.PLACED, JobState.STOPPING, JobState.STARTING, JobState.QUEUED])
def test_the_histories_pass_through_every_living_state(state):
    seen = set()
    for history in HISTORIES:
        desk = Desk("srtf", NODES, belief="additive")
        for events in history(desk):
            desk.tell(*events)
            seen |= {record.state for record in desk.scheduler.records()}
    assert state in seen


T4 = "T4-16GB"
MIX = (
    UsualRequest(mps(250), 3),
    UsualRequest(whole(4), 1),
    UsualRequest(whole(1, gpu_models=("T4",)), 1),
    UsualRequest(whole(1, gpu_models=("A100",)), 1),
)
MANY = (*(node(f"v{i}", f"4x{V100}") for i in range(12)), *(node(f"t{i}", f"4x{T4}") for i in range(3)))


def pricing(events: Turn) -> Scheduler:
    """A scheduler that weighs what is scarce, and has been told of these."""
    told = Scheduler(policy_named("backfill+cotenant"), model_named("none"), Options(compiled=False, mix=MIX))
    told.step(events, 1.0)
    return told


def twice(live: Scheduler) -> tuple[Scheduler, Scheduler]:
    """The same scheduler, and as it is after a restart."""
    snapshot, options = copy.deepcopy(live.snapshot()), Options(compiled=False, mix=MIX)
    return live, Scheduler.restore(live.policy, live.belief, snapshot, options)


def alone(job_id: str, request: Request, sequence: int) -> JobSubmitted:
    return JobSubmitted(Job(job_id, request, 0.0, sequence))


IMPOSSIBLE = whole(1, gpu_models=("A100",))


def test_a_restored_scheduler_reviews_prices_at_the_same_moment(monkeypatch):
    """The decision at which prices are reviewed is the first after the restart, and it looks at no place."""
    monkeypatch.setattr(scheduler, "REVIEW_EVERY", 13)
    live = pricing([NodeJoined(member) for member in MANY])
    before = live.price_levels
    live.step([alone(f"s{i}", whole(1, gpu_models=("V100",)), i) for i in range(12)], 2.0)
    assert (live.decisions, live.price_levels) == (12, before)
    both = twice(live)
    for one in both:
        one.step([alone("never", IMPOSSIBLE, 20)], 3.0)
    assert [one.price_levels for one in both] == [live.price_levels] * 2 != [before] * 2
    steps = [one.step([alone(f"m{i}", mps(250), 30 + i) for i in range(9)], 4.0) for one in both]
    assert lines(steps[0], 4.0) == lines(steps[1], 4.0)


def test_a_kind_of_gpu_that_is_gone_for_good_leaves_no_price_behind(monkeypatch):
    """Live it is still numbered, after a restart nothing is known of it."""
    monkeypatch.setattr(scheduler, "REVIEW_EVERY", 1)
    old = node("a", f"4x{A100}")
    live = pricing([NodeJoined(member) for member in (*MANY, old)])
    live.step([NodeJoined(node("a", f"4x{V100}"))], 2.0)
    both = twice(live)
    assert both[1].price_levels == live.price_levels
    for at_s, request in enumerate([IMPOSSIBLE, mps(250), whole(1, gpu_models=("T4",)), whole(4)]):
        turn_ = [alone(f"j{at_s}-{i}", request, 10 * at_s + i) for i in range(8)]
        steps = [one.step(turn_, 3.0 + at_s) for one in both]
        assert lines(steps[0], 0.0) == lines(steps[1], 0.0)
        assert both[1].price_levels == live.price_levels


def test_a_restart_right_after_nodes_changed_keeps_the_levels_of_those_nodes():
    """As many things can get scarce as before, but other ones, and nobody has looked at a place since."""
    live = pricing([NodeJoined(member) for member in MANY])
    smaller = [Node(f"t{i}", tuple(Gpu(f"t{i}-{j}", T4, 15 << 30) for j in range(4))) for i in range(3)]
    more = [Node(f"u{i}", tuple(Gpu(f"u{i}-{j}", T4, 15 << 30) for j in range(4))) for i in range(30)]
    before = live.price_levels
    live.step([NodeJoined(member) for member in (*smaller, *more)], 2.0)
    both = twice(live)
    assert live.price_levels != before
    for one in both:
        one.step([alone("s", mps(250), 1)], 3.0)
    assert both[0].price_levels == both[1].price_levels
