"""What becomes of those who are moved, of their places and of whoever they make room for."""

from __future__ import annotations

import pytest

from manager.store.codec import RECORD
from placement.decision_log import lines
from placement.model import Event, JobCancelled, NodeFenced, NodeJoined, NodeLost
from tests.cases.desk import Desk, began, exited, node, stopped
from tests.cases.movers import HALVES, PAIRS, V100, X1, X2, moving_registered, one_moves, peopled, stored


@pytest.fixture(autouse=True)
def nobody_needs_to_settle():
    with moving_registered(settled_s=0.0):
        yield


Turn = list[Event]
LEFT = stopped("p", served_s=3.0)

# p moves from a-0 to b-1 for new, which claims node a: what happens turn by turn, the orders, the states
ENDINGS = {
    "it goes on where its place is kept": (
        [[LEFT]],
        ["start p.0 b-1", "start new.0 a-0,a-1"],
        "p starting, q succeeded, r running, s succeeded, new starting",
    ),
    "it ended by itself": (
        [[exited("p")]],
        ["start new.0 a-0,a-1"],
        "p succeeded, q succeeded, r running, s succeeded, new starting",
    ),
    "it failed": (
        [[exited("p", 1)]],
        ["start new.0 a-0,a-1"],
        "p failed, q succeeded, r running, s succeeded, new starting",
    ),
    "it is cancelled, and its place is free at once": (
        [[JobCancelled("p")], ["third"], [stopped("p")]],
        ["start third.0 b-1", "start new.0 a-0,a-1"],
        "p cancelled, q succeeded, r running, s succeeded, new starting, third starting",
    ),
    "nobody else takes its place": (
        [["third"], [LEFT]],
        ["start p.0 b-1", "start new.0 a-0,a-1"],
        "p starting, q succeeded, r running, s succeeded, new starting, third queued",
    ),
    "the other is cancelled": (
        [[JobCancelled("new")], [LEFT]],
        ["start p.0 b-1"],
        "p starting, q succeeded, r running, s succeeded, new cancelled",
    ),
    "its old node is lost with it": (
        [[NodeLost("a"), NodeFenced("a")]],
        ["start p.0 b-1"],
        "p starting, q succeeded, r running, s succeeded, new queued",
    ),
    "its new node is lost": (
        [[NodeLost("b")], [LEFT]],
        ["start new.0 a-0,a-1"],
        "p queued, q succeeded, r running, s succeeded, new starting",
    ),
    "its new node is lost and fenced": (
        [[NodeLost("b"), NodeFenced("b")], [LEFT]],
        ["start new.0 a-0,a-1"],
        "p queued, q succeeded, r queued, s succeeded, new starting",
    ),
    "its new node is lost and back": (
        [[NodeLost("b")], [NodeJoined(PAIRS[1])], [LEFT]],
        ["start p.0 b-1", "start new.0 a-0,a-1"],
        "p starting, q succeeded, r running, s succeeded, new starting",
    ),
    "its new node is smaller": (
        [[NodeJoined(node("b", f"1x{V100}"))], [LEFT]],
        ["start new.0 a-0,a-1"],
        "p queued, q succeeded, r running, s succeeded, new starting",
    ),
    "its new neighbour leaves first": (
        [[exited("r")], [LEFT]],
        ["start p.0 b-1", "start new.0 a-0,a-1"],
        "p starting, q succeeded, r succeeded, s succeeded, new starting",
    ),
    "it is reported twice": (
        [[LEFT], [LEFT]],
        ["start p.0 b-1", "start new.0 a-0,a-1"],
        "p starting, q succeeded, r running, s succeeded, new starting",
    ),
}


def told(desk: Desk, turn: list) -> list[str]:
    return desk.tell(*[desk.job(item, X1) if isinstance(item, str) else item for item in turn])


@pytest.mark.parametrize(("turns", "orders", "states"), ENDINGS.values(), ids=ENDINGS)
def test_what_becomes_of_those_who_are_moved(turns, orders, states):
    desk = one_moves()
    assert [order for turn in turns for order in told(desk, turn)] == orders
    assert desk.states() == states


def test_the_place_kept_for_one_that_is_cancelled_is_free_before_it_has_left():
    desk = one_moves()
    assert desk.tell(JobCancelled("p"), desk.job("third", X1)) == ["start third.0 b-1"]
    assert desk.tell(stopped("p")) == ["start new.0 a-0,a-1"]


def test_one_that_failed_while_it_was_to_move_is_tried_again():
    desk = peopled(PAIRS, [("p", X1, {"retries": 1}), *HALVES[1:]])
    desk.submit("new", X2)
    assert desk.tell(exited("p", 1)) == ["start p.0 b-1", "start new.0 a-0,a-1"]
    assert desk.scheduler.record("p").retries_used == 1


def test_progress_is_kept_and_moves_are_counted():
    desk = one_moves()
    desk.tell(LEFT)
    record = desk.scheduler.record("p")
    assert (record.served_s, record.moves, record.preemptions, record.attempt) == (3.0, 1, 0, 2)
    assert desk.holds("p") == "b-1:exclusive:1000"
    desk.tell(began("p", attempt=2), exited("p", attempt=2, served_s=4.0))
    assert desk.scheduler.record("p").served_s == 7.0


@pytest.mark.parametrize("turns", [turns for turns, *_rest in ENDINGS.values()], ids=ENDINGS)
def test_a_manager_that_dies_during_the_move_decides_as_if_it_had_not(turns):
    def log_of(dies_before: int | None) -> list[str]:
        desk, log = one_moves(), []
        for i, turn in enumerate(turns):
            if i == dies_before:
                desk.scheduler = stored(desk)
            events = [desk.job(item, X1) if isinstance(item, str) else item for item in turn]
            desk.now_s += 1
            log += lines(desk.scheduler.step(events, desk.now_s), desk.now_s)
        return log

    for dies_before in range(len(turns)):
        assert log_of(dies_before) == log_of(None)


def test_a_record_of_before_is_read():
    """Older managers stored neither a next place nor moves."""
    desk = peopled(PAIRS, HALVES)
    record = desk.scheduler.record("p")
    body = RECORD.dump_python(record, mode="json")
    for name in ("next_place", "moves", "outcome"):
        del body[name]
    again = RECORD.validate_python(body)
    assert (again.next_place, again.moves, again.assignments) == ((), 0, record.assignments)
