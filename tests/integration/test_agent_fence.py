"""The fence of the runner shim: its job ends when its agent has not reached the manager for so long."""

from __future__ import annotations

import os
import time

import pytest

from agent import attempt
from agent.attempt import EndCause
from tests.integration.shim_job import DEAF, Job, until

pytestmark = pytest.mark.integration


def test_a_job_whose_agent_lost_the_manager_is_killed(job: Job) -> None:
    job.lease.touch()
    end = job.order("sh", "-c", DEAF, fence_s=0.5).start().end()
    assert end.cause is EndCause.LOST
    assert end.message.startswith("fenced: the agent has had no contact")
    until(lambda: not job.processes(), "no process is left")


def test_a_job_does_not_begin_where_an_agent_comes_back_too_late(job: Job) -> None:
    job.lease.touch()
    os.utime(job.lease, (time.time() - 100.0,) * 2)
    end = job.order("sh", "-c", "echo ran", fence_s=60.0).start().end()
    assert (end.cause, job.output()) == (EndCause.LOST, "")
    assert end.message == "fenced before it was started: no contact with the manager for 100 s"
    assert not (job.folder / attempt.STARTING).exists()


def test_a_job_whose_lease_is_renewed_is_left_alone(job: Job) -> None:
    job.lease.touch()
    job.order("sh", "-c", "sleep 2; echo done", fence_s=1.0).start()
    while not (job.folder / attempt.EXIT).exists():
        os.utime(job.lease)
        time.sleep(0.05)
    assert (job.end().cause, job.output()) == (EndCause.EXITED, "done\n")
