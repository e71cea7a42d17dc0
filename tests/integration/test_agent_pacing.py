"""The runner shim slows a real program down by what was asked, and costs next to nothing itself."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from agent import attempt
from agent.attempt import EndCause
from tests.integration.shim_job import Job, until

pytestmark = pytest.mark.integration


STEPS = """
import sys, time
from cotenant.progress import report_progress
for step in range(1, int(sys.argv[1]) + 1):
    {body}
    report_progress(step)
"""
SLEEPING = STEPS.format(body="time.sleep(0.01)")


def steps(job: Job) -> list[tuple[int, float | None]]:
    lines = (job.folder / attempt.PROGRESS).read_bytes().splitlines()
    return [entry for entry in map(attempt.parse_progress, lines) if entry is not None]


def rate(job: Job) -> float:
    (first, from_s), *_, (last, to_s) = steps(job)
    assert from_s is not None
    assert to_s is not None
    return (last - first) / (to_s - from_s)


def test_a_program_that_sleeps_through_its_steps_is_slowed_by_what_was_asked(tmp_path: Path) -> None:
    # Side by side, so that a busy machine slows all of them alike; solo is the yardstick.
    speeds = {"solo": 1.0, "half": 0.5, "third": 1 / 3}
    jobs = {}
    for name, speed in speeds.items():
        folder = tmp_path / name
        folder.mkdir()
        jobs[name] = Job(folder, tmp_path / "lease").order(sys.executable, "-c", SLEEPING, "200")
        attempt.write_speed(folder, speed)
        jobs[name].start()
    for name, job in jobs.items():
        end = job.end()
        assert end.served_s is not None, name
        assert steps(job)[-1][0] == 200
        assert rate(jobs["solo"]) / rate(job) == pytest.approx(1 / speeds[name], rel=0.12)


def test_a_speed_that_changes_is_followed(job: Job) -> None:
    job.order(sys.executable, "-c", SLEEPING, "100000")
    attempt.write_speed(job.folder, 0.02)
    job.start()
    until((job.folder / attempt.PROGRESS).exists, "the program reports")
    attempt.write_speed(job.folder, 1.0)
    seen = len(steps(job))
    until(lambda: len(steps(job)) > seen + 50, "it runs at full speed again")
    assert _state(job.pid()) != "T"
    attempt.write_speed(job.folder, 0.01)
    until(lambda: _state(job.pid()) == "T", "it is held again")


@pytest.mark.parametrize("nonsense", ["", "fast", "nan", "-1", "1e999"])
def test_nonsense_for_a_speed_does_not_hurt(job: Job, nonsense: str) -> None:
    (job.folder / attempt.SPEED).write_text(nonsense)
    end = job.shell("echo done").start().end()
    assert (end.cause, end.exit_code, job.output()) == (EndCause.EXITED, 0, "done\n")


def test_an_idle_shim_costs_next_to_nothing(job: Job) -> None:
    attempt.write_speed(job.folder, 1.0)
    job.shell("sleep 1000").start()
    shim = job.shim()
    before_s, begun_s = _cpu_s(shim), time.monotonic()
    until(lambda: time.monotonic() - begun_s > 3.0, "three seconds are over")
    assert (_cpu_s(shim) - before_s) / (time.monotonic() - begun_s) < 0.01


def test_a_pipe_in_place_of_the_progress_file_holds_up_nothing(job: Job) -> None:
    os.mkfifo(job.folder / attempt.PROGRESS)
    attempt.write_speed(job.folder, 0.5)
    assert job.shell("sleep 0.3; echo done").start().end().exit_code == 0


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
