"""What a step of the core may have changed, read off its events and its answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from manager.store import NodeState
from placement.lifecycle import JobRecord
from placement.model import (
    Assignment,
    Event,
    JobCancelled,
    JobSubmitted,
    Node,
    NodeFenced,
    NodeJoined,
    NodeLost,
    NotFound,
    ProfileDefined,
    StartWorker,
    WorkerExited,
    WorkerStarted,
)
from placement.scheduler import Scheduler, Step


def changed_records(
    scheduler: Scheduler, events: Sequence[Event], step: Step, more: Iterable[str]
) -> tuple[JobRecord, ...]:
    """The records that the step may have changed, in the order of submission; of ``more`` too."""
    ids = {move.job_id for move in step.transitions} | {command.job_id for command in step.commands}
    ids.update(more)
    fenced = set[str]()
    for event in events:
        match event:
            case WorkerStarted(job_id=job_id) | WorkerExited(job_id=job_id) | JobCancelled(job_id=job_id):
                ids.add(job_id)
            case JobSubmitted(job=job):
                ids.add(job.job_id)
            case NodeFenced(node_id=node_id):
                fenced.add(node_id)
            case NodeJoined() | NodeLost() | ProfileDefined():
                pass
    if fenced:
        ids |= {record.job.job_id for record in scheduler.records() if _is_on(record, fenced)}
    records = []
    for job_id in ids:
        try:
            records.append(scheduler.record(job_id))
        except NotFound:
            continue  # a late report on a job that ended long ago
    return tuple(sorted(records, key=lambda record: record.job.sequence))


def _is_on(record: JobRecord, node_ids: set[str]) -> bool:
    held: tuple[Assignment, ...] = (*record.assignments, *record.vacating)
    return any(assignment.node_id in node_ids for assignment in held)


def node_states(known: Mapping[str, Node], events: Sequence[Event]) -> tuple[tuple[Node, NodeState], ...]:
    """The last word of the batch on each node."""
    changes: dict[str, tuple[Node, NodeState]] = {}
    for event in events:
        if isinstance(event, NodeJoined):
            changes[event.node.node_id] = (event.node, NodeState.UP)
        elif isinstance(event, NodeLost | NodeFenced):
            state = NodeState.LOST if isinstance(event, NodeLost) else NodeState.FENCED
            node = changes[event.node_id][0] if event.node_id in changes else known[event.node_id]
            changes[event.node_id] = (node, state)
    return tuple(changes.values())


def new_pairs(scheduler: Scheduler, step: Step) -> frozenset[tuple[str, str]]:
    """Who shares a GPU with whom, for every worker that is started in this step."""
    pairs = set[tuple[str, str]]()
    for command in step.commands:
        if not isinstance(command, StartWorker):
            continue
        for share in command.assignment.shares:
            for tenancy in scheduler.residents(share.gpu_uuid):
                if tenancy.job_id != command.job_id:
                    first, second = sorted((tenancy.job_id, command.job_id))
                    pairs.add((first, second))
    return frozenset(pairs)
