"""Pack only when nothing is free, and only gentle pairs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from placement.model import Job, Mode, Request
from placement.model.hardware import KNOWN_GPU_MEMORY_BYTES
from placement.neighbourhood import Neighbour, Neighbourhood
from placement.planning.packing_score import PackingJob, counters_of, packing_score, why_not_pair
from placement.policies.base import Placement
from placement.policies.offer import Offer, where

_APART = frozenset({Mode.EXCLUSIVE, Mode.MIG})


class Lucid(Placement):
    """A free GPU; where there is none, beside one other job if the two packing scores allow (Lucid, ASPLOS'23).

    Each job scores 0, 1 or 2 by its profile, and two may share whose scores add up to at most 2.  Jobs of
    several GPUs or workers share nothing where they accept whole GPUs or MIG slices.  A job without a
    profile runs alone: who sends no profiles gains nothing by this policy.
    """

    name = "lucid"
    judges_company = True
    idles = (
        "a pair whose packing scores add up to more than 2, or of which too little is known, is not packed"
    )

    @staticmethod
    def score(at: Offer) -> Any:
        """Free GPUs before shared ones; then full nodes before others."""
        return where(at.residents > 0, 1 << 40, 0) + at.node_left

    def asks(self, job: Job) -> Request:
        """Whole GPUs or slices for jobs of several GPUs."""
        request = job.request
        if request.gpus * job.workers > 1 and request.modes & _APART and not request.modes <= _APART:
            return replace(request, modes=request.modes & _APART)
        return request

    def joins(self, newcomer: Neighbour, place: Neighbourhood) -> bool:
        """Whether the packing scores allow it; slices are walls enough."""
        if newcomer.resident.mode is Mode.MIG:
            return True
        memory_bytes = KNOWN_GPU_MEMORY_BYTES.get(place.gpu_model)
        running = [_packing_job(neighbour, memory_bytes) for neighbour in place.neighbours]
        if place.opaque is not None:
            running.append(PackingJob(1, None, None))
        # Whether the memory suffices is the search's question.
        return why_not_pair(_packing_job(newcomer, memory_bytes), running, None) is None


def _packing_job(neighbour: Neighbour, gpu_memory_bytes: int | None) -> PackingJob:
    profile = neighbour.resident.profile
    score = None if profile is None else packing_score(counters_of(profile, gpu_memory_bytes))
    return PackingJob(1, score, None)
