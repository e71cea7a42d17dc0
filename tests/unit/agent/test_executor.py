"""What the executor does between its shims, the journal and the devices."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent import attempt
from agent.attempt import EndCause, Order
from agent.devices import WorkerKey
from agent.executor import Executor
from agent.journal import Journal
from agent.simulated import SimulatedDevices
from manager.wire.agent_models import AgentCommand, CommandKind, WorkerState
from manager.wire.models import AssignmentView, ProfileSpec, ShareView
from placement.model import Mode, OperationFailed

SHARE = ShareView(gpu_uuid="GPU-n-0", mode=Mode.TIMESLICE, compute_milli=500)
PROFILE = ProfileSpec(name="p", steps_per_s={"*": 10.0}, sm_milli=400, dram_milli=0)


def start(job_id: str) -> AgentCommand:
    return AgentCommand(
        sequence=1,
        epoch=1,
        kind=CommandKind.START,
        job_id=job_id,
        attempt=1,
        worker=0,
        command=("true",),
        assignment=AssignmentView(worker=0, node_id="n", shares=(SHARE,)),
        profile=PROFILE,
    )


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    journal = Journal(tmp_path / "agent")
    yield journal
    journal.close()


def speed_of(journal: Journal, job_id: str) -> float:
    return float((journal.data_dir / "attempts" / f"{job_id}.1.0" / attempt.SPEED).read_text())


def test_neighbours_of_a_worker_that_could_not_start_get_their_speed_back(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    speeds = []

    def launch(folder: Path) -> None:
        speeds.append(speed_of(journal, "job-1"))
        if folder.name.startswith("job-2"):
            raise OperationFailed("no room for logs: No space left on device")

    monkeypatch.setattr("agent.executor.launch", launch)
    executor = Executor(journal, SimulatedDevices.named("1xA100-SXM4-80GB", "n", "additive"))
    executor.tend()
    for job_id in ("job-1", "job-2"):
        executor.start(start(job_id))
    executor.tend()
    assert speeds == [1.0, pytest.approx(1 / (1 + 1.12 * 0.4), abs=1e-5)]
    assert speed_of(journal, "job-1") == 1.0


def test_a_start_of_what_is_over_and_forgotten_is_answered_with_an_end(journal: Journal) -> None:
    command = start("job-1")
    journal.begin(command, Order("job-1", 1, 0, ("true",), {}))
    journal.finish(WorkerKey("job-1", 1, 0))
    executor = Executor(journal, SimulatedDevices.named("1xA100-SXM4-80GB", "n", "additive"))
    executor.start(command)
    (worker,) = executor.workers()
    assert worker.end is not None
    assert (worker.end.cause, worker.state()) == (EndCause.LOST, WorkerState.EXITED)
    executor.finish(worker)
    assert (executor.workers(), journal.entries()) == ([], [])
