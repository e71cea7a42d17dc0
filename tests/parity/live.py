"""The manager's real loop on a real SQLite file, under a fake clock, with an executor that obeys at once."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from manager.leases import Leases, LeaseTimes
from manager.loop import CoreSettings, Loop
from manager.store import OutboxEntry, PendingCommand, Store, StoreFailed, Submission, sqlite_url
from manager.wire.agent_models import CommandKind, ReportKind, WorkerReport
from manager.wire.models import JobSpec, RequestSpec
from placement.decision_log import lines
from placement.model import ExitCause, Node, Profile
from placement.policies import policy_named
from placement.scheduler import Step
from placement.trace import TraceRow


@dataclass(slots=True)
class FakeClock:
    time_s: float = 0.0

    def now_s(self) -> float:
        return self.time_s


@dataclass(slots=True)
class _Run:
    """One job on the fake devices; everybody runs at solo speed."""

    remaining_s: float
    workers: list[OutboxEntry] = field(default_factory=list)
    since_s: float = 0.0
    served_s: float = 0.0
    ticket: int = -1
    ending: int = 0

    def settle(self, now_s: float) -> None:
        passed_s = now_s - self.since_s
        self.since_s = now_s
        self.served_s += passed_s
        self.remaining_s = max(self.remaining_s - passed_s, 0.0)


@dataclass(frozen=True, slots=True)
class Scenario:
    rows: Sequence[TraceRow]
    nodes: Sequence[Node]
    profiles: Sequence[Profile]
    core: CoreSettings


class LiveRun:
    """Replays a scenario; ``disturb`` is called before each turn and may restart the manager."""

    def __init__(
        self, folder: Path, scenario: Scenario, disturb: Callable[[LiveRun], None] | None = None
    ) -> None:
        self.decision_log: list[str] = []
        self.clock = FakeClock()
        self._url = sqlite_url(folder / "cotenant.db")
        self._scenario = scenario
        self._disturb = disturb or (lambda _run: None)
        self._durations = {row.job_id: row.duration_s or 0.0 for row in scenario.rows}
        self._runs: dict[str, _Run] = {}
        self._completions: list[tuple[float, int, str]] = []
        self._tickets = itertools.count()
        self._reports = itertools.count()
        self.start()

    def start(self) -> None:
        """Start a manager on the store, as after a crash of the one before."""
        self.store = Store.open(self._url, durable=False)
        self.store.steps.begin_epoch()
        leases = Leases(LeaseTimes(lease_s=1e9, fence_s=1e9))
        self.loop = Loop(self.store, self._scenario.core, self.clock, leases)
        self.loop.listeners.step = self.note

    def crash(self) -> None:
        """Lose everything that is not in the store, and start again."""
        self.store.close()
        self.start()

    def replay(self) -> list[str]:
        """Let everything happen; gives the decision log."""
        for node in self._scenario.nodes:
            self.store.intake.join(node, simulated=True)
        for profile in self._scenario.profiles:
            self.store.intake.define_profile(profile)
        self._settle()
        arrivals = list(self._scenario.rows)
        while arrivals or self._completions:
            self.clock.time_s = min(self._moments(arrivals))
            while arrivals and arrivals[0].submit_s <= self.clock.time_s:
                self._submit(arrivals.pop(0))
            while self._completions and self._completions[0][0] <= self.clock.time_s:
                self._complete(heapq.heappop(self._completions))
            self._settle()
        return self.decision_log

    def turn(self) -> bool:
        """One turn of the loop; one whose transaction failed may have happened all the same."""
        self._disturb(self)
        try:
            return self.loop.run_once()
        except StoreFailed:
            return True

    def _moments(self, arrivals: Sequence[TraceRow]) -> Iterator[float]:
        if arrivals:
            yield arrivals[0].submit_s
        if self._completions:
            yield self._completions[0][0]

    def note(self, step: Step, now_s: float) -> None:
        """Take a step that has happened into the log."""
        self.decision_log += lines(step, now_s)

    def _settle(self) -> None:
        """Turn until nothing is left to do at this moment; then those that were started run on."""
        fresh: list[str] = []
        while self.turn():
            fresh += self._obey()
        for job_id in fresh:
            run = self._runs[job_id]
            if run.workers:
                run.ticket = next(self._tickets)
                heapq.heappush(self._completions, (self.clock.time_s + run.remaining_s, run.ticket, job_id))

    def _submit(self, row: TraceRow) -> None:
        known = policy_named(self._scenario.core.policy).knows_durations
        spec = JobSpec(
            command=("true",),
            tenant=row.tenant,
            workers=row.workers,
            profile=row.profile,
            request=RequestSpec.of(row.request),
            duration_s=row.duration_s if known else None,
        )
        receipt = self.store.intake.submit(Submission(spec, self.clock.now_s(), key=row.job_id))
        assert receipt.job_id == row.job_id

    def _complete(self, completion: tuple[float, int, str]) -> None:
        _at_s, ticket, job_id = completion
        run = self._runs[job_id]
        if ticket != run.ticket:
            return
        run.settle(self.clock.time_s)
        for entry in run.workers:
            self._report(entry, cause=ExitCause.EXITED, exit_code=0, served_s=run.served_s)
        run.workers = []

    def _obey(self) -> list[str]:
        """Do what the agents are told and report it, all ends first; gives the jobs that were started."""
        starts: dict[str, list[PendingCommand]] = {}
        commands = self._fetch()
        stopped = {
            each.entry.job_id: each.entry.attempt for each in commands if each.entry.kind is CommandKind.STOP
        }
        for command in commands:
            if command.entry.kind is CommandKind.START:
                starts.setdefault(command.entry.job_id, []).append(command)
            else:
                self._stop(command)
        for job_id, workers in starts.items():
            run = self._runs.setdefault(job_id, _Run(self._durations[job_id]))
            attempt = workers[0].entry.attempt
            if stopped.get(job_id) != attempt:  # else it was started and stopped in one step, and never ran
                run.since_s, run.served_s = self.clock.time_s, 0.0
                run.workers = [each.entry for each in workers]
            for each in workers:
                self._report(each.entry)
        return list(starts)

    def _fetch(self) -> list[PendingCommand]:
        """All agents' commands in the order of the outbox; acknowledged, so each is seen once."""
        found: list[PendingCommand] = []
        for node in self._scenario.nodes:
            commands = self.store.queries.commands(node.node_id, 0, 10_000)
            if commands:
                self.store.intake.acknowledge(node.node_id, commands[-1].sequence)
            found += commands
        return sorted(found, key=lambda command: command.sequence)

    def _stop(self, command: PendingCommand) -> None:
        entry = command.entry
        run = self._runs.setdefault(entry.job_id, _Run(self._durations[entry.job_id]))
        if run.workers and run.workers[0].attempt == entry.attempt:
            run.settle(self.clock.time_s)
            run.ticket, run.workers, run.ending = -1, [], entry.attempt
        served_s = run.served_s if run.ending == entry.attempt else 0.0
        self._report(entry, cause=ExitCause.STOPPED, served_s=served_s)

    def _report(self, entry: OutboxEntry, **more: object) -> None:
        report = WorkerReport(
            report_id=f"r{next(self._reports)}",
            kind=ReportKind.EXITED if more else ReportKind.STARTED,
            job_id=entry.job_id,
            attempt=entry.attempt,
            worker=entry.worker,
            **more,
        )
        for _twice in range(2):  # an agent that missed the answer reports again
            self.store.intake.report(entry.node_id, [report], self.clock.now_s())
