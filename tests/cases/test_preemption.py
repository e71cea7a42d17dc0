"""Shortest remaining time first: who is pushed out for whom, and what becomes of both."""

from __future__ import annotations

import pytest

from placement.model import (
    Isolation,
    JobCancelled,
    NodeFenced,
    NodeJoined,
    NodeLost,
    Profile,
    ProfileDefined,
    Request,
)
from placement.scheduler import Scheduler
from tests.cases.desk import Desk, began, exited, mig, mps, node, stopped, turn, whole

V100, A100 = "V100-SXM2-32GB", "A100-SXM4-80GB"
APART = Isolation.TENANT
X1, X2 = whole(1), whole(2)
ONE, TWO, FOUR = ((node("n", f"{count}x{V100}"),) for count in (1, 2, 4))
CUT = (node("n", f"1x{A100}"),)

# nodes, who runs: (name, request, remaining seconds, more), who comes, who is told to stop
VICTIMS = {
    "a longer one": (ONE, [("a", X1, 9, {})], ("new", X1, 5, {}), "a"),
    "nobody shorter": (ONE, [("a", X1, 5, {})], ("new", X1, 9, {}), ""),
    "nobody equal": (ONE, [("a", X1, 6, {})], ("new", X1, 5, {}), ""),  # a second later a has 5 left
    "nobody where there is room": (TWO, [("a", X1, 9, {})], ("new", X1, 5, {}), ""),
    "nobody who must not be": (ONE, [("a", X1, 9, {"preemptible": False})], ("new", X1, 5, {}), ""),
    "one of unknown length": (ONE, [("a", X1, None, {})], ("new", X1, 5, {}), "a"),
    "nobody for one of unknown length": (ONE, [("a", X1, 9, {})], ("new", X1, None, {}), ""),
    "a time limit stands for an unknown length": (
        ONE,
        [("a", X1, None, {"time_limit_s": 20.0})],
        ("new", X1, None, {"time_limit_s": 5.0}),
        "a",
    ),
    "one of lower priority, however short": (ONE, [("a", X1, 2, {})], ("new", X1, 99, {"priority": 1}), "a"),
    "nobody of higher priority, however long": (
        ONE,
        [("a", X1, 99, {"priority": 1})],
        ("new", X1, 1, {}),
        "",
    ),
    "the longest": (TWO, [("a", X1, 50, {}), ("b", X1, 70, {})], ("new", X1, 5, {}), "b"),
    "lower priority before longer": (
        TWO,
        [("a", X1, 50, {"priority": -1}), ("b", X1, 70, {})],
        ("new", X1, 5, {}),
        "a",
    ),
    "as many as it takes": (
        FOUR,
        [("a", X1, 50, {}), ("b", X1, 70, {}), ("c", X1, 60, {}), ("d", X1, 9, {})],
        ("new", X2, 5, {}),
        "b c",
    ),
    "nobody if those behind are not enough": (
        TWO,
        [("a", X1, 50, {}), ("b", X1, 3, {})],
        ("new", X2, 5, {}),
        "",
    ),
    "what is free counts": (TWO, [("a", X1, 50, {})], ("new", X2, 5, {}), "a"),
    "one large rather than many": (
        FOUR,
        [("a", X1, 50, {}), ("b", whole(3), 60, {})],
        ("new", whole(3), 5, {}),
        "b",
    ),
    "nobody whom a larger one makes needless": (
        FOUR,
        [("a", X1, 90, {}), ("b", whole(3), 60, {})],
        ("new", whole(3), 5, {}),
        "b",
    ),
    "a whole gang": (TWO, [("a", X1, 50, {"workers": 2})], ("new", X1, 5, {}), "a"),
    "for a gang": (TWO, [("a", X1, 50, {}), ("b", X1, 60, {})], ("new", X1, 5, {"workers": 2}), "a b"),
    "nobody for a gang that would not fit": (
        TWO,
        [("a", X1, 50, {}), ("b", X1, 60, {"preemptible": False})],
        ("new", X1, 5, {"workers": 2}),
        "",
    ),
    "nobody too many for a gang": (
        FOUR,
        [("a", X1, 50, {}), ("b", X1, 70, {}), ("c", X1, 60, {})],
        ("new", X1, 5, {"workers": 2}),
        "b",
    ),
    "compute of an MPS share": (
        ONE,
        [("a", mps(400), 50, {}), ("b", mps(600), 60, {})],
        ("new", mps(300), 5, {}),
        "b",
    ),
    "nobody too many among shares": (
        ONE,
        [("a", mps(600), 50, {}), ("b", mps(100), 60, {}), ("c", mps(300), 70, {})],
        ("new", mps(500), 5, {}),
        "a",
    ),
    "memory of a share": (
        ONE,
        [("a", mps(100, memory_bytes=30 << 30), 50, {})],
        ("new", mps(100, memory_bytes=4 << 30), 5, {}),
        "a",
    ),
    "another mode": (ONE, [("a", turn(100), 50, {})], ("new", mps(100), 5, {}), "a"),
    "a whole GPU for shares": (ONE, [("a", X1, 50, {})], ("new", mps(100), 5, {}), "a"),
    "the slice in the way": (
        CUT,
        [("a", mig("3g.40gb"), 90, {}), ("b", mig("2g.20gb"), 50, {})],
        ("new", mig("4g.40gb"), 5, {}),
        "b",
    ),
    "seven slices for one that takes them all": (
        CUT,
        [(f"s{i}", mig("1g.10gb"), 50, {}) for i in range(7)],
        ("new", mig("7g.80gb"), 5, {}),
        "s0 s1 s2 s3 s4 s5 s6",
    ),
    "a slice for the whole GPU": (CUT, [("a", mig("4g.40gb"), 50, {})], ("new", X1, 5, {}), "a"),
    "seven slices for the whole GPU": (
        CUT,
        [(f"s{i}", mig("1g.10gb"), 50, {}) for i in range(7)],
        ("new", X1, 5, {}),
        "s0 s1 s2 s3 s4 s5 s6",
    ),
    "slices for a share of all of the GPU": (
        CUT,
        [("a", mig("3g.40gb"), 90, {}), ("b", mig("2g.20gb"), 50, {})],
        ("new", mps(1000), 5, {}),
        "a b",
    ),
    "slices of a GPU each for a gang": (
        (*CUT, node("m", "1xA100-SXM4-80GB")),
        [("a", mig("3g.40gb"), 90, {"workers": 3})],
        ("new", X1, 5, {"workers": 2}),
        "a",
    ),
    "another tenant": (
        ONE,
        [("a", mps(100), 50, {"tenant": "red"})],
        ("new", mps(100, isolation=APART), 5, {"tenant": "blue"}),
        "a",
    ),
    "CPU": (
        (node("n", f"2x{V100}", cpu_milli=1000),),
        [("a", whole(1, cpu_milli=1000), 50, {})],
        ("new", whole(1, cpu_milli=1), 5, {}),
        "a",
    ),
    "RAM, without GPUs": (
        (node("n", None, ram_bytes=10),),
        [("a", Request(gpus=0, ram_bytes=6), 50, {}), ("b", Request(gpus=0, ram_bytes=4), 60, {})],
        ("new", Request(gpus=0, ram_bytes=5), 5, {}),
        "a",
    ),
    "on the node whose victim is last in line": (
        (node("m", f"1x{V100}"), node("n", f"1x{V100}")),
        [("a", X1, 50, {}), ("b", X1, 60, {})],
        ("new", X1, 5, {}),
        "b",
    ),
    "only on nodes of the model wanted": (
        (node("m", f"1x{V100}"), node("n", "1xT4-16GB")),
        [("a", X1, 50, {}), ("b", X1, 60, {})],
        ("new", whole(1, gpu_models=("V100",)), 5, {}),
        "a",
    ),
}


