"""From start to end: workers' reports, retries, time limits, siblings, lost nodes, cancelling."""

from __future__ import annotations

import pytest

from placement.model import (
    ExitCause,
    JobCancelled,
    NodeFenced,
    NodeJoined,
    NodeLost,
    NotFound,
    WorkerExited,
)
from tests.cases.desk import Desk, began, exited, node, stopped, whole

V100 = "V100-SXM2-32GB"
ONE = (node("n", f"1x{V100}"),)
PAIR = (node("m", f"1x{V100}"), node("n", f"1x{V100}"))
X1 = whole(1)


def launch_failed(job_id: str, message: str = "", *, attempt: int = 1, worker: int = 0) -> WorkerExited:
    return WorkerExited(job_id, attempt, worker, ExitCause.LAUNCH_FAILED, message=message)


def running(policy: str = "backfill", nodes=ONE, workers: int = 1, **fields) -> Desk:
    desk = Desk(policy, nodes)
    desk.submit("job", X1, workers=workers, **fields)
    desk.tell(*(began("job", worker=worker) for worker in range(workers)))
    assert desk.states() == "job running"
    return desk


# how a job of one worker ends -> state, exit code, text
ENDINGS = {
    "well": (exited("job"), "succeeded", 0, ""),
    "with a status": (exited("job", 3), "failed", 3, "worker 0 exited with status 3"),
    "by a signal": (exited("job", -9), "failed", -9, "worker 0 was killed by signal 9"),
    "with a message": (exited("job", 1, message="disk full"), "failed", 1, "disk full"),
    "it never started": (
        launch_failed("job", "no such command: ls2"),
        "failed",
        None,
        "no such command: ls2",
    ),
    "it never started, nobody knows why": (launch_failed("job"), "failed", None, "worker 0: launch-failed"),
    "stopped by nobody": (stopped("job"), "failed", None, "worker 0: stopped"),
    "without a status": (
        WorkerExited("job", 1, 0, ExitCause.EXITED),
        "failed",
        None,
        "worker 0: exited",
    ),
}


@pytest.mark.parametrize(("report", "state", "code", "text"), ENDINGS.values(), ids=ENDINGS)
@pytest.mark.parametrize("began_before", [True, False])
def test_how_a_job_ends(report, state, code, text, began_before):
    desk = Desk("backfill", ONE)
    desk.submit("job", X1)
    if began_before:
        desk.tell(began("job"))
    desk.tell(report, at_s=60.0)
    record = desk.scheduler.record("job")
    assert (record.state.value, record.exit_code, record.failure) == (state, code, text)
    assert (record.first_placed_s, record.ended_s, record.held_s) == (2.0, 60.0, 58.0)
    assert desk.submit("next", X1) == ["start next.0 n-0"]


