"""What HTTP handlers write: everything accepted is in the database before it is answered."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from sqlalchemy import Connection, delete, func, insert, select, update

from manager.store import tables as t
from manager.store.codec import ASSIGNMENTS, NODE, PROFILE, RECORD, encode, encode_event
from manager.store.database import Database
from manager.store.rows import NodeState, OutboxEntry, Receipt, Submission
from manager.wire.agent_models import ReportKind, WorkerReport
from placement.lifecycle import ENDED, JobRecord, JobState
from placement.model import (
    Event,
    InvalidInput,
    JobCancelled,
    JobSubmitted,
    Node,
    NodeJoined,
    NotFound,
    Profile,
    ProfileDefined,
    WorkerExited,
    WorkerStarted,
)

REPORTS_KEPT_S = 7 * 86_400.0
"""How long a report id is remembered; a report that is repeated later is stale for the core anyway."""


class Intake:
    """Durable acceptance; each method is one transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def submit(self, submission: Submission) -> Receipt:
        """Accept a job under a new id, or give the one that the same key was accepted under.

        Raises:
            InvalidInput: the key was used for another job, or the spec contradicts itself.
        """
        spec_text = submission.spec.model_dump_json()
        fingerprint = hashlib.sha256(spec_text.encode()).hexdigest()
        with self._database.write() as connection:
            if submission.key is not None:
                known = _known_key(connection, submission.key, fingerprint)
                if known is not None:
                    return Receipt(known, 0)
            connection.execute(
                update(t.manager_state).values(job_sequence=t.manager_state.c.job_sequence + 1)
            )
            sequence = connection.execute(select(t.manager_state.c.job_sequence)).scalar_one()
            # Counted from 0 like the rows of a trace: policies that draw by it decide alike in a replay.
            job = submission.spec.to_job(f"job-{sequence}", submission.now_s, sequence - 1)
            _insert_job(connection, JobRecord(job), spec_text)
            if submission.key is not None:
                values = {"key": submission.key, "fingerprint": fingerprint, "job_id": job.job_id}
                connection.execute(insert(t.idempotency).values(values))
            return Receipt(job.job_id, _append(connection, JobSubmitted(job)))

    def cancel(self, job_id: str) -> Receipt:
        """Accept the wish that a job ends; for an ended one nothing is left to do.

        Raises:
            NotFound: there is no such job.
        """
        with self._database.write() as connection:
            state = connection.execute(select(t.jobs.c.state).where(t.jobs.c.job_id == job_id)).scalar()
            if state is None:
                raise NotFound(f"job {job_id!r}: there is no such job")
            if JobState(state) in ENDED:
                return Receipt(job_id, 0)
            return Receipt(job_id, _append(connection, JobCancelled(job_id)))

    def define_profile(self, profile: Profile) -> int:
        """Accept a profile; known from the answer on, also to the next submission."""
        body = encode(PROFILE, profile)
        with self._database.write() as connection:
            mine = t.profiles.c.name == profile.name
            if connection.execute(update(t.profiles).where(mine).values(body=body)).rowcount == 0:
                connection.execute(insert(t.profiles).values(name=profile.name, body=body))
            return _append(connection, ProfileDefined(profile))

    def join(self, node: Node, *, simulated: bool) -> int:
        """Accept what a node is made of.

        Raises:
            InvalidInput: another node has one of its GPUs.
        """
        with self._database.write() as connection:
            _refuse_foreign_gpus(connection, node)
            mine = t.nodes.c.node_id == node.node_id
            known = connection.execute(select(t.nodes.c.state).where(mine)).scalar()
            body = encode(NODE, node)
            if known is None:
                position = connection.execute(select(func.count()).select_from(t.nodes)).scalar_one()
                values = {"node_id": node.node_id, "position": position, "state": NodeState.JOINING.value}
                connection.execute(insert(t.nodes).values(**values, simulated=simulated, body=body))
            else:
                changes: dict[str, object] = {"simulated": simulated}
                if known == NodeState.JOINING.value:
                    changes["body"] = body
                connection.execute(update(t.nodes).where(mine).values(changes))
            return _append(connection, NodeJoined(node))

    def append(self, events: Sequence[Event]) -> int:
        """Accept events that the manager itself concluded; gives the last inbox number, 0 without any."""
        if not events:
            return 0
        with self._database.write() as connection:
            return max((_append(connection, event) for event in events), default=0)

    def order(self, entries: Sequence[OutboxEntry]) -> None:
        """Put commands into the outbox that the core need not know of."""
        with self._database.write() as connection:
            for entry in entries:
                put_command(connection, entry)

    def report(self, node_id: str, reports: Sequence[WorkerReport], now_s: float) -> int:
        """Accept reports, each once; gives the last inbox number, 0 if nothing was new for the core.

        Progress has no need of that: it only ever goes forward.  Reports on jobs that nobody knows are taken
        and dropped: to repeat them would not help the agent.
        """
        last = 0
        with self._database.write() as connection:
            ids = [report.report_id for report in reports]
            seen = _seen_reports(connection, node_id, ids)
            jobs = _existing_jobs(connection, {report.job_id for report in reports})
            for report in reports:
                if report.report_id in seen or report.job_id not in jobs:
                    continue
                _record_progress(connection, report)
                if report.kind is ReportKind.PROGRESS:
                    continue
                seen.add(report.report_id)
                values = {"node_id": node_id, "report_id": report.report_id, "received_s": now_s}
                connection.execute(insert(t.reports).values(values))
                event = _event_of(report)
                if event is not None:
                    last = _append(connection, event)
        return last

    def acknowledge(self, node_id: str, sequence: int) -> None:
        """Drop the node's commands up to and including that number: its agent has dealt with them."""
        with self._database.write() as connection:
            mine = (t.outbox.c.node_id == node_id) & (t.outbox.c.sequence <= sequence)
            connection.execute(delete(t.outbox).where(mine))

    def forget_reports(self, now_s: float) -> None:
        """Drop report ids that are too old to be repeated."""
        with self._database.write() as connection:
            connection.execute(delete(t.reports).where(t.reports.c.received_s < now_s - REPORTS_KEPT_S))


