"""Whether a request may join the company on a GPU: asked once, when it would really go there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from placement import columns as k
from placement.ask import Ask, newcomer_of
from placement.cluster import Cluster
from placement.columns import Ints
from placement.interference import InterferenceModel
from placement.model import Reason
from placement.policies import Placement
from placement.promises import broken_promise


class Company:
    """Judges neighbourhoods for requests, and remembers."""

    def __init__(self, cluster: Cluster, placement: Placement, belief: InterferenceModel) -> None:
        self._cluster = cluster
        self._placement = placement
        self._belief = belief

    def matters(self, ask: Ask) -> bool:
        """Whether anything is promised to anyone, or the policy minds."""
        return (
            ask.request.max_slowdown is not None
            or self._cluster.neighbourhoods.promised
            or self._placement.judges_company
        )

    def welcomes(self, ask: Ask, rank: int, numbers: Sequence[int]) -> bool:
        """Whether a request may join all of these neighbourhoods; what refuses is noted in the request."""
        welcome = True
        for number in numbers:
            if (rank, number) in ask.welcomed:
                continue
            if not ask.refuses(rank, number) and self.objection(ask, rank, number) is None:
                ask.welcomed.add((rank, number))
            else:
                ask.refuse(rank, number, len(self._cluster.neighbourhoods))
                welcome = False
        return welcome

    def judges_anew(self, ask: Ask, rows: Ints) -> bool:
        """Judge all neighbourhoods on some nodes for a request; gives whether any was not known before."""
        numbers = np.unique(self._cluster.gpus[rows, :, k.NEIGHBOURHOOD]).tolist()
        anew = False
        for rank in ask.ranks:
            unknown = [n for n in numbers if (rank, n) not in ask.welcomed and not ask.refuses(rank, n)]
            if rank != k.EXCLUSIVE_RANK and unknown:
                self.welcomes(ask, rank, unknown)
                anew = True
        return anew

    def objection(self, ask: Ask, rank: int, number: int) -> Reason | None:
        """Why a request may not join a neighbourhood, None if it may."""
        table = self._cluster.neighbourhoods
        if (
            ask.request.max_slowdown is None
            and not self._placement.judges_company
            and not table.holds_promise(number)
        ):
            return None  # nothing is promised to anybody
        place = table[number]
        need = ask.needs[rank][place.kind] if place.kind < len(ask.needs[rank]) else None
        if need is None:
            return None
        newcomer = newcomer_of(ask, need)
        if self._placement.judges_company and not self._placement.joins(newcomer, place):
            return Reason.COMPANY
        return broken_promise(self._belief, newcomer, place, ask.request.shares_per_gpu)