# reports about a running gang of two -> orders, state afterwards
REPORTS = {
    "one has started twice": ([began("job")], [], "running"),
    "one has left well": ([exited("job")], [], "running"),
    "one has left well, twice": ([exited("job"), exited("job")], [], "running"),
    "one has left well, then a late report says badly": ([exited("job"), exited("job", 1)], [], "running"),
    "one has failed, then a late report says well": (
        [exited("job", 3), exited("job"), stopped("job", worker=1)],
        ["stop job.1 sibling-failed"],
        "failed",
    ),
    "both have left well": ([exited("job"), exited("job", worker=1)], [], "succeeded"),
    "one has failed": ([exited("job", 1)], ["stop job.1 sibling-failed"], "stopping"),
    "the other has failed": ([exited("job", 1, worker=1)], ["stop job.0 sibling-failed"], "stopping"),
    "one has failed, then the other": (
        [exited("job", 1), exited("job", 2, worker=1)],
        ["stop job.1 sibling-failed"],
        "failed",
    ),
    "one has left well, the other fails": ([exited("job"), exited("job", 1, worker=1)], [], "failed"),
    "one has failed, the other was stopped": (
        [exited("job", 1), stopped("job", worker=1)],
        ["stop job.1 sibling-failed"],
        "failed",
    ),
    "one has failed, the other ended well": (
        [exited("job", 1), exited("job", worker=1)],
        ["stop job.1 sibling-failed"],
        "failed",
    ),
    "of another attempt": ([exited("job", 1, attempt=2), exited("job", 1, attempt=0)], [], "running"),
    "of a worker that does not exist": (
        [exited("job", 1, worker=2), exited("job", 1, worker=-1)],
        [],
        "running",
    ),
    "of a job that does not exist": ([exited("nobody", 1), began("nobody")], [], "running"),
    "it is cancelled": ([JobCancelled("job")], ["stop job.0 cancelled", "stop job.1 cancelled"], "stopping"),
    "it is cancelled when one has left": (
        [exited("job"), JobCancelled("job")],
        ["stop job.1 cancelled"],
        "stopping",
    ),
    "it is cancelled twice": (
        [JobCancelled("job"), JobCancelled("job")],
        ["stop job.0 cancelled", "stop job.1 cancelled"],
        "stopping",
    ),
    "it is cancelled and leaves": (
        [JobCancelled("job"), stopped("job"), stopped("job", worker=1)],
        ["stop job.0 cancelled", "stop job.1 cancelled"],
        "cancelled",
    ),
    "it is cancelled and had ended well": (
        [JobCancelled("job"), exited("job"), exited("job", worker=1)],
        ["stop job.0 cancelled", "stop job.1 cancelled"],
        "succeeded",
    ),
    "cancelled after a sibling failed": (
        [exited("job", 1), JobCancelled("job"), stopped("job", worker=1)],
        ["stop job.1 sibling-failed"],
        "cancelled",
    ),
    "a node is lost": ([NodeLost("n")], [], "running"),
    "a node is lost and fenced": (
        [NodeLost("n"), NodeFenced("n")],
        ["stop job.0 sibling-failed"],
        "stopping",
    ),
    "both nodes are fenced": (
        [NodeLost("m"), NodeLost("n"), NodeFenced("m"), NodeFenced("n")],
        ["stop job.1 sibling-failed"],
        "queued",
    ),
    "one left well, the node of the other is fenced": (
        [exited("job"), NodeLost("n"), NodeFenced("n")],
        [],
        "queued",
    ),
    "a node nobody knows": ([NodeLost("x"), NodeFenced("x")], [], "running"),
}


@pytest.mark.parametrize(("events", "orders", "state"), REPORTS.values(), ids=REPORTS)
def test_reports_about_a_running_gang(events, orders, state):
    desk = running(nodes=PAIR, workers=2)
    assert desk.tell(*events) == orders
    assert desk.state("job").value == state


def test_a_gang_runs_when_all_its_workers_do():
    desk = Desk("backfill", PAIR)
    desk.submit("job", X1, workers=2)
    desk.tell(began("job", worker=1))
    assert desk.states() == "job starting"
    desk.tell(began("job", worker=0))
    assert desk.states() == "job running"


def test_the_first_failure_is_the_jobs():
    desk = running(nodes=PAIR, workers=2)
    desk.tell(exited("job", 3, worker=1))
    desk.tell(exited("job", 5))
    record = desk.scheduler.record("job")
    assert (record.exit_code, record.failure) == (3, "worker 1 exited with status 3")


def test_a_worker_that_left_frees_its_gpu_at_once():
    desk = running(nodes=PAIR, workers=2)
    desk.submit("next", X1)
    assert desk.tell(exited("job", worker=1)) == ["start next.0 n-0"]


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_a_job_is_tried_again_as_often_as_it_may(retries):
    desk = running(retries=retries)
    for attempt in range(1, retries + 1):
        assert desk.tell(exited("job", 1, attempt=attempt)) == ["start job.0 n-0"]
        assert desk.scheduler.record("job").attempt == attempt + 1
    assert desk.tell(exited("job", 7, attempt=retries + 1)) == []
    record = desk.scheduler.record("job")
    assert (record.state.value, record.exit_code, record.retries_used) == ("failed", 7, retries)


