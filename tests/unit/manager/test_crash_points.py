"""Kills the manager before every statement that writes and after every commit of one long scenario."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from sqlalchemy import Connection, event

from manager.store import Database
from manager.wire.agent_models import CommandKind, ReportKind, WorkerReport
from placement.lifecycle import ENDED, JobState
from placement.model import ExitCause, Profile
from tests.unit.manager.parts import Parts, gpus, node


class Killed(BaseException):
    """The process is gone: nobody handles this."""


@dataclass(slots=True)
class Fate:
    """Kills at the moment with that number; reading changes nothing, so it is no moment of its own."""

    moment: int
    passed: int = 0

    def statement(self, _connection: object, _cursor: object, text: str, *_: object) -> None:
        if text.startswith(("INSERT", "UPDATE", "DELETE")):
            self.tick()

    def tick(self) -> None:
        self.passed += 1
        if self.passed == self.moment:
            raise Killed


@dataclass(slots=True)
class Agents:
    """Both nodes' agents; they live on when the manager dies, and repeat what was not answered."""

    codes: dict[str, int]
    ran: list[tuple[str, int, int]] = field(default_factory=list)
    running: dict[tuple[str, int, int], str] = field(default_factory=dict)
    unsent: list[tuple[str, WorkerReport]] = field(default_factory=list)

    def obey(self, parts: Parts) -> None:
        for node_id in ("node-a", "node-b"):
            for pending in parts.store.queries.commands(node_id, 0, 100):
                entry = pending.entry
                worker = (entry.job_id, entry.attempt, entry.worker)
                if entry.kind is CommandKind.START and worker not in self.ran:
                    self.ran.append(worker)
                    self.running[worker] = node_id
                    self._tell(node_id, worker, ReportKind.STARTED)
                elif entry.kind is CommandKind.STOP and self.running.pop(worker, None) is not None:
                    self._tell(node_id, worker, ReportKind.EXITED, cause=ExitCause.STOPPED)
                parts.store.intake.acknowledge(node_id, pending.sequence)

    def finish(self, _parts: Parts) -> None:
        """Everything that runs comes to its end."""
        for worker, node_id in self.running.items():
            code = self.codes[worker[0]]
            self._tell(node_id, worker, ReportKind.EXITED, cause=ExitCause.EXITED, exit_code=code, step=9)
        self.running.clear()

    def report(self, parts: Parts) -> None:
        while self.unsent:
            node_id, report = self.unsent[0]
            parts.store.intake.report(node_id, [report], parts.clock.now_s())
            self.unsent.pop(0)

    def _tell(self, node_id: str, worker: tuple[str, int, int], kind: ReportKind, **more: object) -> None:
        job_id, attempt, index = worker
        name = f"{job_id}/{attempt}/{index}/{kind.value}"
        report = WorkerReport(report_id=name, kind=kind, job_id=job_id, attempt=attempt, worker=index, **more)
        self.unsent.append((node_id, report))


def scenario(agents: Agents) -> list[Callable[[Parts], object]]:
    """What users, agents and the loop do, one after the other; each may be done again."""
    round_trip: list[Callable[[Parts], object]] = [Parts.turn, agents.obey, agents.report, Parts.turn]
    return [
        lambda parts: parts.store.intake.join(node("node-a"), simulated=True),
        lambda parts: parts.store.intake.define_profile(Profile("p", {"*": 2.0}, sm_milli=500)),
        lambda parts: parts.submit("one", request=gpus(1), profile="p"),
        lambda parts: parts.submit("gang", workers=2, request=gpus(3), retries=1),
        lambda parts: parts.store.intake.join(node("node-b"), simulated=True),
        *round_trip,
        lambda parts: parts.submit("cancelled"),
        *round_trip,
        lambda parts: parts.store.intake.cancel("job-3"),
        *round_trip,
        agents.finish,
        agents.report,
        *round_trip,
        agents.finish,
        agents.report,
        *round_trip,
    ]


@contextmanager
def fate_over(fate: Fate) -> Iterator[None]:
    write = Database.write

    @contextmanager
    def mortal(self: Database) -> Iterator[Connection]:
        with write(self) as connection:
            yield connection
        fate.tick()  # it is committed, and nobody has been answered

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Database, "write", mortal)
        yield


def live(folder: Path, moment: int) -> tuple[Parts, Agents, Fate]:
    """Play the scenario with one kill at that moment; what was being done is then done again."""
    fate = Fate(moment)
    agents = Agents({"job-1": 0, "job-2": 5, "job-3": 0})
    parts = Parts(folder)
    event.listen(parts.store.database.engine, "before_cursor_execute", fate.statement)
    with fate_over(fate):
        for act in scenario(agents):
            try:
                act(parts)
            except Killed:
                parts.store.close()
                parts.restart()
                act(parts)
    return parts, agents, fate


def story(parts: Parts) -> dict[str, list[tuple[int, JobState]]]:
    moves = {job.job_id: parts.store.queries.story(job.job_id) for job in parts.store.queries.unended()}
    ids = ("job-1", "job-2", "job-3")
    moves |= {job_id: parts.store.queries.story(job_id) for job_id in ids}
    return {
        job_id: [(each.transition.attempt, each.transition.after) for each in moved]
        for job_id, moved in moves.items()
    }


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_kill_at_any_statement_changes_nothing_in_the_end(tmp_path: Path) -> None:
    parts, agents, fate = live(tmp_path, moment=0)
    moments, expected = fate.passed, story(parts)
    ends = {job_id: moves[-1][1] for job_id, moves in expected.items()}
    assert ends == {"job-1": JobState.SUCCEEDED, "job-2": JobState.FAILED, "job-3": JobState.CANCELLED}
    gang = [("job-2", attempt, worker) for attempt in (1, 2) for worker in (0, 1)]
    assert sorted(agents.ran) == [("job-1", 1, 0), *gang, ("job-3", 1, 0)]
    assert moments > 100
    for moment in range(1, moments + 1):
        folder = tmp_path / str(moment)
        folder.mkdir()
        parts, again, _fate = live(folder, moment)
        assert story(parts) == expected, f"killed at moment {moment}"
        assert sorted(again.ran) == sorted(agents.ran), f"killed at moment {moment}"
        assert parts.store.steps.pending(10) == []
        assert all(not parts.store.queries.commands(node_id, 0, 10) for node_id in ("node-a", "node-b"))
        assert all(len([m for m in moves if m[1] in ENDED]) == 1 for moves in story(parts).values())
        parts.store.close()
