"""What policies have in common that put at most two jobs on a GPU, and only when no GPU is free."""

from __future__ import annotations

from typing import Any, ClassVar

from placement.model import Job, Mode, Request
from placement.neighbourhood import Neighbour, Neighbourhood
from placement.policies.base import Placement
from placement.policies.narrowing import narrowed
from placement.policies.offer import Offer, where

_APART = frozenset({Mode.EXCLUSIVE, Mode.MIG})


class Pairs(Placement):
    """A free GPU; where there is none, beside one other job if :meth:`may_pair` allows.

    Jobs of several GPUs or workers share nothing where they accept whole GPUs or MIG slices.
    """

    judges_company: ClassVar[bool] = True

    @staticmethod
    def score(at: Offer) -> Any:
        """Free GPUs before shared ones; then full nodes before others."""
        return where(at.residents > 0, 1 << 40, 0) + at.node_left

    def asks(self, job: Job) -> Request:
        """Whole GPUs or slices for jobs of several GPUs."""
        request = job.request
        return narrowed(request, _APART) if request.gpus_apart * job.workers > 1 else request

    def joins(self, newcomer: Neighbour, place: Neighbourhood) -> bool:
        """Alone always, beside one other by the rule, never beside more or unknown ones; slices are walls."""
        if newcomer.resident.mode is Mode.MIG or (not place.neighbours and place.opaque is None):
            return True
        if place.opaque is not None or len(place.neighbours) > 1:
            return False
        return self.may_pair(newcomer, place.neighbours[0], place.gpu_model)

    def may_pair(self, newcomer: Neighbour, host: Neighbour, gpu_model: str) -> bool:
        """Whether these two may share a GPU of that model."""
        return True
