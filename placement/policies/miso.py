"""MIG slices by predicted speed: every GPU is cut as suits those who are on it."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping
from typing import Any

from placement.model import Job, Mode, Profile, Request
from placement.partition import MigGeometry
from placement.planning.miso import speeds_by_profile
from placement.policies.base import Placement
from placement.policies.narrowing import narrowed
from placement.policies.offer import Offer

_MODES = frozenset({Mode.MIG, Mode.EXCLUSIVE})

USUAL_SPEEDS = ((0.0, 0.0), (1 / 7, 0.30), (2 / 7, 0.45), (3 / 7, 0.63), (4 / 7, 0.70), (1.0, 1.0))
"""Part of the compute slices, and speed relative to the whole GPU, of a job of which nothing is known.

Medians over the 24 models and batch sizes that MISO's authors measured on an A100 (SoCC'22, the published
times per batch), straight lines between them."""


class Miso(Placement):
    """Slices on the GPU where the best partition for all who are there adds most speed (MISO, SoCC'22).

    Residents are moved to other slices for it if that gains more than it costs; jobs that accept no slices,
    or several GPUs, get whole GPUs.  A profile says how fast a job is on a slice by its ``steps_per_s`` for
    ``MODEL/SLICE`` beside that for ``MODEL``; where it does not, :data:`USUAL_SPEEDS` stand.
    When something is freed that nobody who waits takes, residents get larger slices, if that is worth the
    move.  Unlike MISO, speeds are not tried out under MPS first.
    """

    name = "miso"
    source = "MISO, SoCC'22"
    modes = _MODES
    repartitions = True
    recuts = True
    idles = "it shares GPUs by slices alone, so jobs that accept neither slices nor whole GPUs get no place"

    @staticmethod
    def score(at: Offer) -> Any:
        """Where no partition is sought: the fullest GPU."""
        return at.gpu_left

    def asks(self, job: Job) -> Request:
        """Slices and whole GPUs alone, where the job accepts any."""
        return narrowed(job.request, _MODES)

    def slice_speeds(
        self, request: Request, profile: Profile | None, gpu_model: str, geometry: MigGeometry
    ) -> Mapping[str, float]:
        """Speeds on the slices that the request accepts and fits into."""
        if Mode.MIG not in request.modes:
            return {}
        memory = request.memory_bytes
        if memory is None and profile is not None:
            memory = profile.memory_bytes
        usual = _usual(request, geometry, memory)
        if profile is None:
            return usual
        return {name: profile.slice_speed(gpu_model, name) or speed for name, speed in usual.items()}


@functools.lru_cache(maxsize=4096)
def _usual(request: Request, geometry: MigGeometry, memory_bytes: int | None) -> Mapping[str, float]:
    """Usual speeds on the slices that do for a request."""
    by_compute = {
        cut.compute_slices: usual_speed(cut.compute_slices / geometry.compute_slices)
        for cut in geometry.profiles
    }
    speeds = speeds_by_profile(geometry, by_compute, memory_bytes)
    if request.mig_profile is not None:
        return {request.mig_profile: speeds.get(request.mig_profile, 1.0)}
    least = request.compute_milli or 0
    enough = {cut.name for cut in geometry.profiles if geometry.compute_milli(cut) >= least}
    return {name: speed for name, speed in speeds.items() if name in enough}


def usual_speed(part: float) -> float:
    """The usual speed on a part of the compute slices, both from 0 to 1."""
    for (low, below), (high, above) in itertools.pairwise(USUAL_SPEEDS):
        if part <= high:
            return below + (above - below) * (part - low) / (high - low)
    return 1.0
