"""What the loop reads and writes: the inbox, and all that a step of the core changes, in one transaction."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pydantic import ValidationError
from sqlalchemy import Connection, delete, insert, select, update

from manager.store import tables as t
from manager.store.codec import ASSIGNMENTS, NODE, PROFILE, RECORD, encode
from manager.store.database import Database, StaleWrite, Superseded
from manager.store.intake import put_command
from manager.store.rows import InboxRow, NodeState, Quarantined, StepWrite
from placement.lifecycle import ENDED, JobRecord, JobState, Move, Transition
from placement.lifetimes import RunTimes
from placement.model import JobKind, JobSubmitted, Lifetime, Node, OperationFailed, Profile


@dataclass(frozen=True, slots=True)
class CoreImage:
    """Everything that the core has to be rebuilt from; ``versions`` guard the rows of the records."""

    nodes: tuple[tuple[Node, NodeState], ...]
    profiles: tuple[Profile, ...]
    records: tuple[JobRecord, ...]
    versions: dict[str, int]
    events: int
    decisions: int
    now_s: float
    price_levels: tuple[int, ...] = ()
    run_times: tuple[RunTimes, ...] = ()


class Steps:
    """The loop's side of the store, for one epoch."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.epoch = 0
        self.database_id = ""

    def begin_epoch(self) -> int:
        """Take the leadership: a new fencing number; managers of older ones can no longer write steps."""
        with self._database.write() as connection:
            if (
                connection.execute(update(t.manager_state).values(epoch=t.manager_state.c.epoch + 1)).rowcount
                == 0
            ):
                first = {
                    "id": 1,
                    "epoch": 1,
                    "job_sequence": 0,
                    "core_events": 0,
                    "core_decisions": 0,
                    "now_s": 0.0,
                    "database_id": uuid.uuid4().hex,
                    "price_levels": "[]",
                }
                connection.execute(insert(t.manager_state).values(first))
            state = connection.execute(select(t.manager_state)).one()
            self.epoch, self.database_id = int(state.epoch), str(state.database_id)
        return self.epoch

    def load(self) -> CoreImage:
        """The state after the last step that was committed.

        Raises:
            OperationFailed: a row cannot be read.
        """
        with self._database.read() as connection:
            state = connection.execute(select(t.manager_state)).one()
            records: list[JobRecord] = []
            versions: dict[str, int] = {}
            live = t.jobs.c.admitted & t.jobs.c.state.not_in([state.value for state in ENDED])
            query = select(t.jobs.c.job_id, t.jobs.c.record, t.jobs.c.version).where(live)
            for row in connection.execute(query.order_by(t.jobs.c.sequence)):
                records.append(_record(row.job_id, row.record))
                versions[row.job_id] = row.version
            joined = (
                select(t.nodes).where(t.nodes.c.state != NodeState.JOINING.value).order_by(t.nodes.c.position)
            )
            nodes = [
                (NODE.validate_json(row.body), NodeState(row.state)) for row in connection.execute(joined)
            ]
            profiles = connection.execute(select(t.profiles.c.body).order_by(t.profiles.c.name)).scalars()
            return CoreImage(
                nodes=tuple(nodes),
                profiles=tuple(PROFILE.validate_json(body) for body in profiles),
                records=tuple(records),
                versions=versions,
                events=state.core_events,
                decisions=state.core_decisions,
                now_s=state.now_s,
                price_levels=tuple(map(int, json.loads(state.price_levels))),
                run_times=_run_times(connection),
            )

    def pending(self, limit: int) -> list[InboxRow]:
        """The oldest accepted events that the core has not taken.

        Raises:
            Superseded: another manager leads, so they are its business.
        """
        with self._database.read() as connection:
            self._check_epoch(connection)
            rows = connection.execute(select(t.inbox).order_by(t.inbox.c.sequence).limit(limit))
            return [InboxRow(row.sequence, row.kind, row.body) for row in rows]

    def commit(self, step: StepWrite, versions: dict[str, int]) -> dict[str, int]:
        """Make a step true: gives the new versions of the records that it changed.

        Raises:
            Superseded: another manager leads.
            StaleWrite: a record has changed under the core.
            StoreFailed: the database refused; nothing of the step has happened.
        """
        with self._database.write() as connection:
            self._keep_state(connection, step)
            if step.consumed:
                connection.execute(delete(t.inbox).where(t.inbox.c.sequence.in_(step.consumed)))
            new_versions = {r.job.job_id: _update_record(connection, r, versions) for r in step.records}
            _append_transitions(connection, step.transitions)
            _change_nodes(connection, step.nodes)
            _pair(connection, step.neighbours)
            _learn(connection, step.run_times)
            for entry in step.commands:
                put_command(connection, entry)
            return new_versions

    def quarantine(self, poison: Quarantined) -> None:
        """Put away an event that makes the core fail; a job whose submission it is ends as rejected."""
        with self._database.write() as connection:
            self._check_epoch(connection)
            row = poison.row
            connection.execute(delete(t.inbox).where(t.inbox.c.sequence == row.sequence))
            values = {"sequence": row.sequence, "kind": row.kind, "body": row.body}
            connection.execute(insert(t.quarantine).values(**values, error=poison.error, at_s=poison.at_s))
            if isinstance(poison.event, JobSubmitted):
                job_id = poison.event.job.job_id
                _append_transitions(connection, (Transition(job_id, 0, None, JobState.QUEUED, poison.at_s),))
                _reject(connection, job_id, poison.error, poison.at_s)

    def eject(self, job_id: str, error: str, at_s: float) -> None:
        """Reject a waiting job that makes the core fail."""
        with self._database.write() as connection:
            self._check_epoch(connection)
            _reject(connection, job_id, error, at_s)

    def _keep_state(self, connection: Connection, step: StepWrite) -> None:
        mine = t.manager_state.c.epoch == self.epoch
        values = {
            "core_events": step.core_events,
            "core_decisions": step.core_decisions,
            "now_s": step.now_s,
            "price_levels": json.dumps(step.price_levels),
        }
        if connection.execute(update(t.manager_state).where(mine).values(values)).rowcount != 1:
            raise self._superseded()

    def _check_epoch(self, connection: Connection) -> None:
        if connection.execute(select(t.manager_state.c.epoch)).scalar_one() != self.epoch:
            raise self._superseded()

    def _superseded(self) -> Superseded:
        return Superseded(f"another manager leads this database since epoch {self.epoch}; this one stops")


