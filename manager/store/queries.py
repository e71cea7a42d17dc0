"""What HTTP handlers read: the state after the last committed step."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, Row, Select, select

from manager.store import tables as t
from manager.store.codec import ASSIGNMENT, ASSIGNMENTS, NODE, PROFILE, RECORD
from manager.store.database import Database
from manager.store.rows import NodeState, OutboxEntry, Progress, StoredEvent, StoredJob, StoredNode
from manager.wire.agent_models import CommandKind
from manager.wire.models import JobSpec
from placement.lifecycle import ENDED, JobState, Transition
from placement.model import Assignment, Node, NotFound, Profile

_CHUNK = 500
"""Values in one IN list: every database takes that many."""
_OVER = [state.value for state in JobState if state in ENDED]
_LIVE = [state.value for state in JobState if state not in ENDED]


@dataclass(frozen=True, slots=True)
class PendingCommand:
    """A command that waits for its agent, with what it is made of."""

    sequence: int
    entry: OutboxEntry
    spec: JobSpec | None
    """None for a stop of a worker whose job this database has never known."""


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs a listing shows; None means all."""

    state: JobState | None = None
    tenant: str | None = None
    limit: int | None = None
    ended: bool | None = None


class Queries:
    """Reads; each method sees one consistent state."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def job(self, job_id: str) -> StoredJob:
        """One job.

        Raises:
            NotFound: there is none of that id.
        """
        with self._database.read() as connection:
            jobs = _stored(connection, select(t.jobs).where(t.jobs.c.job_id == job_id))
        if not jobs:
            raise NotFound(f"job {job_id!r}: there is no such job")
        return jobs[0]

    def jobs(self, wanted: JobFilter) -> list[StoredJob]:
        """Jobs in the order of submission; with a limit the latest ones."""
        query = select(t.jobs)
        if wanted.state is not None:
            query = query.where(t.jobs.c.state == wanted.state.value)
        if wanted.tenant is not None:
            query = query.where(t.jobs.c.tenant == wanted.tenant)
        if wanted.ended is not None:
            query = query.where(t.jobs.c.state.in_(_OVER if wanted.ended else _LIVE))
        query = query.order_by(t.jobs.c.sequence.desc())
        if wanted.limit is not None:
            query = query.limit(wanted.limit)
        with self._database.read() as connection:
            return _stored(connection, query)[::-1]

    def unended(self) -> list[StoredJob]:
        """Every job that has not ended."""
        return self.jobs(JobFilter(ended=False))

    def story(self, job_id: str) -> list[StoredEvent]:
        """The life of a job so far.

        Raises:
            NotFound: there is no such job.
        """
        with self._database.read() as connection:
            if connection.execute(select(t.jobs.c.job_id).where(t.jobs.c.job_id == job_id)).scalar() is None:
                raise NotFound(f"job {job_id!r}: there is no such job")
            query = (
                select(t.job_events).where(t.job_events.c.job_id == job_id).order_by(t.job_events.c.sequence)
            )
            return [_event(row) for row in connection.execute(query)]

    def nodes(self) -> list[StoredNode]:
        """All nodes in the order in which they first joined."""
        with self._database.read() as connection:
            rows = connection.execute(select(t.nodes).order_by(t.nodes.c.position))
            return [_node(row) for row in rows]

    def node(self, node_id: str) -> StoredNode:
        """One node.

        Raises:
            NotFound: it has never reported.
        """
        with self._database.read() as connection:
            row = connection.execute(select(t.nodes).where(t.nodes.c.node_id == node_id)).one_or_none()
        if row is None:
            raise NotFound(f"node {node_id!r}: unknown; the agent has to report what it is made of first")
        return _node(row)

    def profiles(self) -> list[Profile]:
        """All job profiles by name."""
        with self._database.read() as connection:
            bodies = connection.execute(select(t.profiles.c.body).order_by(t.profiles.c.name)).scalars()
            return [PROFILE.validate_json(body) for body in bodies]

    def commands(self, node_id: str, after: int, limit: int) -> list[PendingCommand]:
        """The node's commands that are not acknowledged, with a higher number than ``after``, in order."""
        mine = (t.outbox.c.node_id == node_id) & (t.outbox.c.sequence > after)
        query = (
            select(t.outbox, t.jobs.c.spec)
            .outerjoin(t.jobs, t.jobs.c.job_id == t.outbox.c.job_id)
            .where(mine)
            .order_by(t.outbox.c.sequence)
            .limit(limit)
        )
        with self._database.read() as connection:
            return [
                PendingCommand(
                    row.sequence,
                    _entry(row),
                    None if row.spec is None else JobSpec.model_validate_json(row.spec),
                )
                for row in connection.execute(query)
            ]

    def undelivered(self, node_id: str) -> set[tuple[str, int, int]]:
        """Workers (job, attempt, worker) for which the node has commands that it has not acknowledged."""
        query = select(t.outbox.c.job_id, t.outbox.c.attempt, t.outbox.c.worker)
        with self._database.read() as connection:
            rows = connection.execute(query.where(t.outbox.c.node_id == node_id))
            return {(row.job_id, row.attempt, row.worker) for row in rows}


