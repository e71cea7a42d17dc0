"""The life of a job: every move that is legal, and that every other one is refused with the job's story."""

from __future__ import annotations

import pytest

from placement.lifecycle import ENDED, HOLDING, TRANSITIONS, JobRecord, JobState, Move, Transition
from placement.model import Job, Request, StateError

# What users read in docs/lifecycle.md, written down a second time: "state: move -> state".
LEGAL = """
    queued: place -> starting
    queued: claim -> placed
    queued: cancel -> cancelled
    queued: reject -> rejected
    placed: start -> starting
    placed: unplace -> queued
    placed: cancel -> cancelled
    starting: run -> running
    starting: stop -> stopping
    starting: succeed -> succeeded
    starting: fail -> failed
    starting: requeue -> queued
    running: stop -> stopping
    running: succeed -> succeeded
    running: fail -> failed
    running: requeue -> queued
    stopping: succeed -> succeeded
    stopping: fail -> failed
    stopping: cancel -> cancelled
    stopping: requeue -> queued
"""


def moves() -> dict[tuple[JobState, Move], JobState]:
    table = {}
    for line in LEGAL.split("\n"):
        if line.strip():
            before, rest = line.strip().split(": ")
            move, after = rest.split(" -> ")
            table[JobState(before), Move(move)] = JobState(after)
    return table


LEGAL_MOVES = moves()
ILLEGAL_MOVES = [(s, m) for s in JobState for m in Move if (s, m) not in LEGAL_MOVES]


def record(state: JobState) -> JobRecord:
    job = Job("job-7", Request(), 0.0, 1)
    return JobRecord(
        job,
        state,
        attempt=3,
        placed_s=12.5,
        preemptions=2,
        started_workers={2, 0},
        exited_workers={1},
    )


@pytest.mark.parametrize(("state", "move"), LEGAL_MOVES, ids=lambda value: value.value)
def test_a_legal_move(state, move):
    walker, after = record(state), LEGAL_MOVES[state, move]
    assert walker.move(move, 99.0, "why") == Transition("job-7", 3, state, after, 99.0, "why")
    assert walker.state is after


@pytest.mark.parametrize(("state", "move"), ILLEGAL_MOVES, ids=lambda value: value.value)
def test_any_other_move_is_refused_and_tells_the_story(state, move):
    walker = record(state)
    with pytest.raises(StateError) as caught:
        walker.move(move, 99.0)
    assert str(caught.value) == (
        f"job job-7: cannot {move.value} while {state.value} (attempt 3, placed at 12.5, "
        "preempted 2 times, workers started [0, 2], exited [1])"
    )
    assert walker.state is state


def test_the_two_tables_are_one():
    assert TRANSITIONS == LEGAL_MOVES
    assert len(LEGAL_MOVES) + len(ILLEGAL_MOVES) == len(JobState) * len(Move)


def test_ended_jobs_never_move_again():
    assert {JobState(name) for name in ("succeeded", "failed", "cancelled", "rejected")} == ENDED
    assert [pair for pair in TRANSITIONS if pair[0] in ENDED] == []


def test_states_that_hold_shares():
    assert {JobState(name) for name in ("placed", "starting", "running", "stopping")} == HOLDING


def test_every_state_can_be_reached_and_every_living_one_can_end():
    reached = {JobState.QUEUED} | set(TRANSITIONS.values())
    assert reached == set(JobState)
    for state in set(JobState) - ENDED:
        seen, before = {state}, set()
        while seen != before:
            before = set(seen)
            seen |= {after for (s, _m), after in TRANSITIONS.items() if s in seen}
        assert seen >= ENDED - {JobState.REJECTED}


@pytest.mark.parametrize(
    ("duration_s", "served_s", "remaining_s"),
    [
        (None, 0.0, None),
        (None, 5.0, None),
        (10.0, 0.0, 10.0),
        (10.0, 4.0, 6.0),
        (10.0, 10.0, 0.0),
        (10.0, 12.0, 0.0),
    ],
)
def test_the_time_that_is_left(duration_s, served_s, remaining_s):
    walker = JobRecord(Job("job", Request(), 0.0, 1, duration_s=duration_s), served_s=served_s)
    assert walker.remaining_s() == remaining_s