@pytest.mark.parametrize(("nodes", "running", "comer", "victims"), VICTIMS.values(), ids=VICTIMS)
@pytest.mark.parametrize("policy", ["srtf", "srtf+random"])
def test_who_is_pushed_out(nodes, running, comer, victims, policy):
    if policy == "srtf+random" and len({gpu.model for n in nodes for gpu in n.gpus}) > 1:
        policy = "srtf"  # who runs where must be known
    desk = Desk(policy, nodes)
    for job_id, request, remaining_s, more in running:
        assert desk.submit(job_id, request, duration_s=seconds(remaining_s), **more) != []
    job_id, request, remaining_s, more = comer
    orders = desk.submit(job_id, request, duration_s=seconds(remaining_s), **more)
    told = sorted({order.split()[1].split(".")[0] for order in orders if order.startswith("stop")})
    assert " ".join(told) == victims
    gone = [order for order in orders if order.startswith("stop")]
    assert all(order.endswith("preempted") for order in gone)
    assert desk.state("new").value == ("placed" if victims else "starting" if orders else "queued")


@pytest.mark.parametrize("since", ["nothing", "a node joined", "a restart"])
def test_a_worker_that_has_left_is_no_victim_whatever_happened_since(since):
    desk = Desk("srtf", TWO)
    desk.submit("gang", workers=2, duration_s=100.0)
    desk.tell(exited("gang"))
    desk.submit("fixed", preemptible=False)
    if since == "a node joined":
        desk.tell(NodeJoined(node("m", None)))
    elif since == "a restart":
        old = desk.scheduler
        desk.scheduler = Scheduler.restore(old.policy, old.belief, old.snapshot())
    assert desk.submit("short", X2, duration_s=1.0) == []
    assert desk.states() == "gang starting, fixed starting, short queued"