def test_a_retry_goes_to_its_old_place_in_the_line():
    desk = running(retries=1)
    desk.submit("other", X1)
    assert desk.tell(exited("job", 1)) == ["start job.0 n-0"]


def test_a_retry_begins_with_clean_books():
    desk = running(nodes=PAIR, workers=2, retries=1)
    desk.tell(exited("job", 1), stopped("job", worker=1))
    assert desk.states() == "job starting"
    desk.tell(began("job", attempt=2))
    assert desk.states() == "job starting"
    desk.tell(began("job", attempt=2, worker=1), exited("job", attempt=2))
    assert desk.states() == "job running"
    desk.tell(exited("job", attempt=2, worker=1))
    record = desk.scheduler.record("job")
    assert (record.state.value, record.exit_code, record.failure) == ("succeeded", 0, "")


def test_why_a_job_is_tried_again_is_told():
    desk = running(retries=2)
    step = desk.scheduler.step([exited("job", 9)], 9.0)
    assert [(t.before.value, t.after.value, t.note) for t in step.transitions if t.before] == [
        ("running", "queued", "retry 1 of 2: worker 0 exited with status 9"),
        ("queued", "starting", ""),
    ]


def test_a_lost_node_costs_no_retry():
    desk = running(nodes=PAIR)
    assert desk.holds("job").startswith("m-0")
    assert desk.tell(NodeLost("m"), NodeFenced("m")) == ["start job.0 n-0"]
    record = desk.scheduler.record("job")
    assert (record.attempt, record.retries_used, record.state.value) == (2, 0, "starting")


@pytest.mark.parametrize(
    ("events", "orders"),
    [
        ([], ["start new.0 m-0"]),
        ([NodeLost("m")], ["start new.0 n-0"]),
        ([NodeLost("m"), NodeLost("n")], []),
        ([NodeLost("m"), NodeJoined(PAIR[0])], ["start new.0 m-0"]),
        ([NodeFenced("m")], ["start new.0 n-0"]),
        ([NodeJoined(PAIR[0]), NodeFenced("m")], ["start new.0 n-0"]),
    ],
)
def test_nothing_new_goes_to_a_lost_node(events, orders):
    desk = Desk("backfill", PAIR)
    desk.tell(*events)
    assert desk.submit("new", X1) == orders


def test_a_lost_node_that_comes_back_still_has_its_jobs():
    desk = running()
    desk.tell(NodeLost("n"))
    assert desk.scheduler.available("n") is False
    assert desk.submit("next", X1) == []
    assert desk.tell(NodeJoined(ONE[0])) == []
    assert desk.tell(exited("job")) == ["start next.0 n-0"]


# at what time -> orders; the job was placed at 2 s and may run for 10 s
LIMITS = [(11.9, []), (12.0, ["stop job.0 time-limit"]), (99.0, ["stop job.0 time-limit"])]


@pytest.mark.parametrize(("at_s", "orders"), LIMITS)
def test_a_time_limit(at_s, orders):
    desk = running(time_limit_s=10.0)
    assert desk.scheduler.next_deadline_s() == 12.0
    assert desk.tell(at_s=at_s) == orders
    assert desk.scheduler.next_deadline_s() == (None if orders else 12.0)
    assert desk.tell(at_s=at_s) == []


# how the worker answers an order to stop for its time limit -> state, text
OUT_OF_TIME = [
    (stopped("job"), "failed", "time limit of 10 s reached"),
    (exited("job", 143), "failed", "time limit of 10 s reached"),
    (exited("job"), "succeeded", ""),
    (JobCancelled("job"), "stopping", ""),
]


