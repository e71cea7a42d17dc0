"""A request compiled against the cluster: what would do, mode by mode and kind by kind of GPU."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from placement import columns as k
from placement.alternatives import other_slice, slowed_together
from placement.cluster import Cluster
from placement.columns import Ints
from placement.interference import Coupling, InterferenceModel, Resident, alone_of, coupling_of
from placement.model import WHOLE_GPU_MILLI, Isolation, Mode, Profile, Request, StateError
from placement.neighbourhood import Neighbour, NeighbourhoodTable
from placement.partition import (
    MODE_ORDER,
    MigGeometry,
    Need,
    Price,
    Setup,
    mps_max_clients,
    needs_of,
    transition,
)
from placement.policies import Placement

SLICE_ROUNDING = 7
"""Seven slices of a GPU, each rounded down to a thousandth, are at most so many thousandths short."""

MODE_STEP = 1 << 54
"""Lies between the modes of policies that do not weigh them; more than any score."""

RANK_OF = {mode: rank for rank, mode in enumerate(MODE_ORDER)}
_OWN_MEMORY = frozenset({Mode.MIG, Mode.EXCLUSIVE})
_APART = Coupling((0, 0), (0, 0))

NOTHING_REFUSED = np.zeros((k.RANKS, 0), np.int8)
NO_SCORES = np.zeros(0, np.int64)


@dataclass(slots=True, eq=False)
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

    @property
    def only_whole(self) -> bool:
        """Whether nothing but whole GPUs would do."""
        return self.plain[k.OFFERED] == 1 << k.EXCLUSIVE_RANK

    @property
    def least_milli(self) -> int:
        """The least compute per GPU that would do on any kind of GPU, in thousandths.

        Slices are rounded down one by one, so that those freed together may seem smaller than they are.
        """
        present = [need for by_mode in self.needs for need in by_mode if need is not None]
        milli = [
            need.compute_milli - (SLICE_ROUNDING if need.gpu_mode is Mode.MIG else 0) for need in present
        ]
        return min(milli, default=WHOLE_GPU_MILLI)

    @property
    def least_memory(self) -> int:
        """The least memory per GPU that would do on any kind of GPU, in bytes; slices have their own."""
        present = [need for by_mode in self.needs for need in by_mode if need is not None]
        own = [0 if need.gpu_mode in _OWN_MEMORY else need.memory_bytes or 0 for need in present]
        return min(own, default=0)

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
    None for all; ``lifetime`` is how long the job lasts where the policy weighs that, else 0; ``only`` is the
    one rank that will do, None for all.
    """

    request: Request
    profile: Profile | None
    asker: str | None
    crowd: Crowd
    ask: Ask | None = None
    rows: Ints | None = None
    lifetime: int = 0
    only: int | None = None
    number: int = k.STRANGER
    """The asker's, as :meth:`placement.cluster.Cluster.tenant_number` gives it."""


def compile_ask(
    request: Request,
    profile: Profile | None,
    cluster: Cluster,
    placement: Placement,
    belief: InterferenceModel,
) -> Ask:
    """Compile a request for the GPU kinds of a cluster; nothing is offered if none of them can serve it."""
    kinds = cluster.kinds if request.gpus else ()
    sheet = _Sheet(len(kinds))
    about = request, profile, cluster, belief
    for kind in range(len(kinds)):
        for rank, need in offered_needs(request, profile, kinds[kind], placement, belief):
            sheet.enter(rank, kind, need, _terms(need, kind, about))
    entries = [
        request.gpus_apart,
        request.cpu_milli,
        request.ram_bytes,
        k.STRANGER,
        int(request.isolation is Isolation.TENANT),
        0 if placement.any_mode else MODE_STEP,
        int(placement.weighs),
        sheet.offered,
        sheet.served_by,
        sheet.least_milli[k.MPS_RANK],
        sheet.least_milli[k.TIMESLICE_RANK],
        sheet.profiles,
        0,
    ]
    terms = np.array(sheet.terms, np.int64).reshape(k.RANKS, -1, k.TERM_COLUMNS)
    return Ask(request, profile, sheet.needs, np.array(entries, np.int64), terms, entries, cluster.generation)


def offered_needs(
    request: Request,
    profile: Profile | None,
    kind: tuple[str, int | None],
    placement: Placement,
    belief: InterferenceModel,
) -> Iterator[tuple[int, Need]]:
    """The ways in which a GPU of a kind (model and memory) would do under a policy, with their ranks."""
    for mode, need in needs_of(request, profile, *kind).items():
        if mode in placement.modes:
            yield RANK_OF[mode], need
    other = other_slice(request, profile, kind, belief, smaller=placement.smaller_slice)
    if other is not None and {other.mode, other.gpu_mode} <= placement.modes:
        yield k.OTHER_MIG_RANK, other


