"""How long jobs are taken to last: as they say, else as the latest of their origin did, in coarse classes."""

from __future__ import annotations

import pytest

from placement.lifecycle import JobRecord
from placement.lifetimes import FEWEST, RECENT, Lifetimes, RunTimes, estimate, lifetime_of
from placement.model import Job, JobKind, Lifetime, Request

HOUR_S = 3600.0
NEVER, HOUR, DAY, WEEK, LONG = Lifetime


@pytest.mark.parametrize(
    ("run_s", "lifetime"),
    [
        (0.0, HOUR),
        (HOUR_S - 1, HOUR),
        (HOUR_S, DAY),
        (10 * HOUR_S - 1, DAY),
        (10 * HOUR_S, WEEK),
        (100 * HOUR_S - 1, WEEK),
        (100 * HOUR_S, LONG),
        (1e9, LONG),
    ],
)
def test_a_factor_of_ten_lies_between_lifetimes(run_s, lifetime):
    assert lifetime_of(run_s) is lifetime


@pytest.mark.parametrize(
    ("ended", "lifetime"),
    [
        ((HOUR,) * (FEWEST - 1), NEVER),
        ((HOUR,) * FEWEST, HOUR),
        ((HOUR,) * 8 + (LONG,), LONG),  # eight of nine are less than nine of ten
        ((HOUR,) * 9 + (LONG,), HOUR),
        ((LONG,) + (HOUR,) * 9, HOUR),
        ((HOUR,) * 17 + (LONG,) * 3, LONG),
        ((HOUR,) * 17 + (DAY, DAY, LONG), DAY),
        ((HOUR,) * 18 + (DAY, LONG), HOUR),
    ],
)
def test_the_estimate_is_what_nine_of_ten_did_not_outlast(ended, lifetime):
    assert estimate(ended) is lifetime


def job(number: int = 1, **fields) -> Job:
    return Job(f"job-{number}", Request(), 0.0, number, **fields)


def ended(number: int, hours: float, **fields) -> JobRecord:
    return JobRecord(job(number, **fields), attempt=1, held_s=hours * HOUR_S)


def test_a_job_that_says_how_long_it_takes_is_believed_also_against_its_history():
    lifetimes = Lifetimes(on=True)
    lifetimes.learn([ended(number, 0.1) for number in range(FEWEST)])
    assert lifetimes.given(job(duration_s=50 * HOUR_S)).lifetime is WEEK
    assert lifetimes.given(job()).lifetime is HOUR


def test_each_tenant_and_kind_has_its_own_history():
    lifetimes = Lifetimes(on=True)
    lifetimes.learn([ended(number, 20) for number in range(FEWEST)])
    lifetimes.learn([ended(number, 0.1, tenant="red") for number in range(FEWEST)])
    lifetimes.learn([ended(number, 200, kind=JobKind.INFERENCE) for number in range(FEWEST)])
    found = [
        job(),
        job(tenant="red"),
        job(kind=JobKind.INFERENCE),
        job(tenant="blue"),
        job(tenant="red", kind=JobKind.INFERENCE),
    ]
    assert [lifetimes.given(each).lifetime for each in found] == [WEEK, HOUR, LONG, NEVER, NEVER]


def test_the_latest_count_in_the_order_of_arrival_whatever_that_of_their_ends():
    records = [ended(number, hours) for number, hours in enumerate((0.1, 20, 2))]
    one, other = Lifetimes(on=True), Lifetimes(on=True)
    expected = (RunTimes("default", JobKind.TRAINING, (HOUR, WEEK, DAY)),)
    assert one.learn(records) == other.learn(records[::-1]) == expected == one.known == other.known
    one.learn([ended(number, 200) for number in range(RECENT)])
    assert one.known[0].lifetimes == (LONG,) * RECENT


def test_who_never_ran_teaches_nothing():
    lifetimes = Lifetimes(on=True)
    assert lifetimes.learn([JobRecord(job())]) == () == lifetimes.known


def test_what_was_known_before_a_restart_is_known_after_it():
    before, after = Lifetimes(on=True), Lifetimes(on=True)
    before.learn([ended(number, 20) for number in range(FEWEST)])
    after.recall(before.known)
    assert after.given(job()) == before.given(job()) != job()
    assert after.learn([ended(99, 20)]) == before.learn([ended(99, 20)])


def test_where_lifetimes_are_not_weighed_no_job_has_one():
    lifetimes = Lifetimes(on=False)
    assert lifetimes.learn([ended(number, 20) for number in range(FEWEST)]) == () == lifetimes.known
    assert lifetimes.given(job(duration_s=1.0)) == job(duration_s=1.0)