def put_command(connection: Connection, entry: OutboxEntry) -> None:
    """Add a command to the outbox."""
    connection.execute(
        insert(t.outbox).values(
            node_id=entry.node_id,
            kind=entry.kind.value,
            job_id=entry.job_id,
            attempt=entry.attempt,
            worker=entry.worker,
            body=entry.body,
        )
    )


def _append(connection: Connection, event: Event) -> int:
    kind, body = encode_event(event)
    result = connection.execute(insert(t.inbox).values(kind=kind, body=body))
    key = result.inserted_primary_key
    return int(key[0]) if key else 0


def _known_key(connection: Connection, key: str, fingerprint: str) -> str | None:
    row = connection.execute(select(t.idempotency).where(t.idempotency.c.key == key)).one_or_none()
    if row is None:
        return None
    if row.fingerprint != fingerprint:
        raise InvalidInput(f"Idempotency-Key {key!r} was used for another job ({row.job_id}); use a new key")
    return str(row.job_id)


def _insert_job(connection: Connection, record: JobRecord, spec_text: str) -> None:
    job = record.job
    connection.execute(
        insert(t.jobs).values(
            sequence=job.sequence,
            job_id=job.job_id,
            name=job.name,
            tenant=job.tenant,
            state=record.state.value,
            attempt=record.attempt,
            submit_s=job.submit_s,
            admitted=False,
            version=0,
            spec=spec_text,
            record=encode(RECORD, record),
            placed=encode(ASSIGNMENTS, ()),
        )
    )


def _refuse_foreign_gpus(connection: Connection, node: Node) -> None:
    mine = {gpu.uuid for gpu in node.gpus}
    for row in connection.execute(select(t.nodes).where(t.nodes.c.node_id != node.node_id)):
        other: Node = NODE.validate_json(row.body)
        for gpu in other.gpus:
            if gpu.uuid in mine:
                raise InvalidInput(
                    f"node {node.node_id!r}: GPU {gpu.uuid} belongs to node {row.node_id!r}; "
                    "give the agent the id of that node, or the GPU another uuid"
                )


def _seen_reports(connection: Connection, node_id: str, ids: Sequence[str]) -> set[str]:
    seen: set[str] = set()
    for begin in range(0, len(ids), 500):
        some = t.reports.c.report_id.in_(ids[begin : begin + 500])
        query = select(t.reports.c.report_id).where((t.reports.c.node_id == node_id) & some)
        seen.update(connection.execute(query).scalars())
    return seen


def _existing_jobs(connection: Connection, ids: set[str]) -> set[str]:
    wanted, found = sorted(ids), set[str]()
    for begin in range(0, len(wanted), 500):
        query = select(t.jobs.c.job_id).where(t.jobs.c.job_id.in_(wanted[begin : begin + 500]))
        found.update(connection.execute(query).scalars())
    return found


def _record_progress(connection: Connection, report: WorkerReport) -> None:
    values = {
        "step": report.step,
        "steps_per_s": report.steps_per_s,
        "observed_slowdown": report.observed_slowdown,
        "served_s": report.served_s,
    }
    known = {name: value for name, value in values.items() if value is not None}
    if not known:
        return
    key = {"job_id": report.job_id, "attempt": report.attempt, "worker": report.worker}
    mine = (
        (t.progress.c.job_id == report.job_id)
        & (t.progress.c.attempt == report.attempt)
        & (t.progress.c.worker == report.worker)
    )
    row = connection.execute(select(t.progress.c.step).where(mine)).one_or_none()
    if row is None:
        connection.execute(insert(t.progress).values(**key, **known))
        return
    if row.step is not None and report.step is not None and row.step > report.step:
        known = {name: value for name, value in known.items() if name == "served_s"}
    if known:
        connection.execute(update(t.progress).where(mine).values(known))


def _event_of(report: WorkerReport) -> Event | None:
    if report.kind is ReportKind.STARTED:
        return WorkerStarted(report.job_id, report.attempt, report.worker)
    if report.kind is ReportKind.EXITED and report.cause is not None:
        return WorkerExited(
            report.job_id,
            report.attempt,
            report.worker,
            report.cause,
            report.exit_code,
            report.message,
            report.served_s,
        )
    return None
