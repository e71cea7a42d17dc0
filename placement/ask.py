"""A request compiled against the cluster: what would do, mode by mode and kind by kind of GPU."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from placement import columns as k
from placement.cluster import Cluster
from placement.columns import Ints
from placement.interference import InterferenceModel, Resident, coupling_of
from placement.model import Isolation, Mode, Profile, Request
from placement.neighbourhood import Neighbour, NeighbourhoodTable
from placement.partition import MODE_ORDER, MigGeometry, Need, mps_max_clients, needs_of
from placement.policies import Placement

SLICE_ROUNDING = 7
"""Seven slices of a GPU, each rounded down to a thousandth, are at most so many thousandths short."""

MODE_STEP = 1 << 54
"""Lies between the modes of policies that do not weigh them; more than any score."""

OPENING_MS = {Mode.MPS: 1_000, Mode.TIMESLICE: 0, Mode.MIG: 4_000, Mode.EXCLUSIVE: 0}
"""Time until an empty GPU serves in a mode; MIG as MISO measured it (SoCC'22, section 5.1)."""


NOTHING_REFUSED = np.zeros((k.RANKS, 0), np.int8)
NO_SCORES = np.zeros(0, np.int64)


@dataclass(slots=True)
class Crowd:
    """How many live jobs ask for the same."""

    size: int = 0


@dataclass(slots=True, eq=False)
class Ask:
    """A compiled request: the arrays that kernels read, and the rows of scores that they keep.

    Attributes:
        needs: per rank of mode and GPU kind, None where it would not do.
        entries, terms: see :mod:`placement.columns`; plain: the entries as a list.
        refused: int8 [ranks, numbers]: neighbourhoods that it may not join; welcomed: (rank, number) that
            it may.
        scores, infos: per node, empty until the rows are first needed; seen: how far the cluster's log has
            been followed; workers: an upper bound of how many fit.
        least_milli, least_memory: the least per GPU that would do anywhere; only_whole: whether nothing but
            whole GPUs would.
    """

    request: Request
    profile: Profile | None
    needs: list[list[Need | None]]
    entries: Ints
    terms: Ints
    plain: list[int]
    generation: int
    refused: npt.NDArray[np.int8] = field(default_factory=lambda: NOTHING_REFUSED)
    welcomed: set[tuple[int, int]] = field(default_factory=set)
    scores: Ints = field(default_factory=lambda: NO_SCORES)
    infos: Any = None
    sweeps: int = 0
    seen: int = -1
    workers: int = 0
    least_milli: int = 1000
    least_memory: int = 0
    only_whole: bool = False
    _plain_terms: list[list[list[int]]] | None = None

    @property
    def plain_terms(self) -> list[list[list[int]]]:
        """The terms as lists."""
        if self._plain_terms is None:
            self._plain_terms = self.terms.tolist()
        return self._plain_terms

    @property
    def ranks(self) -> list[int]:
        """Ranks of the modes that would do somewhere, the preferred first."""
        return [rank for rank in range(k.RANKS) if self.plain[k.OFFERED] >> rank & 1]

    def refuse(self, rank: int, number: int, numbers: int) -> None:
        """Remember that it may not join a neighbourhood; there are so many of them."""
        if number >= self.refused.shape[1]:
            grown = np.zeros((k.RANKS, max(numbers, 2 * self.refused.shape[1], 64)), np.int8)
            grown[:, : self.refused.shape[1]] = self.refused
            self.refused = grown
        self.refused[rank, number] = 1

    def forget_company(self, table: NeighbourhoodTable) -> None:
        """Forget what was judged of neighbourhoods whose numbers have been given up."""
        gone = table.given_up_since(self.sweeps)
        self.sweeps = table.sweeps
        if gone is None:
            self.welcomed, self.refused = set(), NOTHING_REFUSED
            return
        self.welcomed = {judged for judged in self.welcomed if judged[1] not in gone}
        if self.refused.shape[1]:
            self.refused[:, [number for number in gone if number < self.refused.shape[1]]] = 0

    def refuses(self, rank: int, number: int) -> bool:
        """Whether it is known that it may not join a neighbourhood."""
        return number < self.refused.shape[1] and bool(self.refused[rank, number])


@dataclass(slots=True, eq=False)
class Demand:
    """What one worker asks for and who asks; equal demands are one object, kept by the search.

    ``asker`` is the tenant where it matters (isolation), else None; ``rows`` are the only nodes that will do,
    None for all.
    """

    request: Request
    profile: Profile | None
    asker: str | None
    crowd: Crowd
    ask: Ask | None = None
    rows: Ints | None = None


def compile_ask(
    request: Request,
    profile: Profile | None,
    cluster: Cluster,
    placement: Placement,
    belief: InterferenceModel,
) -> Ask:
    """Compile a request for the GPU kinds of a cluster; nothing is offered if none of them can serve it."""
    by_kind: list[dict[Mode, Need]] = []
    if request.gpus:
        by_kind = [needs_of(request, profile, model, memory) for model, memory in cluster.kinds]
    needs = [
        [by_kind[kind].get(mode) if mode in placement.modes else None for kind in range(len(by_kind))]
        for mode in MODE_ORDER
    ]
    terms = [
        [
            _terms(need, kind, request.shares_per_gpu, (profile, cluster, belief))
            for kind, need in enumerate(by_mode)
        ]
        or [_NOTHING]
        for by_mode in needs
    ]
    entries = [
        request.gpus_apart,
        request.cpu_milli,
        request.ram_bytes,
        k.STRANGER,
        int(request.isolation is Isolation.TENANT),
        0 if placement.any_mode else MODE_STEP,
        int(placement.weighs),
        sum(1 << rank for rank, by_mode in enumerate(needs) if any(by_mode)),
        *_quick_test(needs, terms),
    ]
    ask = Ask(
        request,
        profile,
        needs,
        np.array(entries, np.int64),
        np.array([*chain.from_iterable(chain.from_iterable(terms))], np.int64).reshape(
            k.RANKS, -1, k.TERM_COLUMNS
        ),
        entries,
        cluster.generation,
    )
    ask.least_milli, ask.least_memory = _least_milli(needs), _least_memory(needs)
    ask.only_whole = entries[k.OFFERED] == 1 << k.EXCLUSIVE_RANK
    return ask


def _quick_test(needs: list[list[Need | None]], terms: list[list[list[int]]]) -> tuple[int, int, int, int]:
    """Kinds of GPU that would do, least compute by mode, MIG profiles: what rules out most nodes at once."""
    kinds = {kind for by_mode in needs for kind, need in enumerate(by_mode) if need is not None}
    least = [
        min((term[k.MILLI] for term in terms[rank] if term[k.MILLI]), default=0)
        for rank in (k.MPS_RANK, k.TIMESLICE_RANK)
    ]
    profiles = {need.mig_profile for need in needs[k.MIG_RANK] if need is not None} - {None}
    return (
        sum(1 << kind for kind in {min(kind, k.BIT_LIMIT) for kind in kinds}),
        least[0],
        least[1],
        sum(1 << profile for profile in profiles if profile is not None),
    )


_NOTHING = [0] * k.TERM_COLUMNS


def _terms(
    need: Need | None, kind: int, copies: int, context: tuple[Profile | None, Cluster, InterferenceModel]
) -> list[int]:
    """The terms of so many shares of one GPU, as if they were one share."""
    if need is None:
        return _NOTHING
    profile, cluster, belief = context
    model = cluster.kinds[kind][0]
    price = OPENING_MS[need.mode]
    geometry = cluster.geometries[kind]
    if need.mig_profile is not None and geometry is not None:
        cut = geometry.profiles[need.mig_profile]
        bundle = geometry.bundles.index((need.mig_profile, copies))
        return [
            *(need.compute_milli * copies, 0, bundle, cut.compute_slices * copies, geometry.compute_slices),
            *(cut.memory_slices, int(cut.media), k.MANY, price, 0, 0, 0, 0),
        ]
    # The others come with the first: where one is welcome, there must be room for all.
    clients = (mps_max_clients(model) if need.mode is Mode.MPS else k.MANY) - (copies - 1)
    pull = coupling_of(belief, model, Resident(profile, need.mode, need.compute_milli))
    return [
        *(need.compute_milli * copies, (need.memory_bytes or 0) * copies, 0, 0, 0, 0, 0, clients, price),
        *((pressure * copies for pressure in pull.pressure) if pull is not None else (0, 0)),
        *(pull.sensitivity if pull is not None else (0, 0)),
    ]


def _least_milli(needs: list[list[Need | None]]) -> int:
    """The least compute per GPU that would do on any kind of GPU, in thousandths.

    Slices are rounded down one by one, so that those freed together may seem smaller than they are.
    """
    present = [need for by_mode in needs for need in by_mode if need is not None]
    milli = [need.compute_milli - (SLICE_ROUNDING if need.mode is Mode.MIG else 0) for need in present]
    return min(milli, default=1000)


def _least_memory(needs: list[list[Need | None]]) -> int:
    """The least memory per GPU that would do on any kind of GPU, in bytes; slices have their own."""
    present = [need for by_mode in needs for need in by_mode if need is not None]
    own = [0 if need.mode in (Mode.MIG, Mode.EXCLUSIVE) else need.memory_bytes or 0 for need in present]
    return min(own, default=0)


def newcomer_of(ask: Ask, need: Need) -> Neighbour:
    """The asking job as its future neighbours would see it."""
    return Neighbour(Resident(ask.profile, need.mode, need.compute_milli), ask.request.max_slowdown)


Geometries = tuple[MigGeometry | None, ...]


@functools.lru_cache(maxsize=64)
def slice_tables(geometries: Geometries) -> tuple[Any, Any]:
    """MIG tables of some kinds as two int8 arrays [kinds, states, bundles]: best start and room.

    The single slices come first, in the order of the profiles.
    """
    widest = max((len(g.bundles) for g in geometries if g is not None), default=0)
    if widest == 0:
        empty = np.full((max(len(geometries), 1), 1, 1), -1, np.int8)
        return empty, np.zeros_like(empty)
    states = next(len(g.start) for g in geometries if g is not None)
    start = np.full((len(geometries), states, widest), -1, np.int8)
    room = np.zeros_like(start)
    for kind, geometry in enumerate(geometries):
        if geometry is not None:
            for bundle, (profile, copies) in enumerate(geometry.bundles):
                fits = geometry.room[:, profile] >= copies
                start[kind, :, bundle] = np.where(fits, geometry.start[:, profile], -1)
                room[kind, :, bundle] = geometry.room[:, profile] // copies
    return start, room


@functools.lru_cache(maxsize=8)
def plain_slice_tables(geometries: Geometries) -> tuple[Any, Any]:
    """The same as nested lists; hundreds of thousands of numbers."""
    start, room = slice_tables(geometries)
    return start.tolist(), room.tolist()
