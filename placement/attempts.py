"""Attempts of jobs: how they begin, how long they may run, how they are told to end."""

from __future__ import annotations

import heapq

from placement.ledger import Ledger
from placement.lifecycle import ACTIVE, JobRecord, JobState, Move
from placement.model import StartWorker, StopCause, StopWorker


class Attempts:
    """Begins and stops attempts and watches their time limits."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._deadlines: list[tuple[float, str, int]] = []

    def start(self, record: JobRecord, move: Move, now_s: float) -> None:
        """Begin the next attempt of a job that has its shares."""
        record.attempt += 1
        record.placed_s = now_s
        if record.first_placed_s is None:
            record.first_placed_s = now_s
        record.stop_cause = record.first_failure = record.attempt_served_s = None
        self._ledger.note(record.move(move, now_s))
        for assignment in record.assignments:
            self._ledger.order(StartWorker(record.job.job_id, record.attempt, assignment))
        self.watch(record)

    def watch(self, record: JobRecord) -> None:
        """Watch the time limit of an attempt that has begun."""
        limit_s, placed_s = record.job.time_limit_s, record.placed_s
        if limit_s is not None and placed_s is not None and record.state in ACTIVE:
            heapq.heappush(self._deadlines, (placed_s + limit_s, record.job.job_id, record.attempt))

    def stop(self, record: JobRecord, cause: StopCause, now_s: float) -> None:
        """Tell every worker that has not ended to stop."""
        record.stop_cause = cause
        self._ledger.touch(record.job.job_id)
        if record.state is not JobState.STOPPING:
            self._ledger.note(record.move(Move.STOP, now_s, cause.value))
        job = record.job
        for assignment in record.assignments or record.vacating:
            if assignment.worker not in record.exited_workers:
                self._ledger.order(
                    StopWorker(
                        job.job_id, record.attempt, assignment.worker, assignment.node_id, cause, job.grace_s
                    )
                )

    def next_deadline_s(self) -> float | None:
        """The earliest time limit of a job that still runs in that attempt."""
        while self._deadlines and not self._runs(*self._deadlines[0][1:]):
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def next_expired(self, now_s: float) -> JobRecord | None:
        """A job whose attempt has run as long as it may, None if there is none; each is given once."""
        if not self._deadlines or (deadline_s := self.next_deadline_s()) is None or deadline_s > now_s:
            return None
        return self._ledger.find(heapq.heappop(self._deadlines)[1])

    def _runs(self, job_id: str, attempt: int) -> bool:
        record = self._ledger.find(job_id)
        return (
            record is not None
            and record.attempt == attempt
            and record.state in (JobState.STARTING, JobState.RUNNING)
        )
