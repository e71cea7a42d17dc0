"""Services in MIG slices on the fullest GPUs."""

from __future__ import annotations

from typing import Any

from placement.alternatives import Smaller
from placement.model import Job, JobKind, Mode, Request
from placement.partition import MODE_ORDER
from placement.policies.base import Placement
from placement.policies.narrowing import narrowed
from placement.policies.offer import Offer, where

_SERVING = frozenset({Mode.MIG, Mode.MPS})
_SLICE, _SHARE = MODE_ORDER.index(Mode.MIG), MODE_ORDER.index(Mode.MPS)


class ParvaGpu(Placement):
    """A MIG slice on the fullest GPU that has one free, else an MPS share (ParvaGPU, SC'24, section 4).

    For one arriving job at a time; :func:`placement.planning.parva.plan_services` is the planner that lays
    out whole services with their rates.  Inference jobs use no time slices and no whole GPUs where they
    accept slices or shares; the smallest slice that holds a job, or that keeps what it was promised, is
    taken, at the start that keeps most other slices possible.  Several shares of one GPU are clients of the
    MPS server of one slice where that takes less than a slice each.  Training jobs take what is left over,
    the fullest GPU first.
    """

    name = "parvagpu"
    source = "ParvaGPU, SC'24"
    any_mode = True
    smaller_slice = Smaller.LEAST
    idles = "an inference job that accepts slices or shares is not given a time slice or a whole GPU"

    @staticmethod
    def score(at: Offer) -> Any:
        """Slices before shares before all else; then the least that is taken, then the least left."""
        kind = where(at.mode == _SLICE, 0, where(at.mode == _SHARE, 1, 2))
        return (kind << 40) + (at.taken << 20) + at.gpu_left

    def asks(self, job: Job) -> Request:
        """Slices and shares alone for services, where they accept any."""
        return narrowed(job.request, _SERVING) if job.kind is JobKind.INFERENCE else job.request
