"""What shall be done: the only way out of the core."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from placement.model.frozen import made_often
from placement.model.share import Assignment


class StopCause(enum.Enum):
    """Why a worker is told to stop."""

    CANCELLED = "cancelled"
    PREEMPTED = "preempted"
    MOVED = "moved"
    """It goes on elsewhere, on shares that are kept for it."""
    TIME_LIMIT = "time-limit"
    SIBLING_FAILED = "sibling-failed"


@made_often
@dataclass(frozen=True, slots=True)
class StartWorker:
    """Run one worker of an attempt with these shares; doing it twice must do it once."""

    job_id: str
    attempt: int
    assignment: Assignment


@made_often
@dataclass(frozen=True, slots=True)
class StopWorker:
    """End one worker of an attempt: ask first, kill after ``grace_s``."""

    job_id: str
    attempt: int
    worker: int
    node_id: str
    cause: StopCause
    grace_s: float


Command = StartWorker | StopWorker
