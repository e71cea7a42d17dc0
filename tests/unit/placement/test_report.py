"""The metrics of a run, worked out by hand; null where a figure is undefined."""

from __future__ import annotations

import pytest

from placement.lifecycle import JobState
from placement.report import JobOutcome, RunCounters, metrics_of, percentile

DONE, FAILED, CANCELLED, REJECTED, RUNNING, QUEUED = (
    JobState(name) for name in ("succeeded", "failed", "cancelled", "rejected", "running", "queued")
)
COUNTERS = RunCounters(events=12, decisions=8, load_s=1.5, wall_s=4.0)


def outcome(state: JobState = DONE, submit_s=0.0, placed_s=None, ended_s=None, **fields) -> JobOutcome:
    defaults = {
        "job_id": "job",
        "tenant": "red",
        "gpu_milli": 1000,
        "held_s": 0.0,
        "served_s": None,
        "slowdown": None,
        "max_slowdown": None,
        "preemptions": 0,
    }
    return JobOutcome(
        state=state, submit_s=submit_s, first_placed_s=placed_s, ended_s=ended_s, **{**defaults, **fields}
    )


# Two GPUs from 100 s to 200 s: 200,000 thousandths of a GPU times seconds.
RUN = [
    outcome(DONE, 100.0, 100.0, 140.0, held_s=40.0, served_s=40.0, slowdown=1.0, gpu_milli=1000),
    outcome(
        DONE,
        110.0,
        120.0,
        180.0,
        held_s=50.0,
        served_s=30.0,
        slowdown=2.0,
        max_slowdown=1.5,
        gpu_milli=500,
        preemptions=2,
        moves=1,
    ),
    outcome(
        FAILED,
        120.0,
        150.0,
        190.0,
        held_s=40.0,
        served_s=None,
        slowdown=1.5,
        max_slowdown=1.5,
        gpu_milli=1000,
        preemptions=1,
        moves=2,
    ),
    outcome(CANCELLED, 130.0, None, 135.0, gpu_milli=2000),
    outcome(REJECTED, 140.0, None, 999.0, gpu_milli=64_000),
    outcome(RUNNING, 150.0, 160.0, None, held_s=10.0, served_s=5.0, gpu_milli=250),
    outcome(QUEUED, 160.0, gpu_milli=1000, max_slowdown=1.1),
]
BY_HAND = {  # in the order of the result file
    "jobs_total": 7,
    "jobs_completed": 2,
    "jobs_rejected": 1,
    "avg_jct_s": 55.0,  # (40 + 70) / 2
    "p50_jct_s": 40.0,
    "p99_jct_s": 70.0,
    "avg_wait_s": 5.0,  # (0 + 10) / 2
    "p50_wait_s": 0.0,
    "p99_wait_s": 10.0,
    "makespan_s": 90.0,  # from 100 to 190; a rejection is no end of work
    "gpu_allocation_ratio": 107_500 / 200_000,  # 40,000 + 25,000 + 40,000 + 2,500
    "gpu_utilisation_ratio": 56_250 / 200_000,  # 40,000 + 15,000 + 1,250
    "mean_slowdown": 1.5,
    "p99_slowdown": 2.0,
    "preemptions": 3,
    "moves": 3,
    "promises_broken": 1,  # exactly at the promise is kept; unknown is not broken
    "events": 12,
    "decisions": 8,
    "load_s": 1.5,
    "wall_s": 4.0,
    "decisions_per_s": 2.0,
}


@pytest.mark.parametrize("name", BY_HAND)
def test_a_figure_by_hand(name):
    figures = metrics_of(RUN, 2000, COUNTERS, 200.0).to_dict()
    assert figures[name] == pytest.approx(BY_HAND[name])


def test_names_and_order_are_those_of_the_result_file():
    assert list(metrics_of(RUN, 2000, COUNTERS, 200.0).to_dict()) == list(BY_HAND)


def test_the_order_of_jobs_does_not_matter():
    figures = metrics_of(RUN, 2000, COUNTERS, 200.0)
    assert metrics_of(RUN[::-1], 2000, COUNTERS, 200.0) == figures


COUNTS = {
    "jobs_total",
    "jobs_completed",
    "jobs_rejected",
    "preemptions",
    "moves",
    "promises_broken",
    "events",
    "decisions",
}
RATIOS = {"gpu_allocation_ratio", "gpu_utilisation_ratio"}
TIMES = {name for name in BY_HAND if "jct" in name or "wait" in name}
SLOWDOWNS = {"mean_slowdown", "p99_slowdown"}
UNDEFINED = {
    # outcomes, capacity, end -> what is undefined
    "nothing happened": ([], 2000, 0.0, TIMES | RATIOS | SLOWDOWNS | {"makespan_s"}),
    "no jobs, time passed": ([], 2000, 9.0, TIMES | SLOWDOWNS | {"makespan_s", "gpu_utilisation_ratio"}),
    "all rejected": (
        [outcome(REJECTED, 1.0, ended_s=1.0)],
        2000,
        9.0,
        TIMES | SLOWDOWNS | {"makespan_s", "gpu_utilisation_ratio"},
    ),
    "none completed": (
        [outcome(FAILED, 1.0, 2.0, 3.0, held_s=1.0, served_s=0.5, slowdown=2.0)],
        2000,
        9.0,
        TIMES,
    ),
    "nothing measured": (
        [outcome(DONE, 1.0, 2.0, 3.0, held_s=1.0)],
        2000,
        9.0,
        SLOWDOWNS | {"gpu_utilisation_ratio"},
    ),
    "no GPUs": ([outcome(DONE, 1.0, 2.0, 3.0, served_s=1.0, slowdown=1.0)], 0, 9.0, RATIOS),
    "no time passed": ([outcome(DONE, 1.0, 1.0, 1.0, served_s=0.0, slowdown=1.0)], 2000, 1.0, RATIOS),
}


@pytest.mark.parametrize(("outcomes", "capacity", "end_s", "undefined"), UNDEFINED.values(), ids=UNDEFINED)
def test_what_is_undefined_is_null_and_nothing_else(outcomes, capacity, end_s, undefined):
    figures = metrics_of(outcomes, capacity, COUNTERS, end_s).to_dict()
    assert {name for name, value in figures.items() if value is None} == undefined
    assert {type(figures[name]) for name in COUNTS} == {int}


@pytest.mark.parametrize("wall_s", [None, 0.0])
def test_decisions_per_second_need_a_wall_time(wall_s):
    figures = metrics_of([], 0, RunCounters(0, 5, None, wall_s), 0.0)
    assert (figures.decisions_per_s, figures.load_s, figures.wall_s) == (None, None, wall_s)


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [
        ([], 50, None),
        ([], 99, None),
        ([7.0], 0, 7.0),
        ([7.0], 50, 7.0),
        ([7.0], 99, 7.0),
        ([1.0, 2.0], 50, 1.0),
        ([1.0, 2.0], 51, 2.0),
        ([1.0, 2.0, 3.0], 50, 2.0),
        ([1.0, 2.0, 3.0, 4.0], 25, 1.0),
        ([1.0, 2.0, 3.0, 4.0], 99, 4.0),
        (list(range(1, 101)), 50, 50),
        (list(range(1, 101)), 99, 99),
        (list(range(1, 101)), 100, 100),
        (list(range(1, 102)), 99, 100),
        (list(range(1, 201)), 99, 198),
    ],
)
def test_a_percentile_is_one_of_the_values(values, percent, expected):
    assert percentile(values, percent) == expected
