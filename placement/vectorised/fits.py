"""Which GPUs of many nodes have room for a request, and in which mode: a flat list, by numpy alone.

On a busy cluster most GPUs have room in no mode, and one that is shared already in its own mode only.  So
pairs of a GPU and a mode are listed first and all that follows is worked out for these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from placement import columns as k
from placement.columns import Ints

Bools = npt.NDArray[np.bool_]


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

    def every_gpu(self) -> Ints:
        """All GPUs of these nodes, int64 [nodes, slots, columns]."""
        gpu: Ints = self.gpus[self.rows]
        return gpu

    @property
    def ranks(self) -> list[int]:
        """The ranks of the modes that would do."""
        return [rank for rank in range(k.RANKS) if self.ask[k.OFFERED] >> rank & 1]


@dataclass(slots=True)
class Fits:
    """Pairs of a GPU and a mode with room for one share, promises aside, by node, slot and rank.

    Attributes:
        node: where the node stands in the scene; slot, rank: int64 [pairs].
        gpu, term: the columns of the GPU and of the terms, int64 [columns, pairs].
        cut: the occupancy of a GPU with the slices, None if none are asked for.
        left: compute left on the GPU; room: how many such shares fit, None if that does not matter.
        alike: for how many GPUs of the node in a row this one stands, None if each for itself.
    """

    node: Ints
    slot: Ints
    rank: Ints
    gpu: Ints
    term: Ints
    cut: Ints | None
    left: Ints
    room: Ints | None
    alike: Ints | None

    def some(self, which: Ints) -> Fits:
        """Some of the pairs, by index."""
        where = self.node.take(which), self.slot.take(which), self.rank.take(which)
        columns = self.gpu.take(which, 1), self.term.take(which, 1)
        cut = None if self.cut is None else self.cut.take(which)
        room = None if self.room is None else self.room.take(which)
        alike = None if self.alike is None else self.alike.take(which)
        return Fits(*where, *columns, cut, self.left.take(which), room, alike)


def slices_among(offered: int, rank: Ints) -> Any:
    """Which of these ranks are slices, as an index; ``offered`` are the ranks that may be among them."""
    if not offered & ~CUT:
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

_IS_SLICE = np.array(k.MODE_RANK) == k.MIG_RANK

SHARED, CUT, WHOLE = k.IN_MPS | k.IN_TIMESLICE, k.IN_MIG, k.IN_EXCLUSIVE
"""Masks of the ranks: shares of whole GPUs, slices, and GPUs that a job has for itself."""


def fits_of(scene: Scene, *, first_alone: bool) -> Fits:
    """Where a share fits; of empty GPUs of a kind in a row the first only if that ``first_alone`` matters."""
    rows, gpus, slots = scene.rows, scene.gpus, scene.gpus.shape[1]
    modes = gpus[:, :, k.MODE][rows]
    is_open = _OPEN[scene.ask[k.OFFERED]].take(modes)
    runs = _lead_alone(scene, modes, is_open) if first_alone else None
    found = is_open.view(np.bool_).reshape(-1).nonzero()[0]
    places, rank = found >> _RANK_BITS, found & (1 << _RANK_BITS) - 1
    node, slot = np.divmod(places, slots)
    gpu = gpus.reshape(-1, k.GPU_COLUMNS).take(rows.take(node) * slots + slot, 0)
    kinds, terms = scene.tables[0].shape[1], scene.tables[0].reshape(-1, k.TERM_COLUMNS)
    term = terms.take(rank * kinds + gpu[:, k.MODEL], 0)
    some, cut = _with_room(scene, rank, gpu.T, term.T)
    node, slot, rank = node.take(some), slot.take(some), rank.take(some)
    gpu, term = gpu.take(some, 0).T, term.take(some, 0).T
    cut = None if cut is None else cut.take(some)
    alike = None if runs is None else runs.take(places.take(some))
    left = _left(scene, rank, gpu, term)
    room = _room(scene, rank, gpu, term) if scene.counts else None
    return Fits(node, slot, rank, gpu, term, cut, left, room, alike)


def _lead_alone(scene: Scene, modes: Ints, is_open: Any) -> Ints | None:
    """Keep the first of empty GPUs in a row open, in place; for how many each stands, None if for itself."""
    empty = modes == k.EMPTY
    behind = empty[:, 1:] & empty[:, :-1]
    if not behind.any():
        return None
    kinds = scene.gpus[:, :, k.MODEL][scene.rows]
    behind &= kinds[:, 1:] == kinds[:, :-1]
    is_open[:, 1:][behind] = 0
    leads = np.ones(modes.shape, np.bool_)
    np.logical_not(behind, out=leads[:, 1:])
    if not scene.counts:
        return None
    first = leads.reshape(-1).nonzero()[0]
    runs = np.zeros(leads.size, np.int64)
    runs[first[:-1]] = first[1:] - first[:-1]
    runs[first[-1:]] = leads.size - first[-1:]
    return runs


def _with_room(scene: Scene, rank: Ints, gpu: Ints, term: Ints) -> tuple[Ints, Ints | None]:
    """Which pairs have room, and the occupancy with the slices of all, None if none are asked for."""
    offered, cut = scene.ask[k.OFFERED], None
    fits: Bools = term[k.MILLI] > 0
    if offered & SHARED:
        with_share = _with_room_beside(gpu, scene.ask, term)
        if offered & WHOLE:
            with_share |= rank == k.EXCLUSIVE_RANK
        fits &= with_share
    if offered & CUT:
        mig = slices_among(offered, rank)
        cut = np.zeros(len(rank), np.int64)
        cut[mig] = scene.tables[2][gpu[k.MODEL, mig], gpu[k.MIG_STATE, mig], term[k.PROFILE, mig]]
        placeable = cut[mig] >= 0
        placeable &= term[k.MILLI, mig] > 0
        fits[mig] = placeable
    return fits.nonzero()[0], cut


def _with_room_beside(gpu: Ints, ask: list[int], term: Ints) -> Bools:
    """Where a share has room, if it were of a mode that is shared."""
    room: Bools = gpu[k.FREE_MILLI] >= term[k.MILLI]
    room &= gpu[k.FREE_MEMORY] >= term[k.MEMORY]
    room &= gpu[k.CLIENTS] < term[k.CLIENT_LIMIT]
    tenant = gpu[k.TENANT]
    at_home = tenant == k.NOBODY
    at_home |= tenant == ask[k.ASKER]
    if not ask[k.ISOLATING]:
        at_home |= gpu[k.ISOLATED] == 0
    room &= at_home
    return room


def _left(scene: Scene, rank: Ints, gpu: Ints, term: Ints) -> Ints:
    """Compute left on each GPU after a share."""
    offered = scene.ask[k.OFFERED]
    if not offered & SHARED:
        left: Ints = np.zeros(len(rank), np.int64)
    else:
        left = gpu[k.FREE_MILLI] - term[k.MILLI]
        if offered & WHOLE:
            left[rank == k.EXCLUSIVE_RANK] = 0
    if offered & CUT:
        mig = slices_among(offered, rank)
        slices = term[k.SLICES, mig]
        left[mig] = (slices - (gpu[k.MIG_STATE, mig] >> 8 & 7) - term[k.CUT, mig]) * 1000 // slices
    return left


def _room(scene: Scene, rank: Ints, gpu: Ints, term: Ints) -> Ints:
    """How many such shares fit on each GPU."""
    offered = scene.ask[k.OFFERED]
    if not offered & SHARED:
        room: Ints = np.ones(len(rank), np.int64)
    else:
        memory = term[k.MEMORY]
        room = gpu[k.FREE_MILLI] // term[k.MILLI]
        np.minimum(room, gpu[k.FREE_MEMORY] // np.maximum(memory, 1), out=room, where=memory > 0)
        np.minimum(room, term[k.CLIENT_LIMIT] - gpu[k.CLIENTS], out=room)
        if offered & WHOLE:
            room[rank == k.EXCLUSIVE_RANK] = 1
    if offered & CUT:
        mig = slices_among(offered, rank)
        room[mig] = scene.tables[3][gpu[k.MODEL, mig], gpu[k.MIG_STATE, mig], term[k.PROFILE, mig]]
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
    could: Bools = node[:, k.UP] == 1
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
