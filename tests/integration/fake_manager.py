"""Stands in for the client of a manager in tests of the agent."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from agent.executor import FORGOTTEN
from agent.journal import Journal
from agent.loop import Agent
from agent.simulated import SimulatedDevices
from manager.wire.agent_models import (
    AgentCommand,
    CommandKind,
    Heartbeat,
    NodeReport,
    ReportKind,
    Welcome,
    WorkerReport,
)
from manager.wire.client import Client, WrongOffset
from manager.wire.models import AssignmentView, ProfileSpec, ShareView
from placement.model import CotenantError, Mode, StopCause
from tests.integration.shim_job import until


@dataclass
class FakeManager:
    """Keeps what it is told, and fails as it is told."""

    epoch: int = 1
    fence_s: float = 60.0
    outbox: list[AgentCommand] = field(default_factory=list)
    acked: list[int] = field(default_factory=list)
    reports: dict[str, WorkerReport] = field(default_factory=dict)
    logs: dict[tuple[str, int, int], bytes] = field(default_factory=dict)
    registered: list[NodeReport] = field(default_factory=list)
    beats: list[Heartbeat] = field(default_factory=list)
    profiles: list[ProfileSpec] = field(default_factory=list)
    failing: dict[str, CotenantError] = field(default_factory=dict)
    """What a call of that name raises instead of answering."""
    called: dict[str, int] = field(default_factory=dict)
    held_at_exit: dict[str, int] = field(default_factory=dict)
    """How much output was there when the exit was told."""

    def _call(self, name: str) -> None:
        self.called[name] = self.called.get(name, 0) + 1
        if name in self.failing:
            raise self.failing[name]

    def register(self, node_id: str, report: NodeReport) -> Welcome:
        self._call("register")
        self.registered.append(report)
        return self._welcome()

    def heartbeat(self, node_id: str, heartbeat: Heartbeat) -> Welcome:
        self._call("heartbeat")
        self.beats.append(heartbeat)
        return self._welcome()

    def _welcome(self) -> Welcome:
        return Welcome(epoch=self.epoch, lease_s=0.4, fence_s=self.fence_s, profiles=self.profiles)

    def commands(self, node_id: str, after: int, wait_s: float) -> list[AgentCommand]:
        self._call("commands")
        time.sleep(0.02)  # a long poll does not answer at once
        return [command for command in self.outbox if command.sequence > after]

    def ack(self, node_id: str, sequence: int) -> None:
        self._call("ack")
        self.acked.append(sequence)
        self.outbox = [command for command in self.outbox if command.sequence > sequence]

    def report(self, node_id: str, reports: Sequence[WorkerReport]) -> None:
        self._call("report")
        for report in reports:
            if report.message == FORGOTTEN and report.report_id in self.reports:
                continue  # the first one counts
            if report.kind is ReportKind.EXITED:
                self.held_at_exit[report.job_id] = len(self.log(report.job_id, report.attempt))
                assert report.report_id not in self.reports, "an exit was reported twice"
            self.reports[report.report_id] = report

    def append_log(self, node_id: str, worker: tuple[str, int, int], offset: int, data: bytes) -> int:
        self._call("append_log")
        held = self.logs.get(tuple(worker), b"")  # type: ignore[call-overload]
        if offset != len(held):
            raise WrongOffset("go on from there", len(held))
        self.logs[tuple(worker)] = held + data  # type: ignore[index]
        return len(held) + len(data)

    # What tests ask

    def exit_of(self, job_id: str, number: int = 1) -> WorkerReport:
        name = f"{job_id}/{number}/0/exited"
        until(lambda: name in self.reports, f"{name} is reported")
        return self.reports[name]

    def log(self, job_id: str, number: int = 1) -> str:
        return self.logs.get((job_id, number, 0), b"").decode()


SHARE = ShareView(gpu_uuid="GPU-n-0", mode=Mode.TIMESLICE, compute_milli=500, memory_bytes=1 << 30)


def start(sequence: int, script: str, job_id: str = "job-1", **fields: object) -> AgentCommand:
    return AgentCommand.model_validate(
        {
            "sequence": sequence,
            "epoch": 1,
            "kind": CommandKind.START,
            "job_id": job_id,
            "attempt": 1,
            "worker": 0,
            "command": ["sh", "-c", script],
            "assignment": AssignmentView(worker=0, node_id="n", shares=[SHARE]),
            **fields,
        }
    )


def stop(sequence: int, job_id: str = "job-1", grace_s: float = 0.0) -> AgentCommand:
    return AgentCommand(
        sequence=sequence,
        epoch=1,
        kind=CommandKind.STOP,
        job_id=job_id,
        attempt=1,
        worker=0,
        cause=StopCause.CANCELLED,
        grace_s=grace_s,
    )


@contextmanager
def agent_on(manager: FakeManager, data_dir: Path) -> Iterator[Agent]:
    journal = Journal(data_dir)
    devices = SimulatedDevices.named("2xA100-SXM4-80GB", "n", "additive")
    agent = Agent(devices.node("n"), cast(Client, manager), journal, devices)
    thread = threading.Thread(target=agent.run, args=(random.Random(1),))
    thread.start()
    try:
        yield agent
    finally:
        agent.stop()
        thread.join()
        journal.close()


def folder_of(data_dir: Path, job_id: str = "job-1") -> Path:
    return data_dir / "attempts" / f"{job_id}.1.0"
