"""Routes for agents: they report, fetch commands and acknowledge them; every contact renews the lease."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from starlette.concurrency import run_in_threadpool

from manager.dispatch import agent_command
from manager.http.parameters import AttemptNumber, JobId, NodeId, Offset, Serving, WorkerNumber
from manager.services import Services
from manager.store import NodeState, StoredNode
from manager.wire.agent_models import (
    Ack,
    AgentCommand,
    CommandBatch,
    Heartbeat,
    LogSize,
    NodeReport,
    ReportBatch,
    Welcome,
)
from manager.wire.fields import MAX_SEQUENCE
from manager.wire.models import ProfileSpec
from placement.model import NodeJoined, NotFound, StateError

router = APIRouter(prefix="/agent/nodes/{node_id}", tags=["agent"])

MAX_COMMANDS = 256
"""Most commands in one answer; an agent asks again at once for more."""
MAX_WAIT_S = 60.0


@router.put("")
def join(node_id: NodeId, report: NodeReport, serving: Serving) -> Welcome:
    """Say what a node is made of; it takes part from then on.

    409: another agent speaks for it, or its agent's journal belongs to another database.
    """
    _check_database(serving, node_id, report)
    _check_epoch(serving, node_id, report.epoch or 0)
    _claim(serving, node_id, report.instance)
    node = report.to_node(node_id)
    if not _is_up(serving, StoredNode(node, NodeState.UP, report.simulated)):
        sequence = serving.store.intake.join(node, simulated=report.simulated)
        serving.loop.wake()
        serving.loop.wait_for(sequence, 1.0)
    return _welcome(serving, node_id)


@router.post("/heartbeat")
def heartbeat(node_id: NodeId, beat: Heartbeat, serving: Serving) -> Welcome:
    """Renew the lease; a lost node is back with it.  404: the node has to report what it is made of again."""
    stored = serving.store.queries.node(node_id)
    _check_epoch(serving, node_id, beat.epoch)
    _claim(serving, node_id, beat.instance)
    if stored.state is not NodeState.UP:
        serving.store.intake.append([NodeJoined(stored.node)])
        serving.loop.wake()
    mine = {gpu.uuid for gpu in stored.node.gpus}
    serving.telemetry.update(each for each in beat.telemetry if each.gpu_uuid in mine)
    serving.reconciler.compare(node_id, beat.workers)
    return _welcome(serving, node_id)


@router.get("/commands")
async def commands(
    node_id: NodeId,
    serving: Serving,
    after: Annotated[int, Query(ge=0, le=MAX_SEQUENCE)] = 0,
    wait_s: Annotated[float, Query(ge=0, le=MAX_WAIT_S, allow_inf_nan=False)] = 20.0,
) -> CommandBatch:
    """Commands that are not acknowledged, after that number; waits for the first."""
    await run_in_threadpool(serving.store.queries.node, node_id)
    deadline_s = asyncio.get_running_loop().time() + wait_s
    found: tuple[AgentCommand, ...] = ()
    while not found:
        with serving.bell.listen(node_id) as rung:
            found = await run_in_threadpool(_commands, serving, node_id, after)
            left_s = deadline_s - asyncio.get_running_loop().time()
            if found or left_s <= 0 or serving.bell.closed:
                break
            try:
                await asyncio.wait_for(rung.wait(), left_s)
            except TimeoutError:
                break
    _renew(serving, node_id)
    return CommandBatch(commands=found)


@router.post("/acks", status_code=204)
def acknowledge(node_id: NodeId, ack: Ack, serving: Serving) -> None:
    """All commands up to and including that number are dealt with; they do not come again."""
    serving.store.queries.node(node_id)
    _renew(serving, node_id)
    serving.store.intake.acknowledge(node_id, ack.sequence)


@router.post("/reports", status_code=204)
def reports(node_id: NodeId, batch: ReportBatch, serving: Serving) -> None:
    """Take reports; each counts once, by its ``report_id``."""
    serving.store.queries.node(node_id)
    _renew(serving, node_id)
    serving.store.intake.report(node_id, batch.reports, serving.clock.now_s())
    serving.store.intake.append(serving.speeds.events_of(batch.reports))
    serving.loop.wake()


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a piece of output belongs: the worker (job id, attempt, worker) and the offset in bytes."""

    node_id: str
    worker: tuple[str, int, int]
    offset: int


def _place(
    node_id: NodeId, job_id: JobId, attempt: AttemptNumber, worker: WorkerNumber, offset: Offset = 0
) -> _Place:
    return _Place(node_id, (job_id, attempt, worker), offset)


@router.post("/logs/{job_id}/{attempt}/{worker}")
async def append_log(
    place: Annotated[_Place, Depends(_place)], request: Request, serving: Serving
) -> LogSize:
    """Append raw output; 409 with the size if the manager does not hold exactly ``offset`` bytes."""
    data = await request.body()
    return LogSize(size=await run_in_threadpool(_append_log, serving, place, data))


def _append_log(serving: Services, place: _Place, data: bytes) -> int:
    serving.store.queries.node(place.node_id)
    _renew(serving, place.node_id)
    job_id, attempt, index = place.worker
    # Also: file names come from ids that exist, not from text.
    record = serving.store.queries.job(job_id).record
    if attempt > record.attempt or index >= record.job.workers:
        raise NotFound(f"job {job_id}: it has no attempt {attempt} with a worker {index}")
    return serving.logs.append(place.worker, place.offset, data)


def _is_up(serving: Services, wanted: StoredNode) -> bool:
    try:
        return serving.store.queries.node(wanted.node.node_id) == wanted
    except NotFound:
        return False


def _check_epoch(serving: Services, node_id: str, seen: int) -> None:
    """Do not lead agents that have seen more: their journals may know other jobs under the ids of ours."""
    if seen > serving.epoch:
        raise StateError(
            f"node {node_id}: its agent has seen epoch {seen}, this database only {serving.epoch}: it is new "
            "or restored; give the agent a new data folder, or start the manager on the former database"
        )


def _check_database(serving: Services, node_id: str, report: NodeReport) -> None:
    """Nor agents of another database, for the same reason."""
    if report.database_id is not None and report.database_id != serving.database_id:
        raise StateError(
            f"node {node_id}: its agent belongs to database {report.database_id}, this one is "
            f"{serving.database_id}; give the agent a new data folder, or start the manager on the former "
            "database"
        )


def _claim(serving: Services, node_id: str, agent: str | None) -> None:
    """Renew the lease for that agent: two agents of one node would both run every job."""
    if agent is None:
        _renew(serving, node_id)
    elif not serving.leases.claim(node_id, agent, serving.clock.now_s()):
        raise StateError(
            f"another agent is running as node {node_id}; stop that one first, or give this one another "
            "--node-id"
        )


def _renew(serving: Services, node_id: str) -> None:
    serving.leases.touch(node_id, serving.clock.now_s())


def _welcome(serving: Services, node_id: str) -> Welcome:
    _renew(serving, node_id)
    times = serving.leases.times
    profiles = tuple(map(ProfileSpec.of, serving.store.queries.profiles()))
    return Welcome(
        epoch=serving.epoch,
        lease_s=times.lease_s,
        fence_s=times.fence_s,
        database_id=serving.database_id,
        profiles=profiles,
    )


def _commands(serving: Services, node_id: str, after: int) -> tuple[AgentCommand, ...]:
    queries = serving.store.queries
    pending = queries.commands(node_id, after, MAX_COMMANDS)
    if not pending:
        return ()
    profiles = {profile.name: profile for profile in queries.profiles()}
    return tuple(agent_command(each, serving.epoch, profiles) for each in pending)