class _Sheet:
    """What is compiled of a request, filled need by need.

    Attributes:
        needs: per rank and kind; terms: the same, flat.
        offered, served_by, profiles: masks of ranks, of kinds of GPU and of MIG profiles that would do.
        least_milli: the least compute per GPU by mode, 0 where nothing would do.
    """

    __slots__ = ("_kinds", "least_milli", "needs", "offered", "profiles", "served_by", "terms")

    def __init__(self, kinds: int) -> None:
        self._kinds = kinds
        self.needs: list[list[Need | None]] = [[None] * kinds for _ in range(k.RANKS)]
        self.terms = [0] * (k.RANKS * max(kinds, 1) * k.TERM_COLUMNS)
        self.offered = self.served_by = self.profiles = 0
        self.least_milli = [0] * k.RANKS

    def enter(self, rank: int, kind: int, need: Need, terms: tuple[int, ...]) -> None:
        """A kind of GPU would do in a mode."""
        self.needs[rank][kind] = need
        at = (rank * self._kinds + kind) * k.TERM_COLUMNS
        self.terms[at : at + k.TERM_COLUMNS] = terms
        self.offered |= 1 << rank
        self.served_by |= 1 << min(kind, k.BIT_LIMIT)
        if need.mig_profile is not None:
            self.profiles |= 1 << need.mig_profile
        mode = k.MODE_RANK[rank]
        least = self.least_milli[mode]
        self.least_milli[mode] = min(least, terms[k.MILLI]) if least else terms[k.MILLI]


def _terms(
    need: Need, kind: int, about: tuple[Request, Profile | None, Cluster, InterferenceModel]
) -> tuple[int, ...]:
    """The terms of so many shares of one GPU, as if they were one share."""
    request, profile, cluster, belief = about
    copies = request.shares_per_gpu
    milli, price = need.compute_milli * copies, opening_ms(cluster.kinds[kind][0], need.gpu_mode)
    if need.mode is Mode.EXCLUSIVE:
        return milli, (need.memory_bytes or 0) * copies, 0, 0, 0, k.MANY, price, 0, 0, 0, 0, 0
    model, geometry = cluster.kinds[kind][0], cluster.geometries[kind]
    resident = Resident(profile, need.mode, need.compute_milli)
    if need.mig_profile is not None and geometry is not None:
        cut = geometry.profiles[need.mig_profile]
        slowed = alone_of(belief, model, resident, cut.name)
        if need.mode is not Mode.MIG:  # one slice holds all shares
            slowed, copies = slowed_together(belief, model, cut.name, (resident,) * copies), 1
            milli = geometry.compute_milli(cut)
        bundle = geometry.bundles.index((need.mig_profile, copies))
        slices = cut.compute_slices * copies, geometry.compute_slices
        return milli, 0, bundle, *slices, k.MANY, price, 0, 0, 0, 0, slowed
    # The others come with the first: where one is welcome, there must be room for all.
    clients = (mps_max_clients(model) if need.mode is Mode.MPS else k.MANY) - (copies - 1)
    pull = coupling_of(belief, model, resident) or _APART
    presses, presses_2 = pull.pressure
    memory = (need.memory_bytes or 0) * copies
    return (
        milli,
        memory,
        0,
        0,
        0,
        clients,
        price,
        presses * copies,
        presses_2 * copies,
        *pull.sensitivity,
        alone_of(belief, model, resident),
    )


@functools.lru_cache(maxsize=256)
def opening_ms(gpu_model: str, mode: Mode) -> int:
    """Time until an empty GPU serves in a mode, in milliseconds; it counts as not set up for any.

    Raises:
        StateError: GPUs of that model never serve in that mode.
    """
    price = transition(Setup(gpu_model), mode)
    if not isinstance(price, Price):
        raise StateError(f"{gpu_model} cannot be set up for {mode.value}: {price.value}")
    return round(1000 * price.delay_s)


def newcomer_of(ask: Ask, need: Need) -> Neighbour:
    """The asking job as its future neighbours would see it.

    What it was promised in a slice that it shares with itself does not depend on them.
    """
    promise = ask.request.max_slowdown if need.gpu_mode is need.mode else None
    return Neighbour(Resident(ask.profile, need.gpu_mode, need.compute_milli), promise)


Geometries = tuple[MigGeometry | None, ...]


@functools.lru_cache(maxsize=8)
def slice_tables(geometries: Geometries) -> tuple[Any, Any]:
    """MIG tables of some kinds [kinds, states, bundles]: the state after a bundle (int16), and room (int8).

    The single slices come first, in the order of the profiles.
    """
    widest = max((len(g.bundles) for g in geometries if g is not None), default=0)
    if widest == 0:
        empty = np.full((max(len(geometries), 1), 1, 1), -1, np.int16)
        return empty, np.zeros_like(empty, np.int8)
    states = next(len(g.after) for g in geometries if g is not None)
    after = np.full((len(geometries), states, widest), -1, np.int16)
    room = np.zeros_like(after, np.int8)
    for kind, geometry in enumerate(geometries):
        if geometry is not None:
            after[kind, :, : len(geometry.bundles)] = geometry.after
            for bundle, (profile, copies) in enumerate(geometry.bundles):
                room[kind, :, bundle] = geometry.room[:, profile] // copies
    return after, room


@functools.lru_cache(maxsize=8)
def plain_slice_tables(geometries: Geometries) -> tuple[Any, Any]:
    """The same as nested lists; kinds that are cut alike share theirs, hundreds of thousands of numbers."""
    after, room = slice_tables(geometries)
    first = {geometry: kind for kind, geometry in reversed([*enumerate(geometries or (None,))])}
    lists = {geometry: (after[kind].tolist(), room[kind].tolist()) for geometry, kind in first.items()}
    of_kinds = [lists[geometry] for geometry in geometries or (None,)]
    return [list_of for list_of, _room in of_kinds], [list_of for _after, list_of in of_kinds]
