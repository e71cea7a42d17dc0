"""What MPS shares and time slices lie in, with one set of rules: a whole GPU, or one MIG instance of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from placement.model import WHOLE_GPU_MILLI, Mode, Reason, Share
from placement.partition.geometry import MigGeometry
from placement.partition.mps import mps_max_clients, mps_max_clients_in_slice
from placement.partition.needs import Need

_ALONE = frozenset({Mode.EXCLUSIVE, Mode.MIG})
"""Modes whose holder has the container, be it GPU or instance, to itself."""


@dataclass(frozen=True, slots=True)
class Container:
    """The amounts that shares inside divide among them.

    ``compute_milli`` is in thousandths of the whole GPU, as shares are; ``memory_bytes`` None is unknown and
    constrains nothing; ``max_clients`` is the limit of its MPS server.
    """

    compute_milli: int
    memory_bytes: int | None
    max_clients: int


def whole_gpu(gpu_model: str, memory_bytes: int | None) -> Container:
    """The container that a GPU without MIG is."""
    return Container(WHOLE_GPU_MILLI, memory_bytes, mps_max_clients(gpu_model))


def mig_instance(geometry: MigGeometry, profile: str) -> Container:
    """The container that one MIG instance is.

    Raises:
        UnknownName: this GPU has no such profile.
    """
    cut = geometry.profiles[geometry.profile_index(profile)]
    clients = mps_max_clients_in_slice(geometry, profile)
    return Container(geometry.compute_milli(cut), cut.memory_bytes, clients)


def why_not(container: Container, held: Sequence[Need], wanted: Need) -> Reason | None:
    """Why a container that holds these shares cannot take one more; None if it can.

    A container is shared in one mode at a time.  MPS shares divide compute and memory.  Time slices divide
    the memory and the turns: each has all of the container's compute while it runs, and its share is how much
    of the time that is.  Memory that a share does not state is not accounted.
    """
    if held and (wanted.mode in _ALONE or held[0].mode in _ALONE):
        return Reason.GPU_BUSY
    if any(share.mode is not wanted.mode for share in held):
        return Reason.GPU_MODE
    return None if wanted.mode in _ALONE else _too_little(container, held, wanted)


def _too_little(container: Container, held: Sequence[Need], wanted: Need) -> Reason | None:
    if sum(share.compute_milli for share in held) + wanted.compute_milli > container.compute_milli:
        return Reason.GPU_COMPUTE
    stated = _stated_bytes(held) + (wanted.memory_bytes or 0)
    if container.memory_bytes is not None and stated > container.memory_bytes:
        return Reason.GPU_MEMORY
    if wanted.mode is Mode.MPS and len(held) >= container.max_clients:
        return Reason.MPS_CLIENTS
    return None


def room_for(container: Container, held: Sequence[Need], wanted: Need) -> int:
    """How many more shares like this one the container can take."""
    if why_not(container, held, wanted) is not None:
        return 0
    if wanted.mode in _ALONE:
        return 1
    compute = container.compute_milli - sum(share.compute_milli for share in held)
    limits = [compute // wanted.compute_milli]
    if container.memory_bytes is not None and wanted.memory_bytes:
        limits.append((container.memory_bytes - _stated_bytes(held)) // wanted.memory_bytes)
    if wanted.mode is Mode.MPS:
        limits.append(container.max_clients - len(held))
    return min(limits)


def share_a_fault(one: Share, other: Share) -> bool:
    """Whether a fatal fault of one of these jobs takes the other down with it.

    The clients of one MPS server are one fault domain (NVIDIA MPS documentation, error containment); a MIG
    instance has a server of its own.  Jobs in any other mode have contexts of their own.
    """
    return (
        one.mode is other.mode is Mode.MPS
        and one.gpu_uuid == other.gpu_uuid
        and one.mig_start == other.mig_start
    )


def _stated_bytes(held: Sequence[Need]) -> int:
    return sum(share.memory_bytes for share in held if share.memory_bytes is not None)