def test_a_job_whose_time_is_up_is_stopped_for_that_and_not_pushed_out():
    desk = Desk("srtf", ONE)
    desk.submit("long", duration_s=100.0, time_limit_s=10.0)
    assert desk.tell(desk.job("short", duration_s=1.0), at_s=12.0) == ["stop long.0 time-limit"]
    assert desk.tell(stopped("long")) == ["start short.0 n-0"]
    assert desk.states() == "long failed, short starting"


@pytest.mark.parametrize("share", [X1, mps(900)])
def test_nobody_is_pushed_out_on_a_lost_node(share):
    desk = Desk("srtf", (node("m", f"1x{V100}"), node("n", f"1x{V100}")))
    desk.submit("fixed", share, preemptible=False)
    desk.submit("long", share, duration_s=100.0)
    desk.tell(NodeLost("n"))
    assert desk.submit("short", share, duration_s=1.0) == []
    assert desk.states() == "fixed starting, long starting, short queued"


def seconds(remaining_s: int | None) -> float | None:
    return None if remaining_s is None else float(remaining_s)


def claimed(**fields) -> Desk:
    """``long`` has been told to leave the only GPU, ``short`` claims it."""
    desk = Desk("srtf", ONE)
    desk.submit("long", duration_s=100.0, **fields)
    desk.tell(began("long"))
    assert desk.submit("short", duration_s=5.0) == ["stop long.0 preempted"]
    assert desk.states() == "long stopping, short placed"
    return desk


def test_a_claim_starts_when_the_last_victim_has_left():
    desk = Desk("srtf", TWO)
    desk.submit("a", duration_s=50.0)
    desk.submit("b", duration_s=60.0)
    assert sorted(desk.submit("short", X2, duration_s=5.0)) == ["stop a.0 preempted", "stop b.0 preempted"]
    assert desk.tell(stopped("a")) == []
    assert desk.state("short").value == "placed"
    assert desk.tell(stopped("b")) == ["start short.0 n-0,n-1"]
    assert desk.states() == "a queued, b queued, short starting"


def test_a_claim_on_two_gpus_waits_for_both_workers_of_a_gang():
    desk = Desk("srtf", TWO)
    desk.submit("gang", workers=2, duration_s=50.0)
    assert desk.submit("short", duration_s=5.0) == ["stop gang.0 preempted", "stop gang.1 preempted"]
    assert desk.tell(stopped("gang")) == []
    assert desk.tell(stopped("gang", worker=1)) == ["start short.0 n-0"]


def test_who_was_pushed_out_comes_back_where_it_stopped():
    desk = claimed()
    assert desk.tell(stopped("long", served_s=40.0)) == ["start short.0 n-0"]
    record = desk.scheduler.record("long")
    assert (record.preemptions, record.served_s, record.remaining_s(), record.retries_used) == (
        1,
        40.0,
        60.0,
        0,
    )
    assert desk.tell(exited("short")) == ["start long.0 n-0"]
    assert record.attempt == 2
    desk.submit("other", duration_s=61.0)
    assert desk.states() == "long starting, short succeeded, other queued"


def test_the_rest_of_the_work_decides_after_a_preemption():
    desk = claimed()
    desk.submit("medium", duration_s=50.0)
    desk.tell(stopped("long", served_s=60.0))
    assert desk.waiting() == ["long", "medium"]


def test_a_running_job_comes_ever_closer_to_its_end():
    desk = Desk("srtf", ONE)
    desk.submit("long", duration_s=100.0)
    desk.tell(at_s=90.0)
    assert desk.submit("other", duration_s=20.0) == []
    assert desk.submit("shorter", duration_s=5.0) == ["stop long.0 preempted"]


