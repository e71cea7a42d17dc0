"""What workers report and people ask for, and what follows from it."""

from __future__ import annotations

from placement.attempts import Attempts
from placement.ledger import Ledger
from placement.lifecycle import ACTIVE, ENDED, JobRecord, JobState, Move
from placement.model import ExitCause, StopCause, WorkerExited, WorkerStarted
from placement.placer import Placer


class Reports:
    """Walks jobs from their start to their end."""

    def __init__(self, ledger: Ledger, attempts: Attempts, placer: Placer) -> None:
        self._ledger = ledger
        self._attempts = attempts
        self._placer = placer

    def worker_started(self, event: WorkerStarted, now_s: float) -> None:
        """A worker runs; the job runs when all of them do."""
        record = self._current(event)
        if record is None or event.worker in record.started_workers:
            return
        record.started_workers.add(event.worker)
        self._ledger.touch(event.job_id)
        if record.state is JobState.STARTING and len(record.started_workers) == record.job.workers:
            self._ledger.note(record.move(Move.RUN, now_s))

    def worker_exited(self, event: WorkerExited, now_s: float) -> None:
        """A worker is gone; its siblings are stopped if it failed, and the attempt ends with the last one."""
        record = self._current(event)
        if record is None or event.worker in record.exited_workers:
            return
        record.exited_workers.add(event.worker)
        self._ledger.touch(event.job_id)
        if event.served_s is not None:
            served_s = record.attempt_served_s
            record.attempt_served_s = event.served_s if served_s is None else min(served_s, event.served_s)
        self._placer.give_back_worker(record, event.worker, now_s)
        if record.first_failure is None and not _clean(event):
            record.first_failure = event
        if len(record.exited_workers) == record.job.workers:
            self._attempt_ended(record, now_s)
        elif record.first_failure is event and record.state is not JobState.STOPPING:
            self._placer.stop(record, StopCause.SIBLING_FAILED, now_s)

    def enforce_time_limits(self, now_s: float) -> None:
        """Stop every attempt that has run as long as it may."""
        while (record := self._attempts.next_expired(now_s)) is not None:
            self._placer.stop(record, StopCause.TIME_LIMIT, now_s)

    def end_trials(self, now_s: float) -> None:
        """Put back in the queue who did too little in company."""
        failed = self._placer.trials.failed(now_s)
        for record in failed:
            self._placer.decisions += 1
            self._placer.stop(record, StopCause.PREEMPTED, now_s)
        if failed:
            self._placer.queue_again()

    def fenced(self, node_id: str, now_s: float) -> None:
        """Nothing runs on a node any more: all its workers are lost."""
        for record in [record for record in self._ledger if record.state in ACTIVE]:
            job_id, attempt = record.job.job_id, record.attempt
            for assignment in record.assignments or record.vacating:
                if assignment.node_id == node_id:
                    lost = f"node {node_id} was lost"
                    self.worker_exited(
                        WorkerExited(job_id, attempt, assignment.worker, ExitCause.LOST, message=lost), now_s
                    )

    def cancel(self, job_id: str, now_s: float) -> None:
        """End a job because somebody wants it ended; unknown and ended jobs are left as they are."""
        record = self._ledger.find(job_id)
        if record is None or record.state in ENDED:
            return
        if record.state is JobState.QUEUED:
            self._placer.line.discard(job_id)
            self._end(record, Move.CANCEL, now_s)
        elif record.state is JobState.PLACED:
            self._placer.give_back(record, now_s)
            self._end(record, Move.CANCEL, now_s)
        elif record.state is JobState.STOPPING:
            record.stop_cause = StopCause.CANCELLED
            self._placer.moves_nowhere(record, now_s)
            self._ledger.touch(job_id)
        else:
            self._placer.stop(record, StopCause.CANCELLED, now_s)

    def _current(self, event: WorkerStarted | WorkerExited) -> JobRecord | None:
        """The record that a report is about, None if it is stale or about nobody."""
        record = self._ledger.find(event.job_id)
        if record is None or record.attempt != event.attempt or record.state not in ACTIVE:
            return None
        return record if 0 <= event.worker < record.job.workers else None

    def _attempt_ended(self, record: JobRecord, now_s: float) -> None:
        self._placer.give_back(record, now_s)
        if record.placed_s is not None:
            record.held_s += now_s - record.placed_s
        if record.vacating:
            self._placer.left(record, now_s)
        failure, cause = record.first_failure, record.stop_cause
        moves_on = cause is StopCause.MOVED and failure is not None and failure.cause is not ExitCause.EXITED
        if record.next_place and not moves_on:
            self._placer.moves_nowhere(record, now_s)
        if failure is None:
            record.exit_code = 0
            self._end(record, Move.SUCCEED, now_s)
        elif cause is StopCause.CANCELLED:
            record.exit_code = failure.exit_code
            self._end(record, Move.CANCEL, now_s)
        elif moves_on:
            record.served_s += record.attempt_served_s or 0.0
            self._leave_attempt(record, now_s, "moved")
            self._placer.arrive(record, now_s)
        elif cause is StopCause.PREEMPTED and failure.cause is not ExitCause.EXITED:
            record.preemptions += 1
            record.served_s += record.attempt_served_s or 0.0
            self._requeue(record, now_s, "preempted")
        elif failure.cause is ExitCause.LOST and cause is not StopCause.TIME_LIMIT:
            self._requeue(record, now_s, failure.message)
        else:
            self._failed(record, failure, now_s)

    def _failed(self, record: JobRecord, failure: WorkerExited, now_s: float) -> None:
        out_of_time = record.stop_cause is StopCause.TIME_LIMIT
        if record.retries_used < record.job.retries and not out_of_time:
            record.retries_used += 1
            self._requeue(
                record, now_s, f"retry {record.retries_used} of {record.job.retries}: {_story(failure)}"
            )
            return
        record.exit_code = failure.exit_code
        limit = f"time limit of {record.job.time_limit_s:g} s reached" if out_of_time else ""
        record.failure = limit or _story(failure)
        self._end(record, Move.FAIL, now_s)

    def _requeue(self, record: JobRecord, now_s: float, note: str) -> None:
        self._leave_attempt(record, now_s, note)
        self._placer.queue(record)

    def _leave_attempt(self, record: JobRecord, now_s: float, note: str) -> None:
        record.attempt_served_s = None
        record.started_workers.clear()
        record.exited_workers.clear()
        self._ledger.note(record.move(Move.REQUEUE, now_s, note))

    def _end(self, record: JobRecord, move: Move, now_s: float) -> None:
        record.ended_s = now_s
        record.served_s += record.attempt_served_s or 0.0
        record.attempt_served_s = None
        self._ledger.note(record.move(move, now_s, record.failure))


def _clean(event: WorkerExited) -> bool:
    return event.cause is ExitCause.EXITED and event.exit_code == 0


def _story(failure: WorkerExited) -> str:
    if failure.message:
        return failure.message
    if failure.cause is ExitCause.EXITED and failure.exit_code is not None:
        if failure.exit_code < 0:
            return f"worker {failure.worker} was killed by signal {-failure.exit_code}"
        return f"worker {failure.worker} exited with status {failure.exit_code}"
    return f"worker {failure.worker}: {failure.cause.value}"
