"""Speeds between two reports, for the policies that want to be told."""

from __future__ import annotations

import pytest

from manager import speeds as speeds_module
from manager.speeds import Speeds
from manager.wire.agent_models import ReportKind, WorkerReport
from placement.model import ExitCause, SpeedObserved


def progress(step: int | None, at_s: float, **more) -> WorkerReport:
    """Alone the job makes 10 steps a second; since its beginning it has made 8."""
    known = {"steps_per_s": 8.0, "observed_slowdown": 1.25}
    fields = {"report_id": f"r-{at_s}", "job_id": "job-1", "attempt": 1, "worker": 0, **known, **more}
    return WorkerReport(kind=ReportKind.PROGRESS, step=step, at_s=at_s, **fields)


TOLD = [
    # reports, slowdowns told
    ([progress(100, 0.0)], []),
    ([progress(100, 0.0), progress(140, 10.0)], [2.5]),  # 4 steps a second of 10
    ([progress(100, 0.0), progress(200, 10.0), progress(250, 20.0)], [1.0, 2.0]),
    ([progress(100, 0.0), progress(100, 10.0)], []),
    ([progress(100, 0.0), progress(140, 0.0)], []),
    ([progress(100, 0.0), progress(140, 10.0, observed_slowdown=None)], []),
    ([progress(100, 0.0), progress(140, 10.0, steps_per_s=None)], []),
    ([progress(100, 0.0), progress(140, 10.0, attempt=2)], []),
    ([progress(100, 0.0), progress(140, 10.0, job_id="job-2")], []),
    ([progress(100, 0.0, worker=1), progress(140, 10.0, worker=1)], []),
]


@pytest.mark.parametrize(("reports", "slowdowns"), TOLD)
def test_the_speed_between_two_reports(reports, slowdowns):
    told = Speeds(wanted=True).events_of(reports)
    assert told == [SpeedObserved("job-1", 1, slowdown) for slowdown in slowdowns]
    assert Speeds().events_of(reports) == []


def test_a_later_attempt_takes_the_place_of_one_that_never_reported_its_end():
    speeds = Speeds(wanted=True)
    first = [progress(100, 0.0), progress(10, 20.0, attempt=2)]
    assert speeds.events_of(first) == []
    assert speeds.events_of([progress(140, 25.0)]) == []  # late, and of no use any more
    assert speeds.events_of([progress(50, 30.0, attempt=2)]) == [SpeedObserved("job-1", 2, 2.5)]
    assert len(speeds._last) == 1


def test_jobs_of_which_nothing_is_heard_are_forgotten_first(monkeypatch):
    monkeypatch.setattr(speeds_module, "MOST_FOLLOWED", 2)
    speeds = Speeds(wanted=True)
    speeds.events_of([progress(100, 0.0), progress(100, 0.0, job_id="silent"), progress(140, 10.0)])
    speeds.events_of([progress(100, 10.0, job_id="new")])
    assert speeds.events_of([progress(140, 20.0, job_id="silent")]) == []
    assert speeds.events_of([progress(140, 20.0, job_id="silent")]) == []
    assert len(speeds._last) == 2


def test_a_worker_that_has_ended_is_forgotten():
    speeds = Speeds(wanted=True)
    speeds.events_of([progress(100, 0.0)])
    ended = WorkerReport(
        report_id="end", kind=ReportKind.EXITED, job_id="job-1", attempt=1, worker=0, cause=ExitCause.EXITED
    )
    speeds.events_of([ended])
    assert speeds.events_of([progress(140, 10.0)]) == []
