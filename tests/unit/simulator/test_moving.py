"""What a move takes in the simulated world: the price delays the newcomer, and who was moved loses it."""

import pytest

from placement.interference import NoInterference
from placement.lifecycle import JobState
from placement.model import Mode, Request
from placement.partition import TransitionCosts
from placement.trace import TraceRow
from simulator.cluster_spec import load_cluster
from simulator.engine import SimulationOptions, SimulationResult, simulate
from tests.cases.movers import Moving, moving_registered


@pytest.fixture(autouse=True)
def moving():
    with moving_registered():
        yield


FREE = TransitionCosts(drain_s=0, restore_s=0, destroy_s=0, create_s=0)
DEAR = TransitionCosts(drain_s=10, restore_s=100, destroy_s=1, create_s=2)


def row(job_id: str, submit_s: float, duration_s: float, gpus: int = 1) -> TraceRow:
    return TraceRow(job_id, submit_s, Request(gpus=gpus, modes=frozenset({Mode.EXCLUSIVE})), duration_s)


HALVES = [row("p", 0, 1000), row("q", 0, 100), row("r", 0, 1000), row("s", 0, 100)]
"""On two nodes of two GPUs: from 100 on, one GPU of each is free."""


def run(rows: list[TraceRow], **fields) -> SimulationResult:
    policy = f"backfill+{Moving.name}"
    options = SimulationOptions(policy, truth=NoInterference(), belief=NoInterference(), **fields)
    return simulate(rows, load_cluster("2x2xV100-SXM2-32GB"), options)


# 9 s of drain and reconfiguration for both; 21 s of restoring for the one that was moved
CASES = {
    "by default 30 s, as in MISO": ({}, {"p": (0, 1030), "new": (209, 259), "r": (0, 1000)}),
    "nothing": ({"costs": FREE}, {"p": (0, 1000), "new": (200, 250), "r": (0, 1000)}),
    "as much as one says": ({"costs": DEAR}, {"p": (0, 1113), "new": (213, 263), "r": (0, 1000)}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_move_takes(case):
    options, expected = CASES[case]
    result = run([*HALVES, row("new", 200, 50, gpus=2)], **options)
    spans = {o.job_id: (o.first_placed_s, o.ended_s) for o in result.outcomes}
    assert {job_id: spans[job_id] for job_id in expected} == expected


def test_work_is_served_once_and_idling_is_no_slowdown():
    result = run([*HALVES, row("new", 200, 50, gpus=2)])
    moved = next(outcome for outcome in result.outcomes if outcome.job_id == "p")
    assert (moved.served_s, moved.held_s, moved.slowdown) == (1000, 1030, 1)
    assert all(outcome.state is JobState.SUCCEEDED for outcome in result.outcomes)


def test_equal_runs_are_equal_to_the_byte():
    rows = [*HALVES, row("new", 200, 50, gpus=2), row("late", 230, 500, gpus=2)]
    one, other = (run(rows, keep_decision_log=True).decision_log for _ in range(2))
    assert one == other
    assert any("moved" in line for line in one)
