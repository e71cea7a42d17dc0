"""What the manager is told, from what lies in an attempt's folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent import attempt
from agent.attempt import EndCause, Exit, Started
from agent.devices import WorkerKey
from agent.executor import Worker
from agent.reports import exit_report, progress_report, started_report
from manager.wire.agent_models import WorkerState
from placement.model import ExitCause, Profile

MODEL = "A100-SXM4-80GB"
PROFILE = Profile("p", {MODEL: 100.0})


@pytest.fixture
def worker(tmp_path: Path) -> Worker:
    return Worker(WorkerKey("job-1", 2, 0), tmp_path, None)


def test_a_start_is_told_once(worker: Worker) -> None:
    assert started_report(worker) is None
    attempt.write_started(worker.folder, Started(1, 12.5))
    report = started_report(worker)
    assert report is not None
    assert (report.report_id, report.at_s) == ("job-1/2/0/started", 12.5)
    worker.started_sent = True
    assert started_report(worker) is None


@pytest.mark.parametrize(
    ("lines", "profile", "model", "told"),
    [
        ("", PROFILE, MODEL, None),
        ("step=1 t=1\n", PROFILE, MODEL, (1, None, None)),
        ("step=1 t=1\nstep=51 t=2\n", PROFILE, MODEL, (51, 50.0, 2.0)),
        ("step=1 t=1\nstep=51 t=2\n", None, MODEL, (51, 50.0, None)),
        ("step=1 t=1\nstep=51 t=2\n", PROFILE, None, (51, 50.0, None)),
        ("step=1 t=1\nstep=51 t=2\n", PROFILE, "other", (51, 50.0, None)),
        ("step=0 t=0\nstep=999999999999999999 t=0.000001\n", PROFILE, MODEL, (10**18 - 1, None, 1e-22)),
    ],
)
def test_progress(
    worker: Worker,
    lines: str,
    profile: Profile | None,
    model: str | None,
    told: tuple[int, float | None, float | None] | None,
) -> None:
    (worker.folder / attempt.PROGRESS).write_text(lines)
    report = progress_report(worker, profile, model)
    if told is None:
        assert report is None
        return
    assert report is not None
    assert (report.step, report.steps_per_s) == told[:2]
    assert report.observed_slowdown == (None if told[2] is None else pytest.approx(told[2]))
    worker.sent_step = told[0]
    assert progress_report(worker, profile, model) is None


def test_a_program_without_times_is_timed_from_outside(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 100.0
    monkeypatch.setattr("agent.reports.time.monotonic", lambda: now_s)
    told = []
    for step, after_s in ((10, 0.0), (30, 2.0), (50, 2.0), (5, 1.0), (15, 2.0)):
        now_s += after_s
        (worker.folder / attempt.PROGRESS).write_text(f"step={step}\n")
        report = progress_report(worker, PROFILE, MODEL)
        assert report is not None
        told.append(report.steps_per_s)
    assert told == [None, 10.0, 10.0, None, 5.0]


@pytest.mark.parametrize(
    ("end", "lines", "served_s"),
    [
        (Exit(EndCause.EXITED, 0, "", 9.0, 4.5), "step=10\n", 4.5),  # paced: known
        (Exit(EndCause.EXITED, 0, "", 9.0, None), "step=10\n", 0.1),  # 10 steps of 100 a second
        (Exit(EndCause.STOPPED, -9, "x", 9.0, None), "", None),
        (Exit(EndCause.LAUNCH_FAILED, None, "cannot start", 9.0, None), "step=10\n", None),
        (Exit(EndCause.LOST, None, "a\0b", 9.0, None), "step=999999999999999999\n", None),  # absurd: unknown
    ],
)
def test_an_exit_is_told_as_it_was(worker: Worker, end: Exit, lines: str, served_s: float | None) -> None:
    (worker.folder / attempt.PROGRESS).write_text(lines)
    report = exit_report(worker, end, PROFILE, MODEL)
    assert (report.cause, report.exit_code, report.at_s) == (ExitCause(end.cause.value), end.exit_code, 9.0)
    assert report.message == end.message.replace("\0", " ")
    assert report.served_s == served_s
    assert report.report_id == "job-1/2/0/exited"


def test_the_state_follows_from_the_files(worker: Worker) -> None:
    states = [worker.state()]
    for name in (attempt.STARTED, attempt.STOP):
        (worker.folder / name).touch()
        states.append(worker.state())
    worker.end = Exit(EndCause.EXITED, 0, "", 1.0)
    states.append(worker.state())
    assert states == [WorkerState.STARTING, WorkerState.RUNNING, WorkerState.STOPPING, WorkerState.EXITED]


def test_the_shims_causes_are_the_cores() -> None:
    assert {cause.value for cause in EndCause} == {cause.value for cause in ExitCause}
