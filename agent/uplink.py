"""Sends output and reports to the manager, until it has them all."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent import attempt
from agent.attempt import Exit
from agent.contact import Contact
from agent.devices import WorkerKey
from agent.executor import Executor, Worker
from agent.reports import bare_exit_report, exit_report, progress_report, started_report
from manager.wire.agent_models import ReportKind, WorkerReport
from manager.wire.client import Client, WrongOffset
from placement.model import CotenantError, InvalidInput, NotFound, OperationFailed

_LOG = logging.getLogger(__name__)
CHUNK_BYTES = 1 << 18
MOST_CHUNKS = 16
"""Pieces of one worker's output before the next worker has its turn."""
PROGRESS_EVERY_S = 1.0
GIVE_UP_S = 30.0
"""How long one worker's output may be refused by a manager that answers."""
REFUSED_AGAIN_S = 30.0
"""Pause before an exit report is sent again that the manager does not take in any form."""


@dataclass(frozen=True, slots=True)
class Way:
    """How the manager is reached, and as which node."""

    client: Client
    node_id: str
    contact: Contact

    def report(self, reports: Sequence[WorkerReport]) -> None:
        """Hand over reports."""
        with self.contact.call():
            self.client.report(self.node_id, reports)

    def append_log(self, worker: WorkerKey, offset: int, data: bytes) -> int:
        """Append output; returns how much the manager holds."""
        with self.contact.call():
            return self.client.append_log(self.node_id, worker, offset, data)


class Uplink:
    """Tells the manager of one node's workers; ``gpu_models`` by GPU uuid.

    Its methods raise what :class:`Client` raises when the manager is away; everything is still on disk then.
    """

    def __init__(self, way: Way, executor: Executor, gpu_models: Mapping[str, str]) -> None:
        self._way = way
        self._executor = executor
        self._gpu_models = gpu_models
        self._progress_at_s = 0.0

    def send(self) -> bool:
        """Send what there is; True if more is waiting already."""
        more = False
        problem: CotenantError | None = None
        reports: list[tuple[Worker, WorkerReport]] = []
        progress_due = time.monotonic() >= self._progress_at_s
        if progress_due:
            self._progress_at_s = time.monotonic() + PROGRESS_EVERY_S
        for worker in self._executor.workers():
            try:
                found, complete, refusal = self._turn(worker, progress_due=progress_due)
            except CotenantError:
                raise  # the manager is away: there is nobody to tell
            except Exception:
                # A job may write into its folder: what it makes of it must not silence the whole node.
                if not worker.stumbled:
                    _LOG.exception("%s: cannot be told of", worker.folder.name)
                worker.stumbled = True
                continue
            more, problem = more or not complete, refusal or problem
            reports += [(worker, report) for report in found]
        if reports:
            self._deliver(reports)
        if problem is not None:
            raise problem
        return more

    def _turn(
        self, worker: Worker, *, progress_due: bool
    ) -> tuple[list[WorkerReport], bool, CotenantError | None]:
        """Send output; gives what is to be told, whether all output is there, and why it cannot be sent."""
        end = worker.end  # before its output is looked at: what ended writes no more
        refusal: CotenantError | None = None
        try:
            complete = self._send_output(worker)
        except (NotFound, InvalidInput, OperationFailed) as error:
            complete, refusal = False, error  # the others are not to wait for this one
        told_end = end if complete else None
        return self._reports_of(worker, told_end, progress_due=progress_due), complete, refusal

    def _reports_of(self, worker: Worker, end: Exit | None, *, progress_due: bool) -> list[WorkerReport]:
        """What there is to tell; ``end`` is None as long as the end is not to be told."""
        profile, model = self._executor.profile(worker), self._gpu_model(worker)
        found = [started_report(worker)]
        if progress_due or end is not None:
            found.append(progress_report(worker, profile, model))
        if end is not None and time.monotonic() >= worker.exit_again_at_s:
            found.append(exit_report(worker, end, profile, model))
        return [report for report in found if report is not None]

    def _gpu_model(self, worker: Worker) -> str | None:
        return self._gpu_models.get(worker.shares[0].gpu_uuid) if worker.shares else None

    # Output

    def _send_output(self, worker: Worker) -> bool:
        """Send new output; True once the manager has all that there is now.

        Raises:
            OperationFailed, NotFound, InvalidInput: this output cannot be sent, but others may.
        """
        for _ in range(MOST_CHUNKS):
            if worker.output_lost:
                return True
            try:
                data = _output_after(worker)
                if not data:
                    return True
                self._append(worker, data)
                worker.refused_since_s = None
            except (NotFound, InvalidInput, OSError) as error:
                self._refused(worker, error)
        return False

    def _append(self, worker: Worker, data: bytes) -> None:
        try:
            worker.sent_bytes = self._way.append_log(worker.key, worker.sent_bytes, data)
        except WrongOffset as error:
            worker.sent_bytes = error.size  # after a restart: the manager has that much already

    def _refused(self, worker: Worker, error: Exception) -> None:
        """Try again for a while; then give the output up rather than the job's end, and say so in that."""
        now_s = time.monotonic()
        if worker.refused_since_s is None:
            worker.refused_since_s = now_s
        if now_s - worker.refused_since_s < GIVE_UP_S:
            raise OperationFailed(f"{worker.folder.name}: its output cannot be sent: {error}") from error
        _LOG.warning("%s: its output is given up: %s", worker.folder.name, error)
        worker.output_lost = f"its output is not complete: {error}"

    # Reports

    def _deliver(self, reports: list[tuple[Worker, WorkerReport]]) -> None:
        try:
            self._way.report([report for _, report in reports])
        except InvalidInput as error:
            if len(reports) > 1:
                for each in reports:  # one that is refused must not hold up the others
                    self._deliver([each])
                return
            if not self._insist(*reports[0], error):
                return
        for worker, report in reports:
            self._delivered(worker, report)

    def _insist(self, worker: Worker, report: WorkerReport, refusal: InvalidInput) -> bool:
        """What to do with a report that is refused for good; True if the manager has what it needs.

        The end of a worker is never passed over: the manager would take the worker for lost and run it again.
        It is told in the fewest words, and kept as long as even these are refused.
        """
        if report.kind is not ReportKind.EXITED:
            _LOG.error("the manager refuses report %s: %s", report.report_id, refusal)
            return True
        try:
            self._way.report([bare_exit_report(report)])
        except InvalidInput as error:
            if worker.exit_again_at_s == 0.0:
                _LOG.error(
                    "the manager refuses report %s: %s; it is kept, and tried again every %g s",
                    report.report_id,
                    error,
                    REFUSED_AGAIN_S,
                )
            worker.exit_again_at_s = time.monotonic() + REFUSED_AGAIN_S
            return False
        _LOG.warning("the manager refuses report %s: %s; told without details", report.report_id, refusal)
        return True

    def _delivered(self, worker: Worker, report: WorkerReport) -> None:
        if report.kind is ReportKind.STARTED:
            worker.started_sent = True
        elif report.kind is ReportKind.PROGRESS and report.step is not None:
            worker.sent_step = report.step
        elif report.kind is ReportKind.EXITED:
            self._executor.finish(worker)


def _output_after(worker: Worker) -> bytes:
    """Output that has not been sent yet, empty if there is none."""
    path = worker.folder / attempt.OUTPUT
    try:
        if path.stat().st_size <= worker.sent_bytes:
            return b""
        with path.open("rb") as stream:
            stream.seek(worker.sent_bytes)
            return stream.read(CHUNK_BYTES)
    except FileNotFoundError:
        return b""
