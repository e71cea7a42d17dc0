"""Parts of a manager for tests: a real SQLite file; a clock and a loop that are moved by hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from manager.leases import Leases, LeaseTimes
from manager.loop import CoreSettings, Loop
from manager.store import Store, StoredJob, Submission, sqlite_url
from manager.wire.agent_models import ReportKind, WorkerReport
from manager.wire.models import JobSpec, RequestSpec
from placement.lifecycle import JobState
from placement.model import ExitCause, Node
from placement.model.hardware import node_from_short_form


@dataclass(slots=True)
class HandClock:
    time_s: float = 1000.0

    def now_s(self) -> float:
        return self.time_s


def spec(**more: object) -> JobSpec:
    return JobSpec(**{"command": ("true",), **more})


def gpus(count: int, **more: object) -> RequestSpec:
    return RequestSpec(gpus=count, **more)


def node(node_id: str = "node-a", form: str = "4xA100-SXM4-80GB") -> Node:
    return node_from_short_form(form, node_id)


@dataclass(slots=True)
class Parts:
    """One manager without HTTP; :meth:`restart` is what follows a kill."""

    folder: Path
    clock: HandClock = field(default_factory=HandClock)
    times: LeaseTimes = field(default_factory=LeaseTimes)
    core: CoreSettings = field(default_factory=CoreSettings)
    store: Store = field(init=False)
    leases: Leases = field(init=False)
    loop: Loop = field(init=False)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.store = Store.open(sqlite_url(self.folder / "cotenant.db"), durable=False)
        self.store.steps.begin_epoch()
        self.leases = Leases(self.times)
        self.loop = Loop(self.store, self.core, self.clock, self.leases)

    def join(self, *nodes: Node) -> None:
        for each in nodes:
            self.store.intake.join(each, simulated=True)
        self.turn()

    def submit(self, key: str | None = None, **more: object) -> str:
        return self.store.intake.submit(Submission(spec(**more), self.clock.now_s(), key)).job_id

    def turn(self) -> None:
        while self.loop.run_once():
            pass

    def job(self, job_id: str) -> StoredJob:
        return self.store.queries.job(job_id)

    def state(self, job_id: str) -> JobState:
        return self.job(job_id).record.state

    def started(self, job_id: str, node_id: str = "node-a", worker: int = 0) -> None:
        self._report(node_id, job_id, worker, kind=ReportKind.STARTED)

    def exited(self, job_id: str, node_id: str = "node-a", worker: int = 0, **more: object) -> None:
        end = {"cause": ExitCause.EXITED, "exit_code": 0, **more}
        self._report(node_id, job_id, worker, kind=ReportKind.EXITED, **end)

    def _report(self, node_id: str, job_id: str, worker: int, **more: object) -> None:
        attempt = self.job(job_id).record.attempt
        name = f"{job_id}/{attempt}/{worker}/{more['kind']}"
        report = WorkerReport(
            report_id=name.replace("ReportKind.", ""), job_id=job_id, attempt=attempt, worker=worker, **more
        )
        self.store.intake.report(node_id, [report], self.clock.now_s())
        self.turn()
