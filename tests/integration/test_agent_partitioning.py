"""A GPU that cannot be cut, because its driver or its daemon hangs, holds up its own workers alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent import attempt
from agent.journal import COMMAND, Journal
from agent.simulated import SimulatedDevices
from manager.wire.agent_models import AgentCommand, WorkerState
from manager.wire.models import AssignmentView, ShareView
from placement.model import ExitCause, Mode
from tests.integration.fake_manager import FakeManager, agent_on, folder_of, start, stop
from tests.integration.shim_job import until

pytestmark = pytest.mark.integration
STUCK, WELL = "GPU-n-0", "GPU-n-1"
ENSURE = SimulatedDevices.ensure_mig


@pytest.fixture
def manager() -> FakeManager:
    return FakeManager()


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "agent"


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Calls for one GPU hang until this is set."""
    event = threading.Event()

    def ensure_mig(self: SimulatedDevices, gpu_uuid: str, profile: str, start: int) -> str:
        if gpu_uuid == STUCK:
            event.wait(60.0)
        return ENSURE(self, gpu_uuid, profile, start)

    monkeypatch.setattr(SimulatedDevices, "ensure_mig", ensure_mig)
    monkeypatch.setattr("agent.loop.STARTS_END_S", 0.1)
    yield event
    event.set()


def mig(sequence: int, script: str, gpu_uuid: str) -> AgentCommand:
    share = ShareView(
        gpu_uuid=gpu_uuid, mode=Mode.MIG, compute_milli=142, mig_profile="1g.10gb", mig_start=sequence % 7
    )
    assignment = AssignmentView(worker=0, node_id="n", shares=(share,))
    return start(sequence, script, f"job-{sequence}", assignment=assignment)


def held(manager: FakeManager) -> dict[str, WorkerState]:
    return {worker.job_id: worker.state for worker in manager.beats[-1].workers}


def test_commands_for_other_gpus_are_done(
    manager: FakeManager, data_dir: Path, hanging: threading.Event
) -> None:
    manager.outbox = [mig(n, "exit 0", STUCK) for n in range(1, 6)]  # more than are started at once
    manager.outbox += [
        mig(6, "exit 6", WELL),
        start(7, "exit 7", "job-7"),  # a share of the stuck GPU for which nothing has to be made
        start(8, "exit 8", "job-8", assignment=None),
    ]
    with agent_on(manager, data_dir):
        assert [manager.exit_of(f"job-{n}").exit_code for n in (6, 7, 8)] == [6, 7, 8]
        until(lambda: manager.acked, "the commands are acknowledged")
        waiting = {f"job-{n}": WorkerState.STARTING for n in range(1, 6)}
        until(lambda: held(manager) == waiting, "the others wait")
        hanging.set()
        assert [manager.exit_of(f"job-{n}").exit_code for n in range(1, 6)] == [0] * 5


def test_a_worker_that_waits_for_its_gpu_can_be_stopped(
    manager: FakeManager, data_dir: Path, tmp_path: Path, hanging: threading.Event
) -> None:
    manager.outbox = [mig(1, f"echo run >> {tmp_path}/runs", STUCK), mig(2, "exit 2", STUCK)]
    with agent_on(manager, data_dir):
        until(lambda: manager.acked == [2], "the commands are acknowledged")
        manager.outbox = [stop(3, grace_s=1000.0)]
        report = manager.exit_of("job-1")
        until(lambda: not folder_of(data_dir).exists(), "it is tidied away")
        hanging.set()
        assert manager.exit_of("job-2").exit_code == 2  # it comes after the one that was stopped
    assert (report.cause, report.message) == (ExitCause.STOPPED, "cancelled")
    assert not (tmp_path / "runs").exists()
    assert not folder_of(data_dir).exists()


def test_the_next_agent_starts_what_its_predecessor_could_not(
    manager: FakeManager, data_dir: Path, hanging: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager.outbox = [mig(1, "echo $CUDA_VISIBLE_DEVICES $NAME; exit 3", STUCK)]
    manager.outbox[0].env["NAME"] = "value"
    with agent_on(manager, data_dir):
        until(lambda: manager.acked == [1], "the command is acknowledged")
    order = attempt.read_order(folder_of(data_dir))
    assert order is not None
    assert (order.fence_s, dict(order.env)) == (manager.fence_s, {})
    monkeypatch.setattr(SimulatedDevices, "ensure_mig", ENSURE)  # the first agent's call hangs on
    with agent_on(manager, data_dir):
        assert manager.exit_of("job-1").exit_code == 3
    visible, name = manager.log("job-1").split()
    assert visible.startswith("MIG-")
    assert name == "value"


def test_an_order_that_was_never_completed_and_lost_its_command_is_a_failure_to_start(
    manager: FakeManager, data_dir: Path, tmp_path: Path
) -> None:
    script = f"echo run >> {tmp_path}/runs"
    journal = Journal(data_dir)
    folder = journal.begin(mig(1, script, STUCK), attempt.Order("job-1", 1, 0, ("sh", "-c", script), {}))
    (folder / COMMAND).write_text("{")
    journal.close()
    with agent_on(manager, data_dir):
        report = manager.exit_of("job-1")
    assert (report.cause, report.message) == (
        ExitCause.LAUNCH_FAILED,
        "cannot start: its command cannot be read",
    )
    assert not (tmp_path / "runs").exists()
