"""Others are moved so that a job fits: who, where to, and what would let a job in."""

from __future__ import annotations

import pytest

from placement import repartition
from placement.model import NodeJoined, NodeLost, Outcome, Reason
from tests.cases.desk import GIB, exited, mig, mps, node, stopped, whole
from tests.cases.movers import HALVES, PAIRS, V100, X1, X2, moving_registered, one_moves, peopled, stored

A100 = "A100-SXM4-80GB"
TRIPLE = (*PAIRS, node("c", f"2x{V100}"))
CUT = (node("a", f"1x{A100}"),)
TWO_CUT = (*CUT, node("b", f"1x{A100}"))


@pytest.fixture(autouse=True)
def nobody_needs_to_settle():
    with moving_registered(settled_s=0.0):
        yield


STAYS = {"preemptible": False}
EIGHTS = (
    (node("a", f"8x{A100}"), node("b", f"8x{V100}")),
    [("p", whole(8))],
    whole(1, gpu_models=("A100",)),
)
TO_B = "p to " + " ".join(f"b-{slot}:exclusive:1000" for slot in range(8))

# nodes, who ran, who comes and more of it: the orders and where those moved go on
MOVES = {
    "the one in the way of two GPUs": (PAIRS, HALVES, X2, {}, ["stop p.0 moved"], "p to b-1:exclusive:1000"),
    "nobody where there is room": (PAIRS, HALVES[:2], X2, {}, ["start new.0 b-0,b-1"], ""),
    "nobody if they have nowhere to go": (PAIRS, [*HALVES[:3], ("s", X1)], X2, {}, [], ""),
    "nobody who must not be": (
        PAIRS,
        [("p", X1, {"preemptible": False}), ("-q", X1), ("r", X1, {"preemptible": False}), ("-s", X1)],
        X2,
        {},
        [],
        "",
    ),
    "the other if the first must not be": (
        PAIRS,
        [("p", X1, {"preemptible": False}), *HALVES[1:]],
        X2,
        {},
        ["stop r.0 moved"],
        "r to a-1:exclusive:1000",
    ),
    "a gang as a whole": (
        PAIRS,
        [("-q", X1), ("g", X1, {"workers": 2}), ("-s", X1)],
        X2,
        {},
        ["stop g.0 moved", "stop g.1 moved"],
        "g to b-0:exclusive:1000 b-1:exclusive:1000",
    ),
    "no gang where it has nowhere to go": (
        PAIRS,
        [("g", X1, {"workers": 2}), ("r", X1), ("-s", X1)],
        X2,
        {},
        [],
        "",
    ),
    "no gang that would be on more nodes": (
        TRIPLE,
        [("g", X1, {"workers": 2}), ("r", X1, STAYS), ("-s", X1), ("t", X1, STAYS), ("-u", X1)],
        X2,
        {},
        [],
        "",
    ),
    "no gang of many workers": (
        (node("a", f"6x{V100}"), node("b", f"5x{V100}")),
        [("-f", whole(5)), ("g", X1, {"workers": 5})],
        whole(6),
        {},
        [],
        "",
    ),
    "a gang of four": (
        (node("a", f"5x{V100}"), node("b", f"4x{V100}")),
        [("-f", whole(4)), ("g", X1, {"workers": 4})],
        whole(5),
        {},
        [f"stop g.{worker} moved" for worker in range(4)],
        "g to " + " ".join(f"b-{slot}:exclusive:1000" for slot in range(4)),
    ),
    "one alone rather than a gang": (
        (node("b", f"3x{V100}"), node("c", f"3x{A100}")),
        [("-f", whole(3)), ("g", X1, {"workers": 2}), ("p", X1)],
        whole(1, gpu_models=("A100",)),
        {},
        ["stop p.0 moved"],
        "p to b-0:exclusive:1000",
    ),
    "one for a gang": (
        TRIPLE,
        HALVES,
        X2,
        {"workers": 2},
        ["stop p.0 moved"],
        "p to b-1:exclusive:1000",
    ),
    "several for a gang": (
        (*TRIPLE, node("d", f"2x{V100}")),
        [*HALVES, ("t", X1), ("-u", X1), ("v", X1), ("-w", X1)],
        X2,
        {"workers": 2},
        ["stop p.0 moved", "stop r.0 moved"],
        "p to c-1:exclusive:1000, r to d-1:exclusive:1000",
    ),
    "nobody for a gang that has no room even then": (PAIRS, HALVES, X2, {"workers": 2}, [], ""),
    "one for a gang that lacks room for four": (*EIGHTS, {"workers": 4}, ["stop p.0 moved"], TO_B),
    "nobody for a gang that lacks room for five": (*EIGHTS, {"workers": 5}, [], ""),
    "nobody for one that does not wait": (PAIRS, HALVES, X2, {"immediate": True}, [], ""),
    "a slice within its GPU": (
        CUT,
        [("-x", mig("3g.40gb")), ("y", mig("1g.10gb"))],
        mig("4g.40gb"),
        {},
        ["stop y.0 moved"],
        "y to a-0:1g.10gb@6",
    ),
    "the smaller share": (
        TWO_CUT,
        [("p", mps(300)), ("-f", mps(700)), ("r", mps(400)), ("-s", mps(300))],
        X1,
        {},
        ["stop p.0 moved"],
        "p to b-0:mps:300",
    ),
    "shares of a GPU that shall be cut": (
        TWO_CUT,
        [("p", mps(300)), ("-f", mps(700)), ("r", mps(400)), ("-s", mps(300))],
        mig("7g.80gb"),
        {},
        ["stop p.0 moved"],
        "p to b-0:mps:300",
    ),
    "no one too many": (
        TWO_CUT,
        [("p", mps(500)), ("q", mps(200)), ("-f", mps(300)), ("r", mps(300)), ("-s", mps(600))],
        mps(800),
        {},
        ["stop r.0 moved"],
        "r to a-0:mps:300",
    ),
    "no one too many where memory is what is missing": (
        TWO_CUT,
        [
            ("p", mps(500, memory_bytes=GIB)),
            ("q", mps(100, memory_bytes=60 * GIB)),
            ("-f", mps(400, memory_bytes=GIB)),
            ("r", mps(800, memory_bytes=10 * GIB)),
        ],
        mps(300, memory_bytes=70 * GIB),
        {},
        ["stop q.0 moved"],
        "q to b-0:mps:100",
    ),
    "nobody for a gain that is too short": (PAIRS, HALVES, X2, {"duration_s": 15.0}, [], ""),
    "one for a gain that is just long enough": (
        PAIRS,
        HALVES,
        X2,
        {"duration_s": 20.0},
        ["stop p.0 moved"],
        "p to b-1:exclusive:1000",
    ),
    "nobody who is done soon anyway": (
        PAIRS,
        [("p", X1, {"duration_s": 16.0}), ("-q", X1), ("r", X1, {"duration_s": 16.0}), ("-s", X1)],
        X2,
        {},
        [],
        "",
    ),
}


