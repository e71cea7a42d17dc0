"""What the store gives and takes: frozen values, no rows of the database."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from manager.wire.agent_models import CommandKind
from manager.wire.models import JobSpec
from placement.lifecycle import JobRecord, Transition
from placement.lifetimes import RunTimes
from placement.model import Assignment, Event, Node


class NodeState(enum.Enum):
    """What the manager thinks of a node."""

    JOINING = "joining"
    """It has reported, but the core has not taken the report yet."""
    UP = "up"
    LOST = "lost"
    """It does not answer; its jobs may still run."""
    FENCED = "fenced"
    """It does not answer for so long that its jobs have ended themselves."""


@dataclass(frozen=True, slots=True)
class InboxRow:
    """One accepted event that waits for the core, as it is stored."""

    sequence: int
    kind: str
    body: str


@dataclass(frozen=True, slots=True)
class Progress:
    """What the latest attempt reported of itself: the slowest worker's; None is unknown."""

    step: int | None = None
    steps_per_s: float | None = None
    observed_slowdown: float | None = None


@dataclass(frozen=True, slots=True)
class StoredJob:
    """One job with all that is known of it."""

    spec: JobSpec
    record: JobRecord
    placed: tuple[Assignment, ...] = ()
    neighbours: tuple[str, ...] = ()
    progress: Progress = Progress()
    served_s: Mapping[int, float] = field(default_factory=dict)
    """Solo-equivalent seconds by attempt, of those that have reported them."""

    @property
    def job_id(self) -> str:
        """The job's id."""
        return self.record.job.job_id


@dataclass(frozen=True, slots=True)
class StoredNode:
    """One node and what the manager thinks of it."""

    node: Node
    state: NodeState
    simulated: bool


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """One move of a job's life and its place in the history."""

    sequence: int
    transition: Transition


@dataclass(frozen=True, slots=True)
class OutboxEntry:
    """One command to be sent; a start carries an assignment, a stop a cause and its grace in the body."""

    node_id: str
    kind: CommandKind
    job_id: str
    attempt: int
    worker: int
    body: str


@dataclass(frozen=True, slots=True)
class StepWrite:
    """All that one step of the core changes in the store, in one transaction."""

    now_s: float
    consumed: tuple[int, ...] = ()
    records: tuple[JobRecord, ...] = ()
    transitions: tuple[Transition, ...] = ()
    commands: tuple[OutboxEntry, ...] = ()
    nodes: tuple[tuple[Node, NodeState], ...] = ()
    neighbours: frozenset[tuple[str, str]] = frozenset()
    """Pairs that share a GPU from now on, each once."""
    core_events: int = 0
    core_decisions: int = 0
    price_levels: tuple[int, ...] = ()
    run_times: tuple[RunTimes, ...] = ()


@dataclass(frozen=True, slots=True)
class Submission:
    """One submission on its way into the store."""

    spec: JobSpec
    now_s: float
    key: str | None = None
    """The caller's idempotency key."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was accepted: the job and the inbox row after whose processing the core knows of it."""

    job_id: str
    sequence: int


@dataclass(frozen=True, slots=True)
class Quarantined:
    """An event that made the core fail."""

    row: InboxRow
    error: str
    at_s: float
    event: Event | None = field(default=None)
