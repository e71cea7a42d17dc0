"""Who goes first: the queue, what is freed, and who starts then."""

from __future__ import annotations

import pytest

from placement.model import Job, JobCancelled, JobSubmitted, NodeJoined, Request
from tests.cases.desk import Desk, exited, mps, node, whole

V100 = "V100-SXM2-32GB"
TWO = (node("n", f"2x{V100}"),)
X1, X2 = whole(1), whole(2)

# policy -> who starts when one job runs and wide (2 GPUs) and small (1 GPU) come; who when the first one ends
OVERTAKING = {
    "fifo": ([], ["wide.0"]),
    "fifo+spread": ([], ["wide.0"]),
    "backfill": (["small.0"], []),
    "best-fit": (["small.0"], []),
    "random": (["small.0"], []),
    "srtf": (["small.0"], []),
}


@pytest.mark.parametrize(("policy", "starts"), OVERTAKING.items())
def test_who_may_overtake(policy, starts):
    desk = Desk(policy, TWO)
    desk.submit("first", X1)
    assert desk.submit("wide", X2) == []
    orders = desk.submit("small", X1), desk.tell(exited("first"))
    assert tuple([order.split()[1] for order in step] for step in orders) == starts


def test_under_fifo_everybody_waits_behind_the_first_whatever_they_ask():
    desk = Desk("fifo", (*TWO, node("cpu", None, cpu_milli=1000)))
    desk.submit("first", X1)
    desk.submit("wide", X2)
    for job_id, request in {"small": X1, "share": mps(1), "cpu": Request(gpus=0, cpu_milli=1)}.items():
        assert desk.submit(job_id, request) == []
    assert desk.waiting() == ["wide", "small", "share", "cpu"]
    assert desk.tell(exited("first")) == [
        "start wide.0 n-0,n-1",
    ]
    assert desk.tell(exited("wide")) == ["start small.0 n-0", "start share.0 n-1", "start cpu.0 cpu"]


@pytest.mark.parametrize("how", ["cancel", "more nodes"])
def test_under_fifo_the_others_go_on_when_the_first_no_longer_waits(how):
    desk = Desk("fifo", TWO)
    desk.submit("first", X1)
    desk.submit("wide", X2)
    desk.submit("small", X1)
    if how == "cancel":
        assert desk.tell(JobCancelled("wide")) == ["start small.0 n-1"]
    else:
        orders = desk.tell(NodeJoined(node("m", f"2x{V100}")))
        assert orders == ["start wide.0 m-0,m-1", "start small.0 n-1"]


def test_backfill_tries_the_older_first():
    desk = Desk("backfill", TWO)
    desk.submit("running", X2)
    for job_id in ("a", "b", "c"):
        desk.submit(job_id, X1)
    desk.submit("wide", X2)
    assert desk.tell(exited("running")) == ["start a.0 n-0", "start b.0 n-1"]
    assert desk.tell(exited("b")) == ["start c.0 n-1"]
    assert desk.tell(exited("a"), exited("c")) == ["start wide.0 n-0,n-1"]


# policy, what the waiting jobs are (priority, duration, known or None), the order they start in on one GPU
ORDERS = [
    ("fifo", {"a": (0, 9), "b": (0, 1), "c": (0, 5)}, "a b c"),
    ("backfill", {"a": (0, 9), "b": (0, 1), "c": (0, 5)}, "a b c"),
    ("srtf", {"a": (0, 9), "b": (0, 1), "c": (0, 5)}, "b c a"),
    ("srtf", {"a": (0, None), "b": (0, 1), "c": (0, None)}, "b a c"),
    ("srtf", {"a": (0, 5), "b": (0, 5), "c": (0, 5)}, "a b c"),
    ("fifo", {"a": (0, 9), "b": (5, 9), "c": (-5, 1)}, "b a c"),
    ("backfill", {"a": (0, 9), "b": (5, 9), "c": (-5, 1)}, "b a c"),
    ("srtf", {"a": (0, 9), "b": (5, 9), "c": (-5, 1)}, "b a c"),
    ("srtf", {"a": (1, 9), "b": (1, 2), "c": (2, 99)}, "c b a"),
    ("spread", {"a": (0, 9), "b": (1, 1), "c": (0, 5)}, "b a c"),
]


