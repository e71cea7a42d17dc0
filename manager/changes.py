"""What a step of the core may have changed, read off its events and its answer."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

from manager.store import NodeState
from placement.lifecycle import JobRecord
from placement.model import (
    Event,
    Node,
    NodeFenced,
    NodeJoined,
    NodeLost,
    NotFound,
    StartWorker,
)
from placement.scheduler import Scheduler, Step


def changed_records(scheduler: Scheduler, step: Step) -> tuple[JobRecord, ...]:
    """The records that the step has changed, in the order of submission."""
    records: list[JobRecord] = []
    for job_id in step.changed:
        with contextlib.suppress(NotFound):  # it has been forgotten, so its end is in the store
            records.append(scheduler.record(job_id))
    return tuple(sorted(records, key=lambda record: record.job.sequence))


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
