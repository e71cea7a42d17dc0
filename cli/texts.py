"""How single values read: times, slowdowns, shares, places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cli.tables import UNKNOWN

if TYPE_CHECKING:
    from manager.wire.models import JobView, RequestSpec, ShareView


def duration_text(seconds: float) -> str:
    """A span of time in its two largest units: ``12s``, ``3m05s``, ``2h10m``, ``3d04h``."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02d}h"


def count_text(count: int, thing: str) -> str:
    """``1 job``, ``2 jobs``."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def slowdown_text(slowdown: float | None) -> str:
    """``1.20x``, or ``unknown``."""
    return UNKNOWN if slowdown is None else f"{slowdown:.2f}x"


def prediction_text(job: JobView) -> str:
    """The predicted slowdown and its upper bound: ``1.20x (up to 1.30x)``."""
    if job.predicted_slowdown is None:
        return UNKNOWN
    upper = job.predicted_upper
    bound = "" if upper is None or upper == job.predicted_slowdown else f" (up to {upper:.2f}x)"
    return slowdown_text(job.predicted_slowdown) + bound


def share_text(share: ShareView, *, memory: bool = True) -> str:
    """What is held of a GPU: ``exclusive``, ``mig 1g.10gb``, ``mps 30% 10Gi`` (or without its memory).

    Of a share in a MIG slice its slice, too: ``mps 14% in 3g.40gb``.
    """
    from placement.model import format_bytes, format_milli

    if share.mode.value == "mig":
        return f"{share.mode.value} {share.mig_profile}"
    if share.mode.value == "exclusive":
        return share.mode.value
    place = "" if share.mig_profile is None else f" in {share.mig_profile}"
    held = f"{share.mode.value} {format_milli(share.compute_milli)}{place}"
    if share.memory_bytes is None or not memory:
        return held
    return f"{held} {format_bytes(share.memory_bytes)}"


def request_text(request: RequestSpec) -> str:
    """What one worker asks for, without what is the default."""
    from placement.model import Mode, format_bytes, format_milli

    one_gpu = request.devices.value == "same"
    parts = [f"{request.gpus} shares of one GPU" if one_gpu else count_text(request.gpus, "GPU")]
    if request.gpu_models:
        parts.append("or ".join(f"{model} " for model in request.gpu_models).strip())
    if request.memory_bytes is not None:
        parts.append(format_bytes(request.memory_bytes))
    if request.compute_milli is not None:
        parts.append(format_milli(request.compute_milli))
    if request.mig_profile is not None:
        parts.append(request.mig_profile)
    elif 0 < len(request.modes) < len(Mode):
        parts.append("|".join(mode.value for mode in request.modes))
    if request.max_slowdown is not None:
        parts.append(f"<={request.max_slowdown:g}x")
    if request.together is not None:
        parts.append(f"together:{request.together.level.value}{',required' * request.together.required}")
    return " ".join(parts)


def place_text(job: JobView) -> str | None:
    """Where the workers run: ``sim-0`` or ``sim-0, sim-1``; None where nothing is held."""
    nodes = sorted({assignment.node_id for assignment in job.assignments})
    return ", ".join(nodes) or None


def shares_text(job: JobView, *, memory: bool = True) -> str | None:
    """What the job holds, equal shares once: ``mps 30% 10Gi`` or ``2 x exclusive``."""
    shares = [
        share_text(share, memory=memory) for assignment in job.assignments for share in assignment.shares
    ]
    kinds = dict.fromkeys(shares)
    counted = [(shares.count(kind), kind) for kind in kinds]
    return ", ".join(kind if count == 1 else f"{count} x {kind}" for count, kind in counted) or None


def neighbours_text(job: JobView, present: Sequence[str] | None) -> str:
    """Who shares its GPUs now, then who did before; ``present`` is None for a job that holds nothing."""
    if present is None:
        return f"{', '.join(job.neighbours)} (at any time)" if job.neighbours else "none"
    before = [job_id for job_id in job.neighbours if job_id not in present]
    return (", ".join(present) or "none") + (f"; before: {', '.join(before)}" if before else "")


def exit_text(job: JobView) -> str | None:
    """How it ended: ``0``, ``3``, ``signal 9``; None while it has not."""
    if job.exit_code is None:
        return None
    return f"signal {-job.exit_code}" if job.exit_code < 0 else str(job.exit_code)