# what happens while `long` is leaving -> orders, and states afterwards
WHILE_LEAVING = {
    "it leaves": ([stopped("long")], ["start short.0 n-0"], "long queued, short starting"),
    "it ends well before it is stopped": (
        [exited("long")],
        ["start short.0 n-0"],
        "long succeeded, short starting",
    ),
    "it ends badly before it is stopped": (
        [exited("long", 3)],
        ["start short.0 n-0"],
        "long failed, short starting",
    ),
    "the claim is cancelled": ([JobCancelled("short")], [], "long stopping, short cancelled"),
    "the claim is cancelled, then it leaves": (
        [JobCancelled("short"), stopped("long")],
        ["start long.0 n-0"],
        "long starting, short cancelled",
    ),
    "it is cancelled": ([JobCancelled("long")], [], "long stopping, short placed"),
    "it is cancelled and leaves": (
        [JobCancelled("long"), stopped("long")],
        ["start short.0 n-0"],
        "long cancelled, short starting",
    ),
    "its node is lost": ([NodeLost("n")], [], "long stopping, short placed"),
    "its node is lost and fenced": ([NodeLost("n"), NodeFenced("n")], [], "long queued, short queued"),
    "its node is lost, fenced and back": (
        [NodeLost("n"), NodeFenced("n"), NodeJoined(ONE[0])],
        ["start short.0 n-0"],
        "long queued, short starting",
    ),
    "a stale report": ([stopped("long", attempt=7)], [], "long stopping, short placed"),
    "a report about the claim": (
        [exited("short", attempt=0), began("short")],
        [],
        "long stopping, short placed",
    ),
}


@pytest.mark.parametrize(("events", "orders", "states"), WHILE_LEAVING.values(), ids=WHILE_LEAVING)
def test_what_happens_while_somebody_is_leaving(events, orders, states):
    desk = claimed()
    assert desk.tell(*events) == orders
    assert desk.states() == states


def test_a_claim_gives_way_to_a_shorter_job():
    desk = claimed()
    assert desk.submit("shorter", duration_s=1.0) == []
    assert desk.states() == "long stopping, short queued, shorter placed"
    assert desk.tell(stopped("long")) == ["start shorter.0 n-0"]


def test_a_claim_that_is_cancelled_leaves_its_place_to_the_next():
    desk = claimed()
    desk.submit("next", duration_s=7.0)
    desk.tell(JobCancelled("short"))
    assert desk.states() == "long stopping, short cancelled, next placed"
    assert desk.tell(stopped("long")) == ["start next.0 n-0"]


def test_who_shares_a_gpu_with_one_who_is_leaving_waits_too():
    desk = Desk("srtf", ONE)
    desk.submit("long", mps(900), duration_s=100.0)
    assert desk.submit("short", mps(500), duration_s=5.0) == ["stop long.0 preempted"]
    assert desk.submit("small", mps(100), duration_s=50.0) == []
    assert desk.state("small").value == "placed"
    assert desk.tell(stopped("long")) == ["start short.0 n-0", "start small.0 n-0"]


def test_cpu_of_one_who_is_leaving_is_waited_for_and_other_gpus_are_not():
    desk = Desk("srtf", (node("n", f"2x{V100}", cpu_milli=1000),))
    desk.submit("long", whole(1, cpu_milli=1000), duration_s=100.0)
    assert desk.submit("short", whole(1, cpu_milli=500), duration_s=5.0) == ["stop long.0 preempted"]
    assert desk.submit("cpu", Request(gpus=0, cpu_milli=500), duration_s=6.0) == []
    assert desk.state("cpu").value == "placed"
    assert desk.submit("gpu", X1, duration_s=6.0) == ["start gpu.0 n-1"]


def test_a_promise_pushes_out_who_would_break_it():
    desk = Desk("srtf", ONE, belief="additive")
    desk.tell(ProfileDefined(Profile("busy", sm_milli=500)))
    desk.submit("long", mps(500), duration_s=100.0, profile="busy")
    request = mps(500, max_slowdown=1.01)
    assert desk.submit("short", request, duration_s=5.0, profile="busy") == ["stop long.0 preempted"]


@pytest.mark.parametrize("policy", ["fifo", "backfill", "best-fit", "spread", "random"])
def test_other_policies_push_nobody_out(policy):
    desk = Desk(policy, ONE)
    desk.submit("long", duration_s=100.0)
    assert desk.submit("short", duration_s=1.0, priority=9) == []
    assert desk.states() == "long starting, short queued"


def test_a_preemption_is_counted_and_stopped_with_the_grace_of_the_victim():
    desk = Desk("srtf", ONE)
    desk.submit("long", duration_s=100.0, grace_s=30.0)
    step = desk.scheduler.step([desk.job("short", duration_s=1.0)], 9.0)
    assert [(c.job_id, c.attempt, c.worker, c.node_id, c.grace_s) for c in step.commands] == [
        ("long", 1, 0, "n", 30.0)
    ]
    assert desk.scheduler.decisions == 3
