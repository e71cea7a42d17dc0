"""What happened: the only input of the core besides the time."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from placement.model.frozen import made_often
from placement.model.hardware import Node
from placement.model.job import Job
from placement.model.profile import Profile


class ExitCause(enum.Enum):
    """Why a worker is no longer running."""

    EXITED = "exited"
    """It ended by itself; the exit code is its own (negative: killed by that signal, not by us)."""
    STOPPED = "stopped"
    """It ended because it was told to stop."""
    LAUNCH_FAILED = "launch-failed"
    """It never started: no such command, no room for logs, a device that refused."""
    LOST = "lost"
    """Its node went away and has been fenced."""


@dataclass(frozen=True, slots=True)
class NodeJoined:
    """A node is there (again); an equal second report changes nothing."""

    node: Node


@dataclass(frozen=True, slots=True)
class NodeLost:
    """A node does not answer: nothing new goes there, what runs there may still be running."""

    node_id: str


@dataclass(frozen=True, slots=True)
class NodeFenced:
    """Nothing runs on that lost node any more: its workers count as lost."""

    node_id: str


@dataclass(frozen=True, slots=True)
class ProfileDefined:
    """A job profile is known under its name from now on; the last definition counts."""

    profile: Profile


@dataclass(frozen=True, slots=True)
class JobSubmitted:
    """A job arrived."""

    job: Job


@dataclass(frozen=True, slots=True)
class JobCancelled:
    """Somebody wants the job to end; unknown and ended jobs are left as they are."""

    job_id: str


@made_often
@dataclass(frozen=True, slots=True)
class WorkerStarted:
    """A worker's process is running."""

    job_id: str
    attempt: int
    worker: int


@made_often
@dataclass(frozen=True, slots=True)
class WorkerExited:
    """A worker is gone.

    ``served_s`` is the work done in this attempt in solo-equivalent seconds, None if not measured.
    """

    job_id: str
    attempt: int
    worker: int
    cause: ExitCause
    exit_code: int | None = None
    message: str = ""
    served_s: float | None = None


@dataclass(frozen=True, slots=True)
class SpeedObserved:
    """A running job takes this many times as long as alone from now on; None if nobody knows.

    Told to policies that part pairs which do too little together; one for each change is enough.
    """

    job_id: str
    attempt: int
    slowdown: float | None


Event = (
    NodeJoined
    | NodeLost
    | NodeFenced
    | ProfileDefined
    | JobSubmitted
    | JobCancelled
    | WorkerStarted
    | WorkerExited
    | SpeedObserved
)
