"""Pack pairs on trial when nothing is free, and part those that do too little together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from placement.model import Job, Mode, Request
from placement.neighbourhood import Neighbour, Neighbourhood
from placement.policies.base import Placement
from placement.policies.offer import Offer, where

_APART = frozenset({Mode.EXCLUSIVE, Mode.MIG})


class Gandiva(Placement):
    """A free GPU; where there is none, beside any one other job, on trial (Gandiva, OSDI'18, section 3.3).

    The newcomer goes back to the queue if the observed rates of the two add up to less than one job's alone;
    their profiles are then kept apart for good.  Only jobs of one GPU whose profile is known are packed:
    without the rate alone nobody could tell how the trial went.  Pairs are tried blindly: jobs that suffer
    have lost a trial period each time.
    """

    name = "gandiva"
    judges_company = True
    trials = True
    idles = "two profiles whose trial failed are not packed again, nor are jobs without a profile"
    forgets = "running trials begin anew and failed pairs are learned anew"

    def __init__(self) -> None:
        self._bad_pairs: frozenset[tuple[str, str]] = frozenset()

    @staticmethod
    def score(at: Offer) -> Any:
        """Free GPUs before shared ones; then full nodes before others."""
        return where(at.residents > 0, 1 << 40, 0) + at.node_left

    def keep_apart(self, pairs: frozenset[tuple[str, str]]) -> None:
        """Remember who is not to meet again."""
        self._bad_pairs = pairs

    def asks(self, job: Job) -> Request:
        """Whole GPUs or slices for jobs of several GPUs."""
        request = job.request
        if request.gpus * job.workers > 1 and request.modes & _APART and not request.modes <= _APART:
            return replace(request, modes=request.modes & _APART)
        return request

    def joins(self, newcomer: Neighbour, place: Neighbourhood) -> bool:
        """Whether the two are worth a trial; slices are walls enough."""
        if newcomer.resident.mode is Mode.MIG or (not place.neighbours and place.opaque is None):
            return True
        if place.opaque is not None or len(place.neighbours) > 1:
            return False
        names = [
            resident.profile.name
            for resident in (newcomer.resident, place.neighbours[0].resident)
            if resident.profile is not None
        ]
        return len(names) == 2 and tuple(sorted(names)) not in self._bad_pairs
