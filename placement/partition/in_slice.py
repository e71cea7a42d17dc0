"""Several shares of one worker in one MIG slice: which slice holds them all, and how they share it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from placement.model import Mode, Profile, Request
from placement.partition.containers import mig_instance, room_for
from placement.partition.geometry import geometry_of
from placement.partition.needs import Need, by_size, possible_modes, share_of, sized_by_memory


def needs_in_slice(
    request: Request, profile: Profile | None, model: str, gpu_memory_bytes: int | None
) -> Iterator[Need]:
    """One share of each slice that holds all shares which a worker wants on the same GPU, the smallest first.

    They divide its compute, since nobody else could use it: as MPS clients where the request accepts MPS and
    the slice may have so many, else they take turns.  Nothing where it does not accept MIG together with
    either.
    """
    modes = possible_modes(request)
    inside = [mode for mode in (Mode.MPS, Mode.TIMESLICE) if mode in modes]
    geometry = geometry_of(model) if Mode.MIG in modes and request.shares_per_gpu > 1 else None
    share = share_of(request, profile, model, gpu_memory_bytes)
    if geometry is None or share is None:
        return
    wanted_milli, memory_bytes = share
    if request.compute_milli is None and sized_by_memory(profile, memory_bytes):
        wanted_milli = 1  # the memory alone chooses the slice
    for cut in by_size(geometry):
        part_milli = geometry.compute_milli(geometry.profiles[cut]) // request.shares_per_gpu
        container = mig_instance(geometry, geometry.profiles[cut].name)
        for mode in inside if part_milli >= wanted_milli else ():
            need = Need(mode, part_milli, memory_bytes)
            if room_for(container, (), need) >= request.shares_per_gpu:
                yield replace(need, mig_profile=cut)
                break