def _record(job_id: str, text: str) -> JobRecord:
    try:
        record: JobRecord = RECORD.validate_json(text)
    except ValidationError as error:
        raise OperationFailed(
            f"the store holds a broken record of {job_id}: {error.errors()[0]['msg']}"
        ) from error
    return record


def _update_record(connection: Connection, record: JobRecord, versions: dict[str, int]) -> int:
    job_id = record.job.job_id
    version = versions.get(job_id, 0)
    values: dict[str, object] = {
        "state": record.state.value,
        "attempt": record.attempt,
        "ended_s": record.ended_s,
        "admitted": True,
        "version": version + 1,
        "record": encode(RECORD, record),
    }
    if record.assignments:
        values["placed"] = encode(ASSIGNMENTS, record.assignments)
    mine = (t.jobs.c.job_id == job_id) & (t.jobs.c.version == version)
    if connection.execute(update(t.jobs).where(mine).values(values)).rowcount != 1:
        raise StaleWrite(f"job {job_id}: its row is no longer at version {version}")
    return version + 1


def _append_transitions(connection: Connection, transitions: Iterable[Transition]) -> None:
    rows = [
        {
            "job_id": move.job_id,
            "attempt": move.attempt,
            "before_state": None if move.before is None else move.before.value,
            "after_state": move.after.value,
            "at_s": move.at_s,
            "note": move.note,
        }
        for move in transitions
    ]
    for row in rows:  # one by one: their numbers tell their order
        connection.execute(insert(t.job_events).values(row))


def _change_nodes(connection: Connection, nodes: Sequence[tuple[Node, NodeState]]) -> None:
    for node, state in nodes:
        values = {"state": state.value, "body": encode(NODE, node)}
        connection.execute(update(t.nodes).where(t.nodes.c.node_id == node.node_id).values(values))
        if state is NodeState.FENCED:
            # Its workers count as lost: a start that it never fetched must not reach it when it comes back.
            connection.execute(delete(t.outbox).where(t.outbox.c.node_id == node.node_id))


def _pair(connection: Connection, pairs: frozenset[tuple[str, str]]) -> None:
    wanted = {pair for one, other in pairs for pair in ((one, other), (other, one))}
    for one in sorted({job_id for job_id, _ in wanted}):
        query = select(t.neighbours.c.neighbour_id).where(t.neighbours.c.job_id == one)
        known = set(connection.execute(query).scalars())
        for other in sorted(other for job_id, other in wanted if job_id == one and other not in known):
            connection.execute(insert(t.neighbours).values(job_id=one, neighbour_id=other))


def _learn(connection: Connection, run_times: Iterable[RunTimes]) -> None:
    for each in run_times:
        origin = {"tenant": each.tenant, "kind": each.kind.value}
        values = {"lifetimes": "".join(str(int(lifetime)) for lifetime in each.lifetimes)}
        mine = (t.run_times.c.tenant == each.tenant) & (t.run_times.c.kind == each.kind.value)
        if connection.execute(update(t.run_times).where(mine).values(values)).rowcount == 0:
            connection.execute(insert(t.run_times).values(origin | values))


def _run_times(connection: Connection) -> tuple[RunTimes, ...]:
    rows = connection.execute(select(t.run_times).order_by(t.run_times.c.tenant, t.run_times.c.kind))
    return tuple(
        RunTimes(row.tenant, JobKind(row.kind), tuple(Lifetime(int(digit)) for digit in row.lifetimes))
        for row in rows
    )


def _reject(connection: Connection, job_id: str, error: str, at_s: float) -> None:
    row = connection.execute(select(t.jobs.c.record, t.jobs.c.version).where(t.jobs.c.job_id == job_id)).one()
    record = _record(job_id, row.record)
    record.failure = f"the scheduler failed on this job: {error}"
    record.ended_s = at_s
    _append_transitions(connection, (record.move(Move.REJECT, at_s, record.failure),))
    _update_record(connection, record, {job_id: row.version})
