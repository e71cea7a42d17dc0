"""Which GPUs of many nodes have room for a request, and in which mode: a flat list, by numpy alone.

On a busy cluster most GPUs have room in no mode, and one that is shared already in its own mode only.  So
pairs of a GPU and a mode are listed first and all that follows is worked out for these.  A look has few of
them: it costs as much as there are calls of numpy, whatever the length of the arrays.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from placement import columns as k
from placement.columns import Ints
from placement.vectorised.numbers import EIGHT, EMPTY, ONE, SEVEN
from placement.vectorised.terms import TermsAt, terms_of

Bools = npt.NDArray[np.bool_]

AT_ONCE = 256
"""All GPUs of up to so many nodes are read at once; of more, those alone that are open to the request."""


@dataclass(slots=True)
class Scene:
    """Some nodes and a request.

    Attributes:
        rows: int64 [nodes]; gpus: all GPUs of the cluster; node: int64 [nodes, columns], of these rows.
        ask: the entries of the request; scores: a policy's, which take figures that are arrays.
        counts: whether it matters how many workers fit.
    """

    rows: Ints
    gpus: Ints
    node: Ints
    ask: list[int]
    tables: tuple[Any, ...]
    scores: tuple[Any, Any]
    counts: bool = True
    _every: Ints | None = None

    def every_gpu(self) -> Ints:
        """All GPUs of these nodes, int64 [nodes, slots, columns]."""
        if self._every is None:
            self._every = self.gpus.take(self.rows, 0)
        return self._every

    @property
    def at_once(self) -> bool:
        """Whether all GPUs of these nodes are read at once."""
        return len(self.rows) <= AT_ONCE

    def column(self, column: int) -> Ints:
        """A column of all GPUs of these nodes, int64 [nodes, slots]."""
        return self.every_gpu()[:, :, column] if self.at_once else self.gpus[:, :, column][self.rows]

    @property
    def ranks(self) -> list[int]:
        """The ranks of the modes that would do."""
        return [rank for rank in range(k.RANKS) if self.ask[k.OFFERED] >> rank & 1]


@dataclass(slots=True)
class Fits:
    """Pairs of a GPU and a mode with room for one share, promises aside, by node, slot and rank.

    Attributes:
        place: where the GPU stands among all slots of the scene's nodes; node: where its node stands.
        rank: int64 [pairs], or a number if only one rank would do.
        gpu, term: the columns of the GPU, int64 [columns, pairs], and of the terms.
        cut: the occupancy of a GPU with the slices, None if none are asked for.
        left: compute left on the GPU; room: how many such shares fit, None if that does not matter.
        alike: for how many GPUs of the node in a row this one stands, None if each for itself.
        empty: which GPUs are empty; opens: whether any is.
    """

    place: Ints
    node: Ints
    rank: Ints | int
    gpu: Ints
    term: TermsAt
    cut: Ints | None
    left: Ints
    room: Ints | None
    alike: Ints | None
    empty: Bools = field(init=False)
    opens: bool = field(init=False)

    def __post_init__(self) -> None:
        self.empty = self.gpu[k.MODE] == EMPTY
        self.opens = bool(np.count_nonzero(self.empty))

    def some(self, which: Ints) -> Fits:
        """Some of the pairs, by index."""
        rank, gpu = taken(self.rank, which), self.gpu.take(which, 1)
        cut = None if self.cut is None else self.cut.take(which)
        room = None if self.room is None else self.room.take(which)
        alike = None if self.alike is None else self.alike.take(which)
        term = TermsAt(self.term.of, rank, gpu[k.MODEL])
        where = self.place.take(which), self.node.take(which), rank
        return Fits(*where, gpu, term, cut, self.left.take(which), room, alike)

    def of_rank(self, rank: int) -> Fits:
        """The pairs of one rank."""
        return self if isinstance(self.rank, int) else self.some((self.rank == rank).nonzero()[0])


def taken(rank: Ints | int, which: Ints) -> Ints | int:
    """The ranks of some pairs."""
    return rank if isinstance(rank, int) else rank.take(which)


def slices_among(offered: int, rank: Ints | int) -> Any:
    """Which of these ranks are slices, as an index; ``offered`` are the ranks that may be among them."""
    if not offered & ~CUT or isinstance(rank, int):
        return slice(None)
    return _IS_SLICE.take(rank).nonzero()[0]


def starts_of(groups: Ints) -> Ints:
    """Where each group begins; those of a group stand together."""
    begins = np.empty(len(groups), np.bool_)
    begins[:1] = True
    np.not_equal(groups[1:], groups[:-1], out=begins[1:])
    return begins.nonzero()[0]


_RANK_BITS = 3
"""The bits of a rank."""


def _open_modes() -> npt.NDArray[np.uint64]:
    """By the mask of ranks that would do and the mode of a GPU: what it is open to, one byte a rank of 8."""
    table = np.zeros((1 << k.RANKS, k.ABSENT + 1, 1 << _RANK_BITS), np.bool_)
    for rank, mode in enumerate(k.MODE_OF_RANK):
        offered = np.arange(1 << k.RANKS) >> rank & 1 == 1
        table[offered, k.EMPTY, rank] = True
        if rank != k.EXCLUSIVE_RANK:
            table[offered, mode, rank] = True
    return table.view(np.uint64)[..., 0]


_OPEN = _open_modes()
_ALONE = {1 << rank: rank for rank in range(k.RANKS)}
"""The rank by the mask of it alone."""

_IS_SLICE = np.array(k.MODE_RANK) == k.MIG_RANK

SHARED, CUT, WHOLE = k.IN_MPS | k.IN_TIMESLICE, k.IN_MIG, k.IN_EXCLUSIVE
"""Masks of the ranks: shares of whole GPUs, slices, and GPUs that a job has for itself."""


def fits_of(scene: Scene, *, first_alone: bool) -> Fits:
    """Where a share fits; of empty GPUs of a kind in a row the first only if that ``first_alone`` matters."""
    slots, offered = scene.gpus.shape[1], scene.ask[k.OFFERED]
    place, rank, gpus, runs = _open_pairs(scene, first_alone=first_alone)
    term = TermsAt(terms_of(scene.tables[0]), rank, gpus[:, k.MODEL])
    fits, cut = _with_room(scene, rank, gpus.T, term)
    if fits is not None:
        some = fits.nonzero()[0]
        place, rank, gpus = place.take(some), taken(rank, some), gpus.take(some, 0)
        cut = None if cut is None else cut.take(some)
        term = TermsAt(term.of, rank, gpus[:, k.MODEL])
    alike = None if runs is None else runs.take(place)
    gpu = gpus.T
    left = _left(offered, rank, gpu, term)
    room = _room(scene, rank, gpu, term) if scene.counts else None
    return Fits(place, place // slots, rank, gpu, term, cut, left, room, alike)


def _open_pairs(scene: Scene, *, first_alone: bool) -> tuple[Ints, Ints | int, Ints, Ints | None]:
    """GPUs whose mode is open to the request: place and rank, columns [pairs, columns], and runs if alike."""
    modes, offered = scene.column(k.MODE), scene.ask[k.OFFERED]
    is_open = _OPEN[offered].take(modes)
    if not offered & ~SHARED:  # most that are shared already are too full
        is_open *= scene.column(k.FREE_MILLI) >= terms_of(scene.tables[0]).least
    runs = _lead_alone(scene, modes, is_open) if first_alone else None
    rank: Ints | int | None = _ALONE.get(offered)
    if rank is not None:
        place = is_open.reshape(-1).nonzero()[0]
    else:
        found = is_open.view(np.bool_).reshape(-1).nonzero()[0]
        place, rank = found >> _RANK_BITS, found & (1 << _RANK_BITS) - 1
    where, source = place, scene.gpus
    if scene.at_once:
        source = scene.every_gpu()
    else:
        slots = scene.gpus.shape[1]
        where = scene.rows.take(place // slots) * slots + place % slots
    return place, rank, source.reshape(-1, k.GPU_COLUMNS).take(where, 0), runs


def _lead_alone(scene: Scene, modes: Ints, is_open: Any) -> Ints | None:
    """Keep the first of empty GPUs in a row open, in place; for how many each stands, None if for itself."""
    empty = modes == EMPTY
    behind = empty[:, 1:] & empty[:, :-1]
    if not np.count_nonzero(behind):
        return None
    kinds = scene.column(k.MODEL)
    behind &= kinds[:, 1:] == kinds[:, :-1]
    is_open[:, 1:][behind] = 0
    if not scene.counts:
        return None
    leads = np.ones(modes.shape, np.bool_)
    np.logical_not(behind, out=leads[:, 1:])
    first = leads.reshape(-1).nonzero()[0]
    runs = np.zeros(leads.size, np.int64)
    runs[first[:-1]] = first[1:] - first[:-1]
    runs[first[-1:]] = leads.size - first[-1:]
    return runs


def _with_room(scene: Scene, rank: Ints | int, gpu: Ints, term: TermsAt) -> tuple[Bools | None, Ints | None]:
    """Which pairs have room, None if all, and the occupancy with the slices, None if none are asked for."""
    offered, served, cut = scene.ask[k.OFFERED], term.of.served, None
    fits: Bools | None = None
    if offered & SHARED:
        fits = _with_room_beside(gpu, scene.ask, term)
        if offered & WHOLE:
            fits |= rank == k.EXCLUSIVE_RANK
    if offered & CUT:
        mig = slices_among(offered, rank)
        where = gpu[k.MODEL, mig], gpu[k.MIG_STATE, mig], term.some(k.PROFILE, mig)
        after = scene.tables[2][where]
        if not offered & ~CUT:
            fits, cut = after >= 0, after.astype(np.int64)
        else:
            fits = np.ones(len(gpu[0]), np.bool_) if fits is None else fits
            cut = np.zeros(len(fits), np.int64)
            fits[mig], cut[mig] = after >= 0, after
    if served is not None:
        would_do: Bools = served.take(term.at)
        fits = would_do if fits is None else fits & would_do
    return fits, cut


def _with_room_beside(gpu: Ints, ask: list[int], term: TermsAt) -> Bools:
    """Where a share has room, if it were of a mode that is shared."""
    room: Bools = gpu[k.FREE_MEMORY] >= term[k.MEMORY]
    if ask[k.OFFERED] & ~SHARED or term.number(k.MILLI) is None:  # else there is enough for the least
        room &= gpu[k.FREE_MILLI] >= term[k.MILLI]
    if term.number(k.CLIENT_LIMIT) != k.MANY:
        room &= gpu[k.CLIENTS] < term[k.CLIENT_LIMIT]
    # A GPU of nobody is kept from nobody.
    at_home = gpu[k.TENANT] == k.NOBODY if ask[k.ISOLATING] else gpu[k.ISOLATED] == 0
    if ask[k.ASKER] != k.STRANGER:
        at_home |= gpu[k.TENANT] == ask[k.ASKER]
    room &= at_home
    return room


def _left(offered: int, rank: Ints | int, gpu: Ints, term: TermsAt) -> Ints:
    """Compute left on each GPU after a share."""
    if not offered & SHARED:
        left: Ints = np.zeros(gpu.shape[1], np.int64)
    else:
        left = gpu[k.FREE_MILLI] - term[k.MILLI]
        if offered & WHOLE:
            left[rank == k.EXCLUSIVE_RANK] = 0
    if offered & CUT:
        mig = slices_among(offered, rank)
        used = gpu[k.MIG_STATE, mig] >> EIGHT & SEVEN
        if term.of.left_by_used is not None:
            left[mig] = term.of.left_by_used.take(used)
        else:
            slices = term.some(k.SLICES, mig)
            left[mig] = (slices - used - term.some(k.CUT, mig)) * 1000 // slices
    return left


def _room(scene: Scene, rank: Ints | int, gpu: Ints, term: TermsAt) -> Ints:
    """How many such shares fit on each GPU."""
    offered = scene.ask[k.OFFERED]
    if not offered & SHARED:
        room: Ints = np.ones(gpu.shape[1], np.int64)
    else:
        memory = term[k.MEMORY]
        room = gpu[k.FREE_MILLI] // term[k.MILLI]
        np.minimum(room, gpu[k.FREE_MEMORY] // np.maximum(memory, 1), out=room, where=memory > 0)
        np.minimum(room, term[k.CLIENT_LIMIT] - gpu[k.CLIENTS], out=room)
        if offered & WHOLE:
            room[rank == k.EXCLUSIVE_RANK] = 1
    if offered & CUT:
        mig = slices_among(offered, rank)
        room[mig] = scene.tables[3][gpu[k.MODEL, mig], gpu[k.MIG_STATE, mig], term.some(k.PROFILE, mig)]
    return room


def welcome(scene: Scene, fits: Fits) -> Fits:
    """The pairs that are not known to refuse the request."""
    refused, number = scene.tables[1], fits.gpu[k.NEIGHBOURHOOD]
    if not refused.shape[1]:
        return fits
    known = number < refused.shape[1]
    if not known.all():
        number = np.where(known, number, 0)
    out = known & (refused[fits.rank, number] != 0)
    return fits.some((~out).nonzero()[0]) if out.any() else fits


def has_room_beside(node: Ints, ask: list[int]) -> Bools:
    """Which nodes are up and have CPU and RAM for one worker."""
    could: Bools = node[:, k.UP] == ONE
    if ask[k.CPU] > 0:
        could &= node[:, k.CPU_FREE] >= ask[k.CPU]
    if ask[k.RAM] > 0:
        could &= node[:, k.RAM_FREE] >= ask[k.RAM]
    return could


def workers_beside_gpus(node: Ints, ask: list[int]) -> Ints:
    """How many workers CPU and RAM allow on nodes that are up, each at least one."""
    workers: Ints | None = None
    for asked, free in ((ask[k.CPU], k.CPU_FREE), (ask[k.RAM], k.RAM_FREE)):
        if asked > 0:
            times = node[:, free] // asked
            workers = times if workers is None else np.minimum(workers, times)
    return np.full(len(node), k.MANY, np.int64) if workers is None else np.minimum(workers, k.MANY)
