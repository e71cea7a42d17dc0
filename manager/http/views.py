"""What is shown of jobs, nodes and GPUs."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping

from manager.dispatch import assignment_view
from manager.services import Services
from manager.store import NodeState, StoredJob, StoredNode
from manager.wire.models import (
    MASK,
    ExplanationView,
    GpuTenancy,
    GpuView,
    JobView,
    LogChunk,
    NodeView,
    RequestSpec,
)
from placement.lifecycle import ENDED, HOLDING, JobRecord, JobState
from placement.model import Node, NotFound, OperationFailed, Outcome
from placement.scheduler import Scheduler

_OUTCOMES = {outcome: outcome.name.lower().replace("_", "-") for outcome in Outcome}


def gpu_models(nodes: Iterable[StoredNode]) -> dict[str, str]:
    """Models by GPU uuid."""
    return {gpu.uuid: gpu.model for stored in nodes for gpu in stored.node.gpus}


def queue_positions(services: Services) -> dict[str, int]:
    """Places of waiting jobs in the queue, from 0; none while the scheduler is out of order."""
    try:
        waiting = services.loop.ask(lambda scheduler: [record.job.job_id for record in scheduler.waiting()])
    except OperationFailed:
        return {}
    return {job_id: place for place, job_id in enumerate(waiting)}


def job_view(stored: StoredJob, models: Mapping[str, str], positions: Mapping[str, int]) -> JobView:
    """One job; the values of its environment stay with the manager."""
    record, spec = stored.record, stored.spec
    job = record.job
    held = record.assignments or record.vacating
    shown = held if held or record.state not in ENDED else stored.placed
    return JobView(
        job_id=job.job_id,
        name=job.name,
        tenant=job.tenant,
        state=record.state,
        attempt=record.attempt,
        command=spec.command,
        env=dict.fromkeys(spec.env, MASK),
        workdir=spec.workdir,
        request=RequestSpec.of(job.request),
        workers=job.workers,
        kind=job.kind,
        priority=job.priority,
        preemptible=job.preemptible,
        retries=job.retries,
        time_limit_s=job.time_limit_s,
        profile=job.profile,
        submit_s=job.submit_s,
        first_placed_s=record.first_placed_s,
        placed_s=record.placed_s,
        ended_s=record.ended_s,
        exit_code=record.exit_code,
        failure=record.failure,
        preemptions=record.preemptions,
        moves=record.moves,
        retries_used=record.retries_used,
        assignments=tuple(assignment_view(assignment, models) for assignment in shown),
        neighbours=stored.neighbours,
        predicted_slowdown=record.predicted_slowdown,
        predicted_upper=record.predicted_upper,
        observed_slowdown=stored.progress.observed_slowdown,
        step=stored.progress.step,
        steps_per_s=stored.progress.steps_per_s,
        position=positions.get(job.job_id),
    )


def _explained(scheduler: Scheduler, job_id: str) -> ExplanationView:
    """Why a job waits, or is where it is, and beside whom.

    Raises:
        NotFound: the scheduler does not know it, or no longer.
    """
    explanation = scheduler.explain(job_id)
    return ExplanationView(
        job_id=explanation.job_id,
        outcome=_OUTCOMES[explanation.outcome],
        reasons={reason.value: count for reason, count in explanation.reasons.items()},
        candidates=explanation.candidates,
        predicted_slowdown=explanation.predicted_slowdown,
        predicted_upper=explanation.predicted_upper,
        note=explanation.note,
        neighbours=_present_neighbours(scheduler, scheduler.record(job_id)),
    )


def _present_neighbours(scheduler: Scheduler, record: JobRecord) -> tuple[str, ...]:
    held = {share.gpu_uuid for assignment in record.assignments for share in assignment.shares}
    there = {tenancy.job_id for gpu_uuid in held for tenancy in scheduler.residents(gpu_uuid)}
    others = map(scheduler.record, there - {record.job.job_id})
    return tuple(other.job.job_id for other in sorted(others, key=lambda other: other.job.sequence))


def explain(services: Services, job_id: str) -> ExplanationView:
    """The scheduler's explanation; of an ended job what the store remembers.

    Raises:
        NotFound: there is no such job.
    """
    try:
        return services.loop.ask(lambda scheduler: _explained(scheduler, job_id))
    except NotFound:
        record = services.store.queries.job(job_id).record
    placed = record.first_placed_s is not None
    waits = "it has been accepted and is about to be looked at"
    return ExplanationView(
        job_id=job_id,
        outcome=_OUTCOMES[Outcome.FIT if placed else Outcome.NO_FIT],
        reasons={reason.value: count for reason, count in record.ruled_out.items()},
        candidates=record.candidates,
        predicted_slowdown=record.predicted_slowdown,
        predicted_upper=record.predicted_upper,
        note=f"{record.state.value}: {record.failure}".rstrip(": ") if record.state in ENDED else waits,
    )


def log_chunk(services: Services, worker: tuple[str, int | None, int], offset: int) -> LogChunk:
    """Output of a worker (job id, attempt or None for the latest, worker).

    Raises:
        NotFound: the job has no such attempt or worker.
    """
    job_id, wanted, index = worker
    # First whether it is over, then what there is: the output is complete before its end is reported.
    record = services.store.queries.job(job_id).record
    attempt = wanted if wanted is not None else max(record.attempt, 1)
    if index >= record.job.workers:
        raise NotFound(f"job {job_id}: it has workers 0 to {record.job.workers - 1}, not {index}")
    if attempt > max(record.attempt, 1):
        raise NotFound(f"job {job_id}: its latest attempt is {record.attempt}, not {attempt}")
    over = _is_over(record, attempt, index)
    data = services.logs.read((job_id, attempt, index), offset)
    size = services.logs.size((job_id, attempt, index))
    return LogChunk(
        text_base64=base64.b64encode(data).decode(),
        attempt=attempt,
        next_offset=offset + len(data),
        complete=over and offset + len(data) >= size,
    )


def _is_over(record: JobRecord, attempt: int, worker: int) -> bool:
    if record.state in ENDED or attempt < record.attempt:
        return True
    if record.attempt == 0:
        return False
    return worker in record.exited_workers or record.state in (JobState.QUEUED, JobState.PLACED)


def node_views(services: Services) -> list[NodeView]:
    """All nodes by node id."""
    workers = services.loop.ask(_workers_by_node)
    return [
        NodeView(
            node_id=stored.node.node_id,
            state=stored.state.value,
            simulated=stored.simulated,
            cpu_milli=stored.node.cpu_milli,
            ram_bytes=stored.node.ram_bytes,
            gpus=tuple(gpu.model for gpu in stored.node.gpus),
            workers=workers.get(stored.node.node_id, 0),
            last_seen_s=services.leases.last_seen_s(stored.node.node_id),
            rack=stored.node.rack,
            nvlink_domain=stored.node.nvlink_domain,
        )
        for stored in _by_id(services)
    ]


def _by_id(services: Services) -> list[StoredNode]:
    return sorted(services.store.queries.nodes(), key=lambda stored: stored.node.node_id)


def _workers_by_node(scheduler: Scheduler) -> dict[str, int]:
    counts: dict[str, int] = {}
    for record in scheduler.records():
        if record.state in HOLDING:
            for assignment in record.assignments:
                counts[assignment.node_id] = counts.get(assignment.node_id, 0) + 1
    return counts


def gpu_views(services: Services) -> list[GpuView]:
    """All GPUs with the shares on them, by node id and slot."""
    nodes = _by_id(services)
    models = gpu_models(nodes)
    held = services.loop.ask(lambda scheduler: _tenancies(scheduler, models))
    return [
        _gpu_view(services, stored, slot, held.get(gpu.uuid, ()))
        for stored in nodes
        for slot, gpu in enumerate(stored.node.gpus)
    ]


def _gpu_view(
    services: Services, stored: StoredNode, slot: int, tenancies: tuple[GpuTenancy, ...]
) -> GpuView:
    node: Node = stored.node
    gpu = node.gpus[slot]
    measured = services.telemetry.get(gpu.uuid)
    return GpuView(
        uuid=gpu.uuid,
        model=gpu.model,
        node_id=node.node_id,
        slot=slot,
        memory_bytes=gpu.memory_bytes,
        available=stored.state is NodeState.UP,
        sm_milli=measured.sm_milli if measured is not None else None,
        memory_used_bytes=measured.memory_used_bytes if measured is not None else None,
        tenancies=tenancies,
    )


def _tenancies(scheduler: Scheduler, models: Mapping[str, str]) -> dict[str, tuple[GpuTenancy, ...]]:
    """Who holds what, by GPU; those who are leaving are shown until they have left."""
    found: dict[str, list[GpuTenancy]] = {}
    for record in scheduler.records():
        if record.state not in HOLDING:
            continue
        for assignment in record.assignments or record.vacating:
            if assignment.worker in record.exited_workers:
                continue
            for share in assignment_view(assignment, models).shares:
                tenancy = GpuTenancy(
                    job_id=record.job.job_id,
                    tenant=record.job.tenant,
                    worker=assignment.worker,
                    state=record.state,
                    share=share,
                )
                found.setdefault(share.gpu_uuid, []).append(tenancy)
    return {uuid: tuple(tenancies) for uuid, tenancies in found.items()}
