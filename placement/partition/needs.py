"""What a request means on one GPU model: the shares that would satisfy it, best first."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from placement.model import WHOLE_GPU_MILLI, Devices, Isolation, Mode, Profile, Request, model_matches
from placement.model.amounts import MAX_BYTES
from placement.partition.geometry import MigGeometry, geometry_of
from placement.partition.mps import mps_max_clients

AUTO_STEP_MILLI = 50
"""Automatic compute shares are rounded up to this step, so that like requests stay alike."""

MODE_ORDER = (Mode.MPS, Mode.TIMESLICE, Mode.MIG, Mode.EXCLUSIVE)
"""Shares before slices before a whole GPU: the first that fits is taken."""


@dataclass(frozen=True, slots=True)
class Need:
    """One share per GPU that would do; ``mig_profile`` is an index into the model's geometry.

    ``memory_bytes`` None is not accounted.  An MPS share or a time slice with a MIG profile lies in such a
    slice, together with the other shares of its worker.
    """

    mode: Mode
    compute_milli: int
    memory_bytes: int | None
    mig_profile: int | None = None

    @property
    def gpu_mode(self) -> Mode:
        """The mode that the GPU has to be in: MIG, too, for a share of a slice."""
        return self.mode if self.mig_profile is None else Mode.MIG


def needs_of(
    request: Request, profile: Profile | None, model: str, gpu_memory_bytes: int | None
) -> dict[Mode, Need]:
    """The acceptable shares of one GPU of this model, by mode; empty if it cannot serve the request.

    Where a worker's shares lie on the same GPU, each is such a share, and an empty GPU holds them all.
    """
    share = share_of(request, profile, model, gpu_memory_bytes)
    if share is None:
        return {}
    compute, memory = share
    modes = _accepted(request, compute)
    if request.devices is Devices.SAME:
        modes = modes & _fitting_at_once(request, model, compute, (memory, gpu_memory_bytes))
    needs: dict[Mode, Need] = {}
    for mode in modes & {Mode.MPS, Mode.TIMESLICE}:
        needs[mode] = Need(mode, compute, memory)
    geometry = geometry_of(model) if Mode.MIG in modes else None
    if geometry is not None:
        wanted: int | None = compute
        if request.compute_milli is None and (
            request.mig_profile is not None or sized_by_memory(profile, memory)
        ):
            wanted = None
        slow = _too_slow(geometry, request, profile, model)
        chosen = _mig_profile(geometry, request.mig_profile, wanted, memory, slow)
        if chosen is not None and geometry.room[0, chosen] >= request.shares_per_gpu:
            cut = geometry.profiles[chosen]
            needs[Mode.MIG] = Need(Mode.MIG, geometry.compute_milli(cut), cut.memory_bytes, chosen)
    if Mode.EXCLUSIVE in modes:
        needs[Mode.EXCLUSIVE] = Need(Mode.EXCLUSIVE, WHOLE_GPU_MILLI, gpu_memory_bytes)
    return needs


def share_of(
    request: Request, profile: Profile | None, model: str, gpu_memory_bytes: int | None
) -> tuple[int, int | None] | None:
    """Compute (thousandths) and memory that one share takes of a GPU, None if the GPU cannot serve it."""
    if request.gpu_models and not any(model_matches(selector, model) for selector in request.gpu_models):
        return None
    memory = request.memory_bytes
    if memory is None and profile is not None:
        memory = profile.memory_bytes
    if memory is not None and gpu_memory_bytes is not None and memory > gpu_memory_bytes:
        return None
    return _compute_milli(request, profile, memory, gpu_memory_bytes), memory


def possible_modes(request: Request) -> frozenset[Mode]:
    """The accepted modes that the rest of the request leaves, whatever the GPU."""
    if request.mig_profile is not None:
        return frozenset({Mode.MIG})
    modes = request.modes
    if request.isolation is Isolation.HARDWARE:
        modes = modes & {Mode.EXCLUSIVE, Mode.MIG}
    return modes - {Mode.EXCLUSIVE} if request.devices is Devices.SAME else modes


def _accepted(request: Request, compute_milli: int) -> frozenset[Mode]:
    modes = possible_modes(request)
    if compute_milli == WHOLE_GPU_MILLI and Mode.EXCLUSIVE in modes:
        return frozenset({Mode.EXCLUSIVE})
    return modes


def _fitting_at_once(
    request: Request, model: str, compute_milli: int, memory: tuple[int | None, int | None]
) -> frozenset[Mode]:
    """Modes in which an empty GPU holds all shares of a worker; ``memory`` is of a share and of the GPU."""
    copies = request.shares_per_gpu
    wanted, there = memory
    modes = {Mode.MIG}
    if compute_milli * copies <= WHOLE_GPU_MILLI and (wanted or 0) * copies <= (there or MAX_BYTES * copies):
        modes.add(Mode.TIMESLICE)
        if copies <= mps_max_clients(model):
            modes.add(Mode.MPS)
    return frozenset(modes)


def _compute_milli(
    request: Request, profile: Profile | None, memory_bytes: int | None, gpu_memory_bytes: int | None
) -> int:
    """The stated compute; else the profile's SM use; else as much as of the memory; else the whole GPU."""
    if request.compute_milli is not None:
        return request.compute_milli
    if profile is not None and profile.sm_milli is not None:
        wanted = profile.sm_milli
    elif memory_bytes is not None and gpu_memory_bytes is not None:
        wanted = -(-WHOLE_GPU_MILLI * memory_bytes // gpu_memory_bytes)
    else:
        return WHOLE_GPU_MILLI
    rounded = -(-wanted // AUTO_STEP_MILLI) * AUTO_STEP_MILLI
    return min(max(rounded, AUTO_STEP_MILLI), WHOLE_GPU_MILLI)


def sized_by_memory(profile: Profile | None, memory_bytes: int | None) -> bool:
    """Whether an automatic share follows the memory: then the memory alone chooses the slice."""
    return memory_bytes is not None and (profile is None or profile.sm_milli is None)


def _too_slow(geometry: MigGeometry, request: Request, profile: Profile | None, model: str) -> frozenset[str]:
    """Slices in which a job is known to be slower than it was promised."""
    if profile is None or request.max_slowdown is None:
        return frozenset()
    known = {cut.name: profile.slice_slowdown(model, cut.name) for cut in geometry.profiles}
    return frozenset(name for name, slow in known.items() if slow is not None and slow > request.max_slowdown)


def _mig_profile(
    geometry: MigGeometry,
    name: str | None,
    compute_milli: int | None,
    memory_bytes: int | None,
    slow: frozenset[str],
) -> int | None:
    """The named profile, else the smallest that holds compute and memory; media slices only by name."""
    named = [i for i, cut in enumerate(geometry.profiles) if cut.name == name]
    for i in by_size(geometry) if name is None else named:
        cut = geometry.profiles[i]
        if (
            cut.name not in slow
            and (memory_bytes is None or cut.memory_bytes >= memory_bytes)
            and (compute_milli is None or geometry.compute_milli(cut) >= compute_milli)
        ):
            return i
    return None


@functools.lru_cache(maxsize=64)
def by_size(geometry: MigGeometry) -> tuple[int, ...]:
    """The profiles of a GPU without media engines, the smallest first, as indices into its geometry."""
    sizes = [(p.compute_slices, p.memory_slices, i) for i, p in enumerate(geometry.profiles) if not p.media]
    return tuple(i for _compute, _memory, i in sorted(sizes))