def assignment_of(entry: OutboxEntry) -> Assignment:
    """The assignment that a start command carries."""
    assignment: Assignment = ASSIGNMENT.validate_json(entry.body)
    return assignment


def _node(row: Row[tuple[object, ...]]) -> StoredNode:
    return StoredNode(_parsed_node(row.body), NodeState(row.state), bool(row.simulated))


@functools.lru_cache(maxsize=100_000)
def _parsed_node(body: str) -> Node:
    """Nodes are read with every request and hardly ever change; they are values, so they can be shared."""
    node: Node = NODE.validate_json(body)
    return node


def _entry(row: Row[tuple[object, ...]]) -> OutboxEntry:
    return OutboxEntry(row.node_id, CommandKind(row.kind), row.job_id, row.attempt, row.worker, row.body)


def _event(row: Row[tuple[object, ...]]) -> StoredEvent:
    before = None if row.before_state is None else JobState(row.before_state)
    move = Transition(row.job_id, row.attempt, before, JobState(row.after_state), row.at_s, row.note)
    return StoredEvent(row.sequence, move)


def _stored(connection: Connection, query: Select[tuple[object, ...]]) -> list[StoredJob]:
    rows = connection.execute(query).all()
    ids = [row.job_id for row in rows]
    neighbours = _neighbours(connection, ids)
    progress = _progress(connection, ids)
    return [
        StoredJob(
            spec=JobSpec.model_validate_json(row.spec),
            record=RECORD.validate_json(row.record),
            placed=ASSIGNMENTS.validate_json(row.placed),
            neighbours=tuple(neighbours.get(row.job_id, ())),
            progress=_slowest(progress[row.job_id].get(row.attempt, ())),
            served_s=_served(progress[row.job_id]),
        )
        for row in rows
    ]


def _chunks(ids: Sequence[str]) -> Iterable[Sequence[str]]:
    return (ids[begin : begin + _CHUNK] for begin in range(0, len(ids), _CHUNK))


def _neighbours(connection: Connection, ids: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for some in _chunks(ids):
        query = select(t.neighbours).where(t.neighbours.c.job_id.in_(some))
        # Joined for the order of submission, which the ids as text do not follow.
        query = query.join(t.jobs, t.jobs.c.job_id == t.neighbours.c.neighbour_id).order_by(t.jobs.c.sequence)
        for row in connection.execute(query):
            found[row.job_id].append(row.neighbour_id)
    return found


_Reported = dict[int, list[Row[tuple[object, ...]]]]
"""What the workers of a job have reported of themselves, by attempt."""


def _progress(connection: Connection, ids: Sequence[str]) -> Mapping[str, _Reported]:
    found: dict[str, _Reported] = {job_id: defaultdict(list) for job_id in ids}
    for some in _chunks(ids):
        for row in connection.execute(select(t.progress).where(t.progress.c.job_id.in_(some))):
            found[row.job_id][row.attempt].append(row)
    return found


def _served(reported: _Reported) -> dict[int, float]:
    """A gang has served what its slowest worker has."""
    served = {
        attempt: [row.served_s for row in rows if row.served_s is not None]
        for attempt, rows in reported.items()
    }
    return {attempt: min(values) for attempt, values in served.items() if values}


def _slowest(rows: Sequence[Row[tuple[object, ...]]]) -> Progress:
    """A gang is as fast as its slowest worker."""
    steps = [row.step for row in rows if row.step is not None]
    rates = [row.steps_per_s for row in rows if row.steps_per_s is not None]
    slowdowns = [row.observed_slowdown for row in rows if row.observed_slowdown is not None]
    return Progress(min(steps, default=None), min(rates, default=None), max(slowdowns, default=None))
