"""Commands of the core as rows of the outbox, and these as what an agent reads."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import TypeAdapter

from manager.store import OutboxEntry, PendingCommand, assignment_of
from manager.store.codec import ASSIGNMENT, encode
from manager.wire.agent_models import AgentCommand, CommandKind
from manager.wire.models import AssignmentView, ProfileSpec, ShareView
from placement.model import Assignment, Command, Profile, StartWorker, StopCause, StopWorker

Profiles = Mapping[str, Profile]
_STOP = TypeAdapter(tuple[StopCause, float])


def outbox_entry(command: Command) -> OutboxEntry:
    """The row that carries this command."""
    if isinstance(command, StartWorker):
        assignment = command.assignment
        body = encode(ASSIGNMENT, assignment)
        return OutboxEntry(
            assignment.node_id, CommandKind.START, command.job_id, command.attempt, assignment.worker, body
        )
    return stop_entry(command)


def stop_entry(command: StopWorker) -> OutboxEntry:
    """The row that carries this stop."""
    body = encode(_STOP, (command.cause, command.grace_s))
    return OutboxEntry(
        command.node_id, CommandKind.STOP, command.job_id, command.attempt, command.worker, body
    )


def agent_command(pending: PendingCommand, epoch: int, profiles: Profiles) -> AgentCommand:
    """What the agent reads; the epoch is the one that delivers it, whichever wrote it down."""
    entry, spec = pending.entry, pending.spec
    common = {
        "sequence": pending.sequence,
        "epoch": epoch,
        "kind": entry.kind,
        "job_id": entry.job_id,
        "attempt": entry.attempt,
        "worker": entry.worker,
    }
    if entry.kind is CommandKind.STOP or spec is None:
        cause, grace_s = _STOP.validate_json(entry.body)
        return AgentCommand(**common, cause=cause, grace_s=grace_s)
    profile = profiles.get(spec.profile) if spec.profile is not None else None
    return AgentCommand(
        **common,
        workers=spec.workers,
        name=spec.name,
        tenant=spec.tenant,
        command=spec.command,
        env=spec.env,
        workdir=spec.workdir,
        assignment=assignment_view(assignment_of(entry), {}),
        profile=None if profile is None else ProfileSpec.of(profile),
        grace_s=spec.grace_s,
    )


def assignment_view(assignment: Assignment, gpu_models: Mapping[str, str]) -> AssignmentView:
    """An assignment as it is shown; ``gpu_models`` by GPU uuid."""
    shares = tuple(
        ShareView(
            gpu_uuid=share.gpu_uuid,
            mode=share.mode,
            compute_milli=share.compute_milli,
            memory_bytes=share.memory_bytes,
            mig_profile=share.mig_profile,
            mig_start=share.mig_start,
            gpu_model=gpu_models.get(share.gpu_uuid),
        )
        for share in assignment.shares
    )
    return AssignmentView(worker=assignment.worker, node_id=assignment.node_id, shares=shares)
