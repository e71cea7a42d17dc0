"""The course of an attempt: start, run, stop, end, and what follows from how it ended."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from placement.lifecycle import ENDED, JobRecord, JobState, Move
from placement.model import ExitCause, StartWorker, StopCause, StopWorker, WorkerExited, WorkerStarted

if TYPE_CHECKING:
    from placement.scheduler import Scheduler

ACTIVE = frozenset({JobState.STARTING, JobState.RUNNING, JobState.STOPPING})


class Attempts:
    """Walks jobs from their placement to their end, on behalf of a scheduler."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._deadlines: list[tuple[float, str, int]] = []

    # -- starting and stopping -----------------------------------------------------------------------------

    def start(self, record: JobRecord, move: Move, now_s: float) -> None:
        """Begin the next attempt of a job that has its shares."""
        record.attempt += 1
        record.placed_s = now_s
        if record.first_placed_s is None:
            record.first_placed_s = now_s
        record.started_workers.clear()
        record.exited_workers.clear()
        record.stop_cause = record.first_failure = record.attempt_served_s = None
        self._scheduler.note(record.move(move, now_s))
        for assignment in record.assignments:
            self._scheduler.command(StartWorker(record.job.job_id, record.attempt, assignment))
        self.resume(record)

    def resume(self, record: JobRecord) -> None:
        """Watch the time limit of an attempt that has begun."""
        limit_s, placed_s = record.job.time_limit_s, record.placed_s
        if limit_s is not None and placed_s is not None and record.state in ACTIVE:
            heapq.heappush(self._deadlines, (placed_s + limit_s, record.job.job_id, record.attempt))

    def stop(self, record: JobRecord, cause: StopCause, now_s: float) -> None:
        """Tell every worker that has not ended to stop."""
        record.stop_cause = cause
        if record.state is not JobState.STOPPING:
            self._scheduler.note(record.move(Move.STOP, now_s, cause.value))
        job = record.job
        for assignment in record.assignments or record.vacating:
            if assignment.worker not in record.exited_workers:
                self._scheduler.command(
                    StopWorker(
                        job.job_id, record.attempt, assignment.worker, assignment.node_id, cause, job.grace_s
                    )
                )

    def cancel(self, job_id: str, now_s: float) -> None:
        """End a job because somebody wants it ended; unknown and ended jobs are left as they are."""
        record = self._scheduler.find(job_id)
        if record is None or record.state in ENDED:
            return
        if record.state is JobState.QUEUED:
            self._scheduler.dequeue(job_id)
            self._end(record, Move.CANCEL, now_s)
        elif record.state is JobState.PLACED:
            self._scheduler.give_back(record)
            record.assignments, record.waits_for = (), set()
            self._end(record, Move.CANCEL, now_s)
        elif record.state is JobState.STOPPING:
            record.stop_cause = StopCause.CANCELLED
        else:
            self.stop(record, StopCause.CANCELLED, now_s)

    # -- time limits ---------------------------------------------------------------------------------------

    def next_deadline_s(self) -> float | None:
        """The earliest time limit of a job that still runs in that attempt."""
        while self._deadlines and not self._runs(*self._deadlines[0][1:]):
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def enforce_time_limits(self, now_s: float) -> None:
        """Stop every attempt that has run as long as it may."""
        while (deadline_s := self.next_deadline_s()) is not None and deadline_s <= now_s:
            record = self._scheduler.record(heapq.heappop(self._deadlines)[1])
            self.stop(record, StopCause.TIME_LIMIT, now_s)

    def _runs(self, job_id: str, attempt: int) -> bool:
        record = self._scheduler.find(job_id)
        return (
            record is not None
            and record.attempt == attempt
            and record.state in (JobState.STARTING, JobState.RUNNING)
        )

    # -- reports of workers --------------------------------------------------------------------------------

    def worker_started(self, event: WorkerStarted, now_s: float) -> None:
        """A worker runs; the job runs when all of them do."""
        record = self._current(event)
        if record is None or event.worker in record.started_workers:
            return
        record.started_workers.add(event.worker)
        if record.state is JobState.STARTING and len(record.started_workers) == record.job.workers:
            self._scheduler.note(record.move(Move.RUN, now_s))

    def worker_exited(self, event: WorkerExited, now_s: float) -> None:
        """A worker is gone; its siblings are stopped if it failed, and the attempt ends with the last one."""
        record = self._current(event)
        if record is None or event.worker in record.exited_workers:
            return
        record.exited_workers.add(event.worker)
        if event.served_s is not None:
            served_s = record.attempt_served_s
            record.attempt_served_s = event.served_s if served_s is None else min(served_s, event.served_s)
        self._scheduler.give_back_worker(record, event.worker)
        if record.first_failure is None and not _clean(event):
            record.first_failure = event
        if len(record.exited_workers) == record.job.workers:
            self._attempt_ended(record, now_s)
        elif record.first_failure is event and record.state is not JobState.STOPPING:
            self.stop(record, StopCause.SIBLING_FAILED, now_s)

    def fenced(self, node_id: str, now_s: float) -> None:
        """Nothing runs on a node any more: all its workers are lost."""
        for record in [record for record in self._scheduler.records() if record.state in ACTIVE]:
            for assignment in record.assignments or record.vacating:
                if assignment.node_id == node_id:
                    self.worker_exited(
                        WorkerExited(
                            record.job.job_id,
                            record.attempt,
                            assignment.worker,
                            ExitCause.LOST,
                            message=f"node {node_id} was lost",
                        ),
                        now_s,
                    )

    def _current(self, event: WorkerStarted | WorkerExited) -> JobRecord | None:
        """The record that a report is about, None if it is stale or about nobody."""
        record = self._scheduler.find(event.job_id)
        if record is None or record.attempt != event.attempt or record.state not in ACTIVE:
            return None
        return record if 0 <= event.worker < record.job.workers else None

    # -- ends ----------------------------------------------------------------------------------------------

    def _attempt_ended(self, record: JobRecord, now_s: float) -> None:
        self._scheduler.give_back(record)
        record.assignments = ()
        if record.placed_s is not None:
            record.held_s += now_s - record.placed_s
        failure, cause = record.first_failure, record.stop_cause
        if record.vacating:
            self._scheduler.left(record, now_s)
        if failure is None:
            record.exit_code = 0
            record.served_s += record.attempt_served_s or 0.0
            self._end(record, Move.SUCCEED, now_s)
        elif cause is StopCause.CANCELLED:
            record.exit_code = failure.exit_code
            self._end(record, Move.CANCEL, now_s)
        elif cause is StopCause.PREEMPTED and failure.cause is not ExitCause.EXITED:
            record.preemptions += 1
            record.served_s += record.attempt_served_s or 0.0
            self._requeue(record, now_s, "preempted")
        elif failure.cause is ExitCause.LOST:
            self._requeue(record, now_s, failure.message)
        elif record.retries_used < record.job.retries and cause is not StopCause.TIME_LIMIT:
            record.retries_used += 1
            self._requeue(
                record, now_s, f"retry {record.retries_used} of {record.job.retries}: {_story(failure)}"
            )
        else:
            record.exit_code = failure.exit_code
            limit = (
                f"time limit of {record.job.time_limit_s:g} s reached"
                if cause is StopCause.TIME_LIMIT
                else ""
            )
            record.failure = limit or _story(failure)
            self._end(record, Move.FAIL, now_s)

    def _requeue(self, record: JobRecord, now_s: float, note: str) -> None:
        self._scheduler.note(record.move(Move.REQUEUE, now_s, note))
        self._scheduler.queue(record)

    def _end(self, record: JobRecord, move: Move, now_s: float) -> None:
        record.ended_s = now_s
        self._scheduler.note(record.move(move, now_s, record.failure))


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