@pytest.mark.parametrize(("event", "state", "text"), OUT_OF_TIME)
def test_a_job_out_of_time_is_not_tried_again(event, state, text):
    desk = running(time_limit_s=10.0, retries=5)
    desk.tell(at_s=12.0)
    assert desk.tell(event) == []
    record = desk.scheduler.record("job")
    assert (record.state.value, record.failure, record.retries_used) == (state, text, 0)


def test_every_attempt_has_the_whole_time():
    desk = running(time_limit_s=10.0, retries=1)
    desk.tell(exited("job", 1), at_s=8.0)
    assert desk.scheduler.next_deadline_s() == 18.0
    assert desk.tell(at_s=17.0) == []
    assert desk.tell(at_s=18.0) == ["stop job.0 time-limit"]


def test_the_earliest_of_several_limits_comes_first():
    desk = Desk("backfill", (node("n", f"4x{V100}"),))
    for job_id, limit_s in (("a", 30.0), ("b", 10.0), ("c", 20.0), ("d", None)):
        desk.submit(job_id, X1, time_limit_s=limit_s)  # placed at 2, 3, 4 and 5
    assert desk.scheduler.next_deadline_s() == 13.0
    desk.tell(exited("b"), at_s=6.0)
    assert desk.scheduler.next_deadline_s() == 24.0
    assert desk.tell(at_s=50.0) == ["stop c.0 time-limit", "stop a.0 time-limit"]
    assert desk.scheduler.next_deadline_s() is None


@pytest.mark.parametrize(
    ("ends", "served_s"),
    [
        ([exited("job", served_s=7.0), exited("job", worker=1, served_s=5.0)], 5.0),
        ([exited("job", served_s=5.0), exited("job", worker=1, served_s=7.0)], 5.0),
        ([exited("job"), exited("job", worker=1, served_s=5.0)], 5.0),
        ([exited("job"), exited("job", worker=1)], 0.0),
        ([exited("job", served_s=7.0), exited("job", served_s=1.0), exited("job", worker=1)], 7.0),
        ([exited("job", 1, served_s=7.0), stopped("job", worker=1, served_s=5.0)], 5.0),
    ],
)
def test_the_work_of_a_gang_is_that_of_its_slowest_worker(ends, served_s):
    desk = running(nodes=PAIR, workers=2)
    desk.tell(*ends)
    assert desk.scheduler.record("job").served_s == served_s


def test_a_queued_job_is_cancelled_at_once_and_an_unknown_one_never():
    desk = running()
    desk.submit("next", X1)
    assert desk.tell(JobCancelled("next"), JobCancelled("nobody")) == []
    assert desk.states() == "job running, next cancelled"
    assert desk.waiting() == []
    assert desk.scheduler.record("next").ended_s == desk.now_s
    assert desk.tell(exited("job")) == []
    assert desk.tell(JobCancelled("job"), JobCancelled("next")) == []
    assert desk.states() == "job succeeded, next cancelled"


def test_ended_jobs_can_be_forgotten_and_others_cannot():
    desk = running()
    desk.scheduler.forget("job")
    assert desk.states() == "job running"
    desk.tell(exited("job"))
    desk.scheduler.forget("job")
    desk.scheduler.forget("nobody")
    assert list(desk.scheduler.records()) == []
    with pytest.raises(NotFound, match="no job 'job' is known"):
        desk.scheduler.record("job")


def test_looking_at_what_is_not_there():
    scheduler = Desk("backfill", ONE).scheduler
    for look in (scheduler.explain, scheduler.record):
        with pytest.raises(NotFound, match="no job 'x' is known"):
            look("x")
    for look in (scheduler.node, scheduler.available):
        with pytest.raises(NotFound, match="no node 'x' has joined"):
            look("x")
    with pytest.raises(NotFound, match="no GPU 'x' is known"):
        scheduler.residents("x")


def test_what_is_there():
    scheduler = Desk("backfill", PAIR[::-1]).scheduler
    assert scheduler.node_ids() == ["m", "n"]
    assert (scheduler.node("m"), scheduler.available("m")) == (PAIR[0], True)
    assert scheduler.residents("GPU-m-0") == ()