@pytest.mark.parametrize("case", MOVES.values(), ids=MOVES)
def test_who_is_moved(case):
    nodes, ran, request_, more, orders, moved = case
    desk = peopled(nodes, ran)
    assert desk.submit("new", request_, **more) == orders
    movers = [record for record in desk.scheduler.records() if record.next_place]
    for record in movers:
        for worker in range(record.job.workers):
            desk.tell(stopped(record.job.job_id, worker=worker, served_s=1.0))
    assert ", ".join(f"{r.job.job_id} to {desk.holds(r.job.job_id)}" for r in movers) == moved


def test_without_the_policy_nobody_is_moved():
    desk = peopled(PAIRS, HALVES, "backfill")
    assert desk.submit("new", X2) == []


def test_nobody_is_moved_before_it_has_settled(monkeypatch):
    monkeypatch.setattr(repartition, "SETTLED_S", 60.0)
    desk = peopled(PAIRS, HALVES)
    assert desk.submit("new", X2) == []
    desk.now_s += 60
    assert desk.submit("another", whole(2, cpu_milli=1)) == ["stop p.0 moved"]


NARROW = (node("a", f"1x{A100}", cpu_milli=8000), node("b", f"1x{A100}", cpu_milli=1000))


@pytest.mark.parametrize(
    ("duration_s", "orders"),
    [(16.0, []), (23.0, []), (24.0, ["stop p.0 moved"])],
    ids=["enough for the change at its own place", "just too short", "just long enough"],
)
def test_the_change_of_mode_where_those_moved_go_on_has_a_price(duration_s, orders):
    """5 s to leave and 13 s until the other GPU has slices: 1 x (t - 18) against 0.143 x (18 + 21)."""
    desk = peopled(NARROW, [("-f", X1), ("p", mig("1g.10gb"))])
    assert desk.holds("p") == "a-0:1g.10gb@6"
    assert desk.submit("new", mig("7g.80gb", cpu_milli=8000), duration_s=duration_s) == orders


