"""The environment that a job runs in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agent.attempt import PROGRESS
from agent.partitioner import Prepared
from manager.wire.agent_models import AgentCommand
from placement.model import WHOLE_GPU_MILLI, Mode
from placement.partition import active_thread_percentage

_KEPT = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "LD_LIBRARY_PATH"}
    | {"VIRTUAL_ENV", "CUDA_HOME", "CUDA_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR"}
)
"""What a job gets of the agent's own environment, which may hold the token."""
_SHARE = frozenset(
    {"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES"}
    | {"CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"}
    | {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"}
)
"""What carries the share: a job that sets one of these could take more than it was given."""
_GIB, _MIB = 1 << 30, 1 << 20


def base_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The part of the agent's environment that jobs may see."""
    return {name: value for name, value in environment.items() if name in _KEPT or name.startswith("LC_")}


def job_environment(
    base: Mapping[str, str], command: AgentCommand, prepared: Prepared, folder: Path
) -> dict[str, str]:
    """The user's variables win over all but ``COTENANT_*`` and those that carry the share.

    The latter are taken out even where the share sets none: an MPS folder would lead to another GPU's daemon.
    """
    ranks = {"RANK": str(command.worker), "WORLD_SIZE": str(command.workers), "LOCAL_RANK": "0"}
    return {
        **base,
        **ranks,
        **{name: value for name, value in command.env.items() if name not in _SHARE},
        **_share(prepared),
        "COTENANT_JOB_ID": command.job_id,
        "COTENANT_JOB_NAME": command.name,
        "COTENANT_TENANT": command.tenant,
        "COTENANT_ATTEMPT": str(command.attempt),
        "COTENANT_WORKER": str(command.worker),
        "COTENANT_WORKERS": str(command.workers),
        "COTENANT_PROGRESS": str(folder / PROGRESS),
    }


def _share(prepared: Prepared) -> dict[str, str]:
    visible = ",".join(prepared.visible)
    return {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": visible,
        # Without this an NVIDIA container runtime shows all GPUs to a job that has none.
        "NVIDIA_VISIBLE_DEVICES": visible or "void",
        **_mps(prepared),
    }


def _mps(prepared: Prepared) -> dict[str, str]:
    shares = [share for share in prepared.shares if share.mode is Mode.MPS]
    if prepared.mps is None or not shares:
        return {}
    # Those in a slice divide it among them.
    sliced = shares[0].gpu_mode is Mode.MIG
    whole_milli = sum(share.compute_milli for share in shares) if sliced else WHOLE_GPU_MILLI
    variables = {
        "CUDA_MPS_PIPE_DIRECTORY": str(prepared.mps.pipe),
        "CUDA_MPS_LOG_DIRECTORY": str(prepared.mps.log),
        # One figure for all GPUs of a process, a whole number of at least 1.  With several shares of one GPU
        # it holds for each process of the worker: every one is a client of its own.
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(
            active_thread_percentage(min(s.compute_milli for s in shares), whole_milli)
        ),
    }
    # A worker that has shares of a slice has nothing else.
    slots = {0 if sliced else prepared.visible.index(s.gpu_uuid): s.memory_bytes for s in shares}
    limits = [f"{slot}={_size(memory)}" for slot, memory in slots.items() if memory is not None]
    if limits:
        variables["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] = ",".join(limits)
    return variables


def _size(amount_bytes: int) -> str:
    if amount_bytes % _GIB == 0:
        return f"{amount_bytes // _GIB}G"
    return f"{max(1, amount_bytes // _MIB)}M"
