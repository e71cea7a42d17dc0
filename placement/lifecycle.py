"""The life of a job: one transition table, and the record that walks it."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from placement.model import Assignment, Job, Outcome, Reason, StateError, StopCause, WorkerExited
from placement.model.frozen import made_often


class JobState(enum.Enum):
    """Where a job is in its life."""

    __hash__ = object.__hash__  # members are unique objects; the default hashes the name in Python

    QUEUED = "queued"
    """Waits for room."""
    PLACED = "placed"
    """Has its shares, but waits for preempted or moved jobs to leave them."""
    STARTING = "starting"
    """Its workers have been told to start."""
    RUNNING = "running"
    """Every worker has reported that it runs."""
    STOPPING = "stopping"
    """Its workers have been told to stop."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    REJECTED = "rejected"


class Move(enum.Enum):
    """What makes a job change its state."""

    __hash__ = object.__hash__

    PLACE = "place"
    CLAIM = "claim"
    """Placed on shares that preempted or moved jobs have yet to leave."""
    START = "start"
    RUN = "run"
    STOP = "stop"
    UNPLACE = "unplace"
    """A claim came to nothing: back to the queue without an attempt."""
    REQUEUE = "requeue"
    SUCCEED = "succeed"
    FAIL = "fail"
    CANCEL = "cancel"
    REJECT = "reject"


S, M = JobState, Move

TRANSITIONS: dict[tuple[JobState, Move], JobState] = {
    (S.QUEUED, M.PLACE): S.STARTING,
    (S.QUEUED, M.CLAIM): S.PLACED,
    (S.QUEUED, M.CANCEL): S.CANCELLED,
    (S.QUEUED, M.REJECT): S.REJECTED,
    (S.PLACED, M.START): S.STARTING,
    (S.PLACED, M.UNPLACE): S.QUEUED,
    (S.PLACED, M.CANCEL): S.CANCELLED,
    (S.STARTING, M.RUN): S.RUNNING,
    (S.STARTING, M.STOP): S.STOPPING,
    (S.STARTING, M.SUCCEED): S.SUCCEEDED,
    (S.STARTING, M.FAIL): S.FAILED,
    (S.STARTING, M.REQUEUE): S.QUEUED,
    (S.RUNNING, M.STOP): S.STOPPING,
    (S.RUNNING, M.SUCCEED): S.SUCCEEDED,
    (S.RUNNING, M.FAIL): S.FAILED,
    (S.RUNNING, M.REQUEUE): S.QUEUED,
    (S.STOPPING, M.SUCCEED): S.SUCCEEDED,
    (S.STOPPING, M.FAIL): S.FAILED,
    (S.STOPPING, M.CANCEL): S.CANCELLED,
    (S.STOPPING, M.REQUEUE): S.QUEUED,
}
"""Every legal move.  STOPPING may still succeed: the job ended by itself before the order reached it."""

ENDED = frozenset({S.SUCCEEDED, S.FAILED, S.CANCELLED, S.REJECTED})
HOLDING = frozenset({S.PLACED, S.STARTING, S.RUNNING, S.STOPPING})
ACTIVE = frozenset({S.STARTING, S.RUNNING, S.STOPPING})
"""States in which an attempt is under way."""


@made_often
@dataclass(frozen=True, slots=True)
class Transition:
    """One step of one job's life, as it is stored and shown."""

    job_id: str
    attempt: int
    before: JobState | None
    after: JobState
    at_s: float
    note: str = ""


@made_often
@dataclass(frozen=True, slots=True)
class Outlook:
    """What is foreseen for a job on shared GPUs: its present slowdown since a time, and what was before.

    ``passed_s`` is the time before, ``solo_s`` the work foreseen to be done in it; slowdown and work are None
    once something in it was unknown.
    """

    slowdown: float | None
    since_s: float
    passed_s: float = 0.0
    solo_s: float | None = 0.0

    def until(self, now_s: float, slowdown: float | None) -> Outlook:
        """The outlook once the slowdown has become another."""
        passed_s = now_s - self.since_s
        if passed_s <= 0:
            return Outlook(slowdown, now_s, self.passed_s, self.solo_s)
        unknown = self.slowdown is None or self.solo_s is None
        solo_s = None if unknown else (self.solo_s or 0.0) + passed_s / (self.slowdown or 1.0)
        return Outlook(slowdown, now_s, self.passed_s + passed_s, solo_s)

    def mean(self) -> float | None:
        """The slowdown foreseen for the time that has passed, the present one if none has."""
        if self.passed_s <= 0:
            return self.slowdown
        return None if not self.solo_s else self.passed_s / self.solo_s


@dataclass(slots=True)
class JobRecord:
    """All that the core knows of one job; only the scheduler changes it.

    ``assignments`` are the shares the job is accounted for; ``vacating`` those that a preempted or moved job
    sits on while another is already accounted for them, and ``next_place`` those that a job that is being
    moved is accounted for meanwhile: it goes on there.  ``placed_s`` is when it got its shares, and again
    when its attempt began; ``served_s`` is work done in earlier attempts, in solo-equivalent seconds.
    ``moves`` counts how often it was moved, ``outcome`` is how its latest place was found.
    ``predicted_slowdown`` is the mean over the company that the job has had in this attempt and
    ``predicted_upper`` the worst bound, None when unknown.  ``candidates`` counts the nodes that could have
    held it, None if not all were looked at, and ``ruled_out`` the GPUs that could not, by why, if the
    scheduler was told to note that.
    """

    job: Job
    state: JobState = JobState.QUEUED
    attempt: int = 0
    assignments: tuple[Assignment, ...] = ()
    vacating: tuple[Assignment, ...] = ()
    next_place: tuple[Assignment, ...] = ()
    started_workers: set[int] = field(default_factory=set)
    exited_workers: set[int] = field(default_factory=set)
    waits_for: set[str] = field(default_factory=set)
    stop_cause: StopCause | None = None
    first_failure: WorkerExited | None = None
    first_placed_s: float | None = None
    placed_s: float | None = None
    ended_s: float | None = None
    held_s: float = 0.0
    served_s: float = 0.0
    attempt_served_s: float | None = None
    retries_used: int = 0
    preemptions: int = 0
    moves: int = 0
    outcome: Outcome | None = None
    exit_code: int | None = None
    failure: str = ""
    predicted_slowdown: float | None = None
    predicted_upper: float | None = None
    outlook: Outlook | None = None
    candidates: int | None = None
    ruled_out: dict[Reason, int] = field(default_factory=dict)

    def move(self, move: Move, at_s: float, note: str = "") -> Transition:
        """Make one legal move.

        Raises:
            StateError: the table has no such move; the message tells the job's story so far.
        """
        after = TRANSITIONS.get((self.state, move))
        if after is None:
            raise StateError(
                f"job {self.job.job_id}: cannot {move.value} while {self.state.value} "
                f"(attempt {self.attempt}, placed at {self.placed_s}, preempted {self.preemptions} times, "
                f"workers started {sorted(self.started_workers)}, exited {sorted(self.exited_workers)})"
            )
        before, self.state = self.state, after
        return Transition(self.job.job_id, self.attempt, before, after, at_s, note)

    def remaining_s(self) -> float | None:
        """Solo run time left as far as the policies may know, in seconds; None if unknown."""
        if self.job.duration_s is None:
            return None
        return max(self.job.duration_s - self.served_s, 0.0)