@pytest.mark.parametrize(("policy", "jobs", "expected"), ORDERS)
@pytest.mark.parametrize("at_once", [True, False])
def test_the_order_of_those_who_wait(policy, jobs, expected, at_once):
    desk = Desk(policy, (node("n", f"1x{V100}"),))
    desk.submit("running", X1, priority=100, duration_s=1.0, preemptible=False)
    arrivals = [
        desk.job(job_id, X1, priority=priority, duration_s=None if duration is None else float(duration))
        for job_id, (priority, duration) in jobs.items()
    ]
    for batch in [arrivals[::-1]] if at_once else [[arrival] for arrival in arrivals]:
        desk.tell(*batch)
    assert " ".join(desk.waiting()) == expected
    started, last = [], "running"
    while orders := desk.tell(exited(last)):
        last = orders[0].split()[1].removesuffix(".0")
        started.append(last)
    assert " ".join(started) == expected


def test_equals_are_told_apart_by_submission_and_then_by_arrival():
    desk = Desk("backfill", (node("n", f"1x{V100}"),))
    desk.submit("running", X1)
    second, first = desk.job("second", X1), desk.job("first", X1)
    older = JobSubmitted(Job("older", X1, 0.5, 99))
    desk.tell(first, older, second)
    assert desk.waiting() == ["older", "second", "first"]


# what is there, what the immediate job asks, whether it is placed
IMMEDIATE = {
    "room at once": ("backfill", [], X1, True),
    "no room": ("backfill", ["a", "b"], X1, False),
    "room, but not its turn": ("fifo", ["a", "wide"], X1, False),
    "room, and others who do not hold it up": ("backfill", ["a", "wide"], X1, True),
    "never room": ("backfill", [], whole(3), False),
}


@pytest.mark.parametrize(("policy", "before", "request_", "placed"), IMMEDIATE.values(), ids=IMMEDIATE)
def test_an_immediate_job_is_decided_on_arrival(policy, before, request_, placed):
    desk = Desk(policy, TWO)
    for job_id in before:
        desk.submit(job_id, X2 if job_id == "wide" else X1)
    orders = desk.submit("now", request_, immediate=True)
    assert [order.split()[1] for order in orders] == (["now.0"] if placed else [])
    assert desk.state("now").value == ("starting" if placed else "rejected")
    assert "now" not in desk.waiting()


def test_an_immediate_job_of_the_same_step_goes_at_its_turn():
    desk = Desk("backfill", (node("n", f"1x{V100}"),))
    desk.tell(desk.job("a", X1, immediate=True), desk.job("b", X1, immediate=True), desk.job("c", X1))
    assert desk.states() == "a starting, b rejected, c queued"
    record = desk.scheduler.record("b")
    assert record.failure == "no room: GPU already in use (1)"
    assert record.ended_s == desk.now_s


def test_an_immediate_job_takes_what_is_freed_in_the_same_step():
    desk = Desk("backfill", (node("n", f"1x{V100}"),))
    desk.submit("running", X1)
    assert desk.tell(desk.job("now", X1, immediate=True), exited("running")) == ["start now.0 n-0"]


def test_an_immediate_job_before_any_node_is_turned_away():
    desk = Desk("backfill", ())
    desk.submit("now", X1, immediate=True)
    assert desk.scheduler.record("now").failure == "no room: no node has joined yet (1)"


def test_an_immediate_job_that_fails_and_may_be_retried_waits_like_any_other():
    desk = Desk("backfill", (node("n", f"1x{V100}"),))
    desk.submit("now", X1, immediate=True, retries=1)
    desk.tell(desk.job("other", X1, priority=9), exited("now", 1))
    assert desk.states() == "now queued, other starting"


def test_without_nodes_jobs_wait_until_some_join():
    desk = Desk("backfill", ())
    desk.submit("wide", X2)
    desk.submit("small", X1)
    assert desk.states() == "wide queued, small queued"
    assert desk.tell(NodeJoined(node("n", f"1x{V100}"))) == ["start small.0 n-0"]
    assert desk.tell(NodeJoined(node("n", f"4x{V100}"))) == ["start wide.0 n-1,n-2"]


def test_a_job_that_is_submitted_twice_runs_once():
    desk = Desk("backfill", TWO)
    arrival = desk.job("job", X1)
    assert desk.tell(arrival, arrival) == ["start job.0 n-0"]
    assert desk.tell(arrival) == []
    desk.tell(exited("job"))
    assert desk.tell(arrival) == []
    assert desk.states() == "job succeeded"


def test_events_and_decisions_are_counted():
    desk = Desk("backfill", TWO)
    desk.submit("a", X2)
    desk.submit("b", X1)
    desk.submit("never", whole(3))
    desk.tell(exited("a"), exited("nobody"))
    assert (desk.scheduler.events, desk.scheduler.decisions) == (6, 3)
