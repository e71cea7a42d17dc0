"""The agent dies between any two steps, the shim at any moment: a job runs once and is told of once."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from agent import attempt
from agent.attempt import EndCause
from agent.contact import Contact
from agent.executor import FORGOTTEN, Executor
from agent.journal import Journal
from agent.launch import launch
from agent.simulated import SimulatedDevices
from agent.uplink import Uplink, Way
from manager.wire.agent_models import AgentCommand, CommandKind, ReportKind, WorkerReport
from manager.wire.client import Client
from tests.integration.fake_manager import FakeManager
from tests.integration.shim_job import end_all, made, until

pytestmark = pytest.mark.integration

MOST_STEPS = 200


class AgentDied(BaseException):
    """Not an Exception: nothing on the way may catch it."""


class Steps:
    """Counts the steps of an agent, and ends it before the one that was chosen."""

    def __init__(self) -> None:
        self.left = 0
        self.armed = False

    def take(self) -> None:
        if self.armed:
            if self.left == 0:
                self.armed = False
                raise AgentDied
            self.left -= 1

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def stepped(*arguments: Any, **named: Any) -> Any:
            self.take()
            result = function(*arguments, **named)
            self.take()
            return result

        return stepped


class PatientManager(FakeManager):
    """Takes the same exit again, as the manager does, if it says the same."""

    def report(self, node_id: str, reports: Sequence[WorkerReport]) -> None:
        for report in reports:
            if report.message == FORGOTTEN:
                continue
            known = self.reports.pop(report.report_id, None)
            if known is not None and report.kind is ReportKind.EXITED:
                assert known == report
        super().report(node_id, reports)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    steps = Steps()
    for owner, name in (
        (attempt, "write_whole"),
        (attempt, "write_order"),
        (attempt, "write_speed"),
        (attempt, "write_exit"),
        (attempt, "sync_folder"),
        (attempt, "request_stop"),
        (Journal, "begin"),
        (Journal, "entomb"),
        (Journal, "finish"),
        (Path, "rename"),
        (Path, "touch"),
        (PatientManager, "report"),
        (PatientManager, "append_log"),
    ):
        monkeypatch.setattr(owner, name, steps.around(getattr(owner, name)))
    monkeypatch.setattr("agent.executor.launch", steps.around(launch))
    return steps


def live(manager: FakeManager, data_dir: Path, commands: list[AgentCommand]) -> None:
    """One life of an agent: it does its commands, and stays until all is told and tidied away."""
    journal = Journal(data_dir)
    try:
        executor = Executor(journal, SimulatedDevices.named("1xA100-SXM4-80GB", "n", "none"))
        uplink = Uplink(Way(cast(Client, manager), "n", Contact(journal)), executor, {})
        for command in commands:
            if command.kind is CommandKind.START:
                executor.start(command)
            else:
                executor.stop(command)

        def done() -> bool:
            executor.tend()
            uplink.send()
            return not executor.workers()

        until(done, "everything is told")
    finally:
        journal.close()


def lives(steps: Steps, manager: FakeManager, data_dir: Path, commands: list[AgentCommand]) -> bool:
    """Let an agent die before step ``steps.left``, and another one go on; whether it came that far."""
    steps.armed = True
    try:
        live(manager, data_dir, commands)
    except AgentDied:
        live(manager, data_dir, commands)
        return True
    finally:
        steps.armed = False
    return False


def command(kind: CommandKind, script: str = "") -> AgentCommand:
    return AgentCommand(
        sequence=1 if kind is CommandKind.START else 2,
        epoch=1,
        kind=kind,
        job_id="job-1",
        attempt=1,
        worker=0,
        command=("sh", "-c", script),
        grace_s=0.0,
    )


@pytest.mark.timeout(120)
def test_an_agent_may_die_before_any_step(steps: Steps, tmp_path: Path) -> None:
    for number in range(MOST_STEPS):
        manager, folder = PatientManager(), tmp_path / str(number)
        folder.mkdir()
        steps.left = number
        script = f"echo run >> {folder}/runs; echo hello; exit 3"
        died = lives(steps, manager, folder / "agent", [command(CommandKind.START, script)])
        report = manager.exit_of("job-1")
        assert (folder / "runs").read_text() == "run\n", f"dead before step {number}"
        assert (report.exit_code, manager.log("job-1")) == (3, "hello\n"), f"dead before step {number}"
        if not died:
            assert number > 15
            return
    pytest.fail("the agent takes more steps than expected")


@pytest.mark.timeout(120)
def test_an_agent_that_is_told_to_stop_a_job_may_die_before_any_step(steps: Steps, tmp_path: Path) -> None:
    commands = [command(CommandKind.START, "exec sleep 1000"), command(CommandKind.STOP)]
    for number in range(MOST_STEPS):
        manager = PatientManager()
        steps.left = number
        died = lives(steps, manager, tmp_path / str(number), commands)
        assert manager.exit_of("job-1").cause.name == "STOPPED", f"dead before step {number}"
        if not died:
            assert number > 15
            return
    pytest.fail("the agent takes more steps than expected")


@pytest.mark.parametrize("seed", range(12))
def test_a_shim_may_die_at_any_moment(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    job = made(tmp_path / "attempt")
    job.shell(f"echo run >> {tmp_path}/runs; echo hello; sleep 0.05; exit 3").start()
    time.sleep(draw.uniform(0.0, 0.12))  # the moment of its death, not a wait for something
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and _is_shim_of(entry, job.folder):
            os.kill(int(entry.name), signal.SIGKILL)
    until(lambda: not attempt.has_shim(job.folder), "the shim is gone")
    job.start()
    end = job.end()
    runs = (tmp_path / "runs").read_text() if (tmp_path / "runs").exists() else ""
    assert runs in ("", "run\n")
    assert end.cause is EndCause.EXITED
    if end.exit_code == 3:
        assert (runs, job.output()) == ("run\n", "hello\n")
    else:
        assert (end.exit_code, end.message) == (-signal.SIGKILL, "the runner of this job was killed")
    until(lambda: not job.processes(), "no process is left")
    end_all(job)


def _is_shim_of(entry: Path, folder: Path) -> bool:
    try:
        arguments = (entry / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"-c" in arguments and str(folder).encode() in arguments
