"""The canonical text of what was decided: equal logs are equal decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from placement.model import Command, Share, StartWorker

if TYPE_CHECKING:
    from placement.scheduler import Step


def lines(step: Step, now_s: float) -> list[str]:
    """One line a transition and one a command, in the order of the step."""
    moves = [
        f"{now_s:.6f} {t.job_id} {t.attempt} {t.before.value if t.before else '-'} -> {t.after.value}"
        for t in step.transitions
    ]
    return moves + [f"{now_s:.6f} {_order(command)}" for command in step.commands]


def _order(command: Command) -> str:
    if isinstance(command, StartWorker):
        held = command.assignment
        shares = " ".join(_share(share) for share in held.shares)
        return f"start {command.job_id} {command.attempt}.{held.worker} on {held.node_id} {shares}".rstrip()
    return (
        f"stop {command.job_id} {command.attempt}.{command.worker} on {command.node_id} {command.cause.value}"
    )


def _share(share: Share) -> str:
    cut = f"/{share.mig_profile}@{share.mig_start}" if share.mig_profile is not None else ""
    memory = "-" if share.memory_bytes is None else str(share.memory_bytes)
    return f"{share.gpu_uuid}:{share.mode.value}{cut}:{share.compute_milli}:{memory}"