@pytest.mark.parametrize(
    ("lost", "orders"),
    [([], ["stop g.0 moved", "stop g.1 moved"]), ([NodeLost("b")], [])],
    ids=["up", "lost"],
)
def test_a_gang_with_a_worker_on_a_lost_node_is_not_moved(lost, orders):
    desk = peopled(PAIRS, [("-q", X1), ("g", X1, {"workers": 2}), ("-s", X1)])
    desk.tell(NodeJoined(node("c", f"2x{V100}", cpu_milli=1000)), *lost)
    assert desk.submit("new", whole(2, cpu_milli=8000)) == orders


def test_the_claim_says_that_others_are_moved_for_it():
    desk = one_moves()
    assert desk.scheduler.explain("new").outcome is Outcome.REPARTITION
    desk.tell(stopped("p", served_s=3.0))
    assert desk.scheduler.explain("new").outcome is Outcome.REPARTITION
    assert desk.scheduler.explain("r").outcome is Outcome.FIT


# who came: the outcome for one that waits, and the places where a move would cost too much
PROSPECTS = {
    "nobody may be moved": (PAIRS, [*HALVES[:3], ("s", X1)], X2, {}, Outcome.NO_FIT, {}),
    "it would cost too much": (PAIRS, HALVES, X2, {"duration_s": 15.0}, Outcome.NO_FIT, {Reason.PRICE: 2}),
}


@pytest.mark.parametrize("case", PROSPECTS.values(), ids=PROSPECTS)
def test_what_would_let_a_waiting_job_in(case):
    nodes, ran, request_, more, outcome, reasons = case
    desk = peopled(nodes, ran)
    assert desk.submit("new", request_, **more) == []
    explanation = desk.scheduler.explain("new")
    assert explanation.outcome is outcome
    assert {r: n for r, n in explanation.reasons.items() if r is Reason.PRICE} == reasons


def test_a_move_that_would_be_worth_it_later_is_told(monkeypatch):
    monkeypatch.setattr(repartition, "SETTLED_S", 60.0)
    desk = peopled(PAIRS, HALVES)
    assert desk.submit("new", X2) == []
    assert desk.scheduler.explain("new").outcome is Outcome.NO_FIT
    assert desk.tell(at_s=desk.now_s + 60) == []
    desk.scheduler = stored(desk)
    assert desk.tell() == []  # nothing has happened that would be an occasion
    assert desk.scheduler.explain("new").outcome is Outcome.REPARTITION
    assert desk.submit("small", X1) == ["start small.0 a-1"]
    assert desk.scheduler.explain("new").outcome is Outcome.NO_FIT
    assert desk.tell(exited("small")) == ["stop p.0 moved"]


def test_one_that_fits_but_has_others_ahead_fits():
    desk = peopled(PAIRS, [("p", whole(1)), ("q", whole(1)), ("r", whole(1))], "fifo")
    desk.submit("wide", X2)
    desk.submit("small", X1)
    explanation = desk.scheduler.explain("small")
    assert (explanation.outcome, explanation.reasons[Reason.ORDER]) == (Outcome.FIT, 1)
