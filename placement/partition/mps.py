"""MPS: how many clients one server may have, and what a client is told of its share."""

from __future__ import annotations

import functools

from placement.model import model_matches
from placement.partition.geometry import MigGeometry

MPS_MAX_CLIENTS = 48
"""Client limit of one MPS server since Volta (NVIDIA MPS documentation; 60 from CUDA 13.1 on, which we do not
count on)."""

MPS_MAX_CLIENTS_BEFORE_VOLTA = 16
"""Client limit of one MPS server before Volta (NVIDIA MPS documentation)."""

BEFORE_VOLTA = {
    "Kepler": ("K20", "K20X", "K20Xm", "K20c", "K20m", "K40", "K40c", "K40m", "K80"),
    "Maxwell": ("M4", "M6", "M10", "M40", "M60", "GTX-950", "GTX-960", "GTX-970", "GTX-980", "GTX-TITAN-X"),
    "Pascal": (
        *("P4", "P6", "P40", "P100", "TITAN-X", "TITAN-Xp", "GTX-1050", "GTX-1060", "GTX-1070", "GTX-1080"),
        *("Quadro-P4000", "Quadro-P5000", "Quadro-P6000", "Quadro-GP100"),
    ),
}
"""GPU models older than Volta that have MPS, as selectors, by architecture."""


@functools.lru_cache(maxsize=1024)
def mps_max_clients(gpu_model: str) -> int:
    """Most clients of one MPS server on this GPU model; one that nobody knows is taken for a newer one."""
    old = any(model_matches(family, gpu_model) for families in BEFORE_VOLTA.values() for family in families)
    return MPS_MAX_CLIENTS_BEFORE_VOLTA if old else MPS_MAX_CLIENTS


def mps_max_clients_in_slice(geometry: MigGeometry, profile: str) -> int:
    """Most clients of the MPS server of one MIG instance.

    Each instance has a server of its own, whose limit falls in proportion to the compute slices (NVIDIA MIG
    user guide, application considerations); that it is rounded down is our reading.

    Raises:
        UnknownName: this GPU has no such profile.
    """
    cut = geometry.profiles[geometry.profile_index(profile)]
    return MPS_MAX_CLIENTS * cut.compute_slices // geometry.compute_slices


def active_thread_percentage(compute_milli: int, container_milli: int) -> int:
    """What ``CUDA_MPS_ACTIVE_THREAD_PERCENTAGE`` a share gets: its part of the GPU or slice that it lies in.

    Both amounts are thousandths of the whole GPU.  Rounded down, so that shares that fit never exceed 100
    together, but never 0, which would be no limit at all.
    """
    return min(100, max(1, 100 * compute_milli // container_milli))
