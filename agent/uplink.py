"""Sends output and reports to the manager, until it has them all."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from agent import attempt
from agent.executor import Executor, Worker
from agent.reports import exit_report, progress_report, started_report
from manager.wire.agent_models import ReportKind, WorkerReport
from manager.wire.client import Client, WrongOffset
from placement.model import InvalidInput, NotFound

_LOG = logging.getLogger(__name__)
CHUNK_BYTES = 1 << 18
MOST_CHUNKS = 16
"""Pieces of one worker's output before the next worker has its turn."""
PROGRESS_EVERY_S = 1.0


class Uplink:
    """One node's way up; ``gpu_models`` by GPU uuid.

    Its methods raise what :class:`Client` raises when the manager is away; everything is still on disk then.
    """

    def __init__(
        self, client: Client, node_id: str, executor: Executor, gpu_models: Mapping[str, str]
    ) -> None:
        self._client = client
        self._node_id = node_id
        self._executor = executor
        self._gpu_models = gpu_models
        self._progress_at_s = 0.0

    def send(self) -> bool:
        """Send what there is; True if more is waiting already."""
        more = False
        reports: list[tuple[Worker, WorkerReport]] = []
        progress_due = time.monotonic() >= self._progress_at_s
        if progress_due:
            self._progress_at_s = time.monotonic() + PROGRESS_EVERY_S
        for worker in self._executor.workers():
            end = worker.end
            complete = self._send_output(worker)
            more = more or not complete
            found = [started_report(worker)]
            profile, model = self._executor.profile(worker), self._gpu_model(worker)
            if progress_due or end is not None:
                found.append(progress_report(worker, profile, model))
            if end is not None and complete:
                found.append(exit_report(worker, end, profile, model))
            reports += [(worker, report) for report in found if report is not None]
        if reports:
            self._deliver(reports)
        return more

    def _gpu_model(self, worker: Worker) -> str | None:
        return self._gpu_models.get(worker.shares[0].gpu_uuid) if worker.shares else None

    # Output

    def _send_output(self, worker: Worker) -> bool:
        """Send new output; True once the manager has all that there is now."""
        if worker.logs_given_up:
            return True
        path = worker.folder / attempt.OUTPUT
        for _ in range(MOST_CHUNKS):
            try:
                if path.stat().st_size <= worker.sent_bytes:
                    return True
                with path.open("rb") as stream:
                    stream.seek(worker.sent_bytes)
                    data = stream.read(CHUNK_BYTES)
            except FileNotFoundError:
                return True
            self._append(worker, data)
            if worker.logs_given_up:
                return True
        return False

    def _append(self, worker: Worker, data: bytes) -> None:
        try:
            worker.sent_bytes = self._client.append_log(self._node_id, worker.key, worker.sent_bytes, data)
        except WrongOffset as error:
            worker.sent_bytes = error.size  # after a restart: the manager has that much already
        except (NotFound, InvalidInput) as error:
            _LOG.warning("%s: the manager does not take its output: %s", worker.folder.name, error)
            worker.logs_given_up = True

    # Reports

    def _deliver(self, reports: list[tuple[Worker, WorkerReport]]) -> None:
        try:
            self._client.report(self._node_id, [report for _, report in reports])
        except InvalidInput:
            if len(reports) > 1:
                for each in reports:  # one that is refused must not hold up the others
                    self._deliver([each])
                return
            _LOG.exception("the manager refuses report %s", reports[0][1].report_id)
        for worker, report in reports:
            self._delivered(worker, report)

    def _delivered(self, worker: Worker, report: WorkerReport) -> None:
        if report.kind is ReportKind.STARTED:
            worker.started_sent = True
        elif report.kind is ReportKind.PROGRESS and report.step is not None:
            worker.sent_step = report.step
        elif report.kind is ReportKind.EXITED:
            self._executor.finish(worker)
