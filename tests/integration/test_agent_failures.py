"""What fails, fails alone and says why: disks, shares, outputs, reports, the agent's own mistakes."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agent import attempt, leftovers, uplink
from agent.executor import Worker
from agent.partitioner import Partitioner, Prepared
from agent.simulated import SimulatedDevices
from manager.wire.agent_models import (
    ReportKind,
    WorkerReport,
    WorkerState,
)
from manager.wire.models import AssignmentView
from placement.model import (
    ExitCause,
    InvalidInput,
    Mode,
    NotFound,
    OperationFailed,
    Share,
)
from tests.integration.fake_manager import SHARE, FakeManager, agent_on, folder_of, start, stop
from tests.integration.shim_job import made, until

pytestmark = pytest.mark.integration


@pytest.fixture
def manager() -> FakeManager:
    return FakeManager()


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "agent"


class PickyManager(FakeManager):
    """Refuses reports of job-1 of one kind: with details, or in any form."""

    def __init__(self, kind: ReportKind, *, bare_too: bool = False) -> None:
        super().__init__()
        self.kind, self.bare_too = kind, bare_too
        self.refused = 0

    def report(self, node_id: str, reports: Sequence[WorkerReport]) -> None:
        for report in reports:
            if report.job_id == "job-1" and report.kind is self.kind and (self.bare_too or report.at_s):
                self.refused += 1
                raise InvalidInput("job-1 is not to my taste")
        super().report(node_id, reports)


def test_an_end_that_is_refused_is_neither_forgotten_nor_holds_up_the_others(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.uplink.REFUSED_AGAIN_S", 0.2)
    manager = PickyManager(ReportKind.EXITED, bare_too=True)
    manager.outbox = [start(1, "exit 3"), start(2, "exit 4", "job-2")]
    with agent_on(manager, data_dir):
        assert manager.exit_of("job-2").exit_code == 4
        until(lambda: manager.refused > 5, "it is tried again")
        assert folder_of(data_dir).exists()
        assert [worker.job_id for worker in manager.beats[-1].workers] == ["job-1"]
    with agent_on(manager, data_dir):
        seen = manager.refused
        until(lambda: manager.refused > seen, "the next agent knows of it")
        manager.bare_too = False
        assert manager.exit_of("job-1").exit_code == 3
        until(lambda: not folder_of(data_dir).exists(), "it is tidied away")


def test_an_end_that_is_refused_is_told_without_details(data_dir: Path) -> None:
    manager = PickyManager(ReportKind.EXITED)
    manager.outbox = [start(1, "exit 3")]
    with agent_on(manager, data_dir):
        report = manager.exit_of("job-1")
        until(lambda: not folder_of(data_dir).exists(), "it is tidied away")
    assert (report.cause, report.exit_code) == (ExitCause.EXITED, 3)
    assert (report.message, report.served_s, report.at_s) == ("", None, None)


@pytest.mark.parametrize("kind", [ReportKind.STARTED, ReportKind.PROGRESS])
def test_a_lesser_report_that_is_refused_is_passed_over(data_dir: Path, kind: ReportKind) -> None:
    manager = PickyManager(kind, bare_too=True)
    manager.outbox = [start(1, "echo step=1 >> $COTENANT_PROGRESS; exit 3")]
    with agent_on(manager, data_dir):
        assert manager.exit_of("job-1").exit_code == 3
    assert manager.refused > 0


FORGED = {
    "words for a code": '{"cause": "exited", "exit_code": "x", "message": "", "at_s": 1.0}',
    "no time": '{"cause": "exited", "exit_code": 0, "message": "", "at_s": NaN}',
    "no object": "[]",
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED.keys())
def test_an_exit_file_that_a_job_wrote_silences_nobody(
    manager: FakeManager, data_dir: Path, forged: str
) -> None:
    folder = '"${COTENANT_PROGRESS%/*}"'
    script = f"""echo '{forged}' > {folder}/{attempt.EXIT}; echo '{forged}' > {folder}/{attempt.STARTED}
        echo written; exec sleep 1000"""
    manager.outbox = [start(1, script)]
    with agent_on(manager, data_dir):
        until(lambda: manager.log("job-1"), "it is written")
        manager.outbox = [start(2, "exit 4", "job-2")]
        assert manager.exit_of("job-2").exit_code == 4
        manager.outbox = [stop(3)]
        manager.exit_of("job-1")


def test_an_end_that_a_job_wrote_itself_is_believed_only_when_its_shim_is_gone(
    manager: FakeManager, data_dir: Path
) -> None:
    end = '{"cause": "exited", "exit_code": 0, "message": "", "at_s": 1.0}'
    manager.outbox = [
        start(
            1,
            f"""echo '{end}' > ${{COTENANT_PROGRESS%/*}}/{attempt.EXIT}; read line < $FIFO; exit 9""",
            env={"FIFO": str(data_dir / "fifo")},
        )
    ]
    data_dir.mkdir(mode=0o700)
    os.mkfifo(data_dir / "fifo")
    with agent_on(manager, data_dir):
        until((folder_of(data_dir) / attempt.EXIT).exists, "it is written")
        seen = len(manager.beats)
        until(lambda: len(manager.beats) > seen + 5, "the agent has looked")
    with agent_on(manager, data_dir):  # nor does the next agent believe it
        seen = len(manager.beats)
        until(lambda: len(manager.beats) > seen + 5, "the agent has looked")
        assert [worker.state for worker in manager.beats[-1].workers] == [WorkerState.RUNNING]
        assert "job-1/1/0/exited" not in manager.reports
        (data_dir / "fifo").write_text("go\n")
        assert manager.exit_of("job-1").exit_code == 9


@pytest.mark.parametrize("name", ["_output_after", "started_report", "progress_report", "exit_report"])
def test_a_worker_that_cannot_be_told_of_fails_alone(
    manager: FakeManager,
    data_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    name: str,
) -> None:
    whole = getattr(uplink, name)

    def stumbling(worker: Worker, *rest: Any) -> Any:
        if worker.key.job_id == "job-1":
            raise ZeroDivisionError("a mistake")
        return whole(worker, *rest)

    monkeypatch.setattr(uplink, name, stumbling)
    manager.outbox = [start(1, "exit 0"), start(2, "exit 4", "job-2")]
    with agent_on(manager, data_dir):
        assert manager.exit_of("job-2").exit_code == 4
        seen = manager.called["heartbeat"]
        until(lambda: manager.called["heartbeat"] > seen + 3, "it goes on")
        assert caplog.text.count("job-1.1.0: cannot be told of") == 1
        assert folder_of(data_dir).exists()


def test_one_output_that_cannot_be_taken_holds_up_no_other_job(manager: FakeManager, data_dir: Path) -> None:
    whole = manager.append_log

    def picky(node_id: str, worker: tuple[str, int, int], offset: int, data: bytes) -> int:
        if worker[0] == "job-1" and picking:
            raise OperationFailed("the disk for logs is full")
        return whole(node_id, worker, offset, data)

    picking = True
    manager.append_log = picky  # type: ignore[method-assign]
    manager.outbox = [start(1, "echo one"), start(2, "echo two; exit 4", "job-2")]
    with agent_on(manager, data_dir):
        assert manager.exit_of("job-2").exit_code == 4
        assert "job-1/1/0/exited" not in manager.reports
        picking = False
        manager.exit_of("job-1")
    assert manager.log("job-1") == "one\n"


def test_an_output_that_is_refused_for_long_is_given_up_and_the_exit_says_so(
    manager: FakeManager, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.uplink.GIVE_UP_S", 0.5)
    manager.failing["append_log"] = NotFound("no such job")
    manager.outbox = [start(1, "echo hello; exit 3")]
    with agent_on(manager, data_dir):
        report = manager.exit_of("job-1")
    assert (report.exit_code, report.message) == (3, "its output is not complete: no such job")


@pytest.mark.parametrize(
    ("share", "reason"),
    [
        ({"mode": Mode.MIG, "mig_profile": "9g.1gb", "mig_start": 0}, "cannot partition"),
        ({"mode": Mode.MIG}, "MIG without profile"),
    ],
)
def test_a_share_that_cannot_be_made_is_a_failure_to_start(
    manager: FakeManager, data_dir: Path, share: dict[str, object], reason: str
) -> None:
    assignment = AssignmentView(worker=0, node_id="n", shares=[SHARE.model_copy(update=share)])
    manager.outbox = [start(1, "exit 0", assignment=assignment)]
    with agent_on(manager, data_dir):
        report = manager.exit_of("job-1")
    assert report.cause is ExitCause.LAUNCH_FAILED
    assert reason in report.message


def test_a_full_disk_is_a_failure_to_start_and_says_so(
    manager: FakeManager, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(attempt, "write_order", full)
    manager.outbox = [start(1, "exit 0")]
    with agent_on(manager, data_dir):
        report = manager.exit_of("job-1")
        until(lambda: manager.acked == [1], "the command is acknowledged")
    assert report.cause is ExitCause.LAUNCH_FAILED
    assert report.message.startswith("no room for logs: No space left on device")


def test_a_command_that_makes_the_agent_stumble_fails_alone(
    manager: FakeManager, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ensure = Partitioner.ensure

    def stumbling(self: Partitioner, shares: Sequence[Share]) -> Prepared:
        if not shares:
            raise ZeroDivisionError("a mistake")
        return ensure(self, shares)

    monkeypatch.setattr(Partitioner, "ensure", stumbling)
    manager.outbox = [start(1, "exit 0", assignment=None), start(2, "exit 4", "job-2")]
    with agent_on(manager, data_dir):
        assert manager.exit_of("job-2").exit_code == 4
        report = manager.exit_of("job-1")
    assert (report.cause, report.message) == (
        ExitCause.LAUNCH_FAILED,
        "cannot start: ZeroDivisionError: a mistake",
    )


def test_gpus_that_cannot_be_read_do_not_make_the_node_seem_dead(
    manager: FakeManager, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("not an error of the driver's")

    monkeypatch.setattr(SimulatedDevices, "telemetry", broken)
    with agent_on(manager, data_dir):
        until(lambda: len(manager.beats) > 1, "it still shows signs of life")
    assert not manager.beats[-1].telemetry


@pytest.mark.parametrize("removed", ["", "/*"], ids=["the folder", "what is in it"])
def test_a_job_whose_folder_is_removed_is_killed_and_that_is_told(
    manager: FakeManager, data_dir: Path, tmp_path: Path, removed: str
) -> None:
    manager.outbox = [
        start(1, f"(setsid sleep 1000 &) ; echo $$ > {tmp_path}/pid; echo ready; exec sleep 1000")
    ]
    with agent_on(manager, data_dir):
        until(lambda: manager.log("job-1"), "it runs")
        progress = str(folder_of(data_dir) / attempt.PROGRESS)
        assert len(leftovers.marked(progress)) == 2
        subprocess.run(f"rm -rf {folder_of(data_dir)}{removed}", shell=True, check=True)
        report = manager.exit_of("job-1")
        assert leftovers.marked(progress) == [], "it goes on"
    assert (report.cause, report.exit_code) == (ExitCause.EXITED, None)
    assert "removed; what was left of the job has been killed" in report.message


def test_a_job_ends_with_its_folder_even_without_an_agent(tmp_path: Path) -> None:
    job = made(tmp_path / "attempt").shell("echo ready; exec sleep 1000").start().says("ready")
    assert job.processes()
    shutil.rmtree(job.folder)
    until(lambda: not job.processes(), "it is killed")
    assert not job.folder.exists()
