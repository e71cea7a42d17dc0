"""The measures of :mod:`placement.measures` and :mod:`placement.worth`, for many places at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from placement import columns as k
from placement import mix as f
from placement import worth as w
from placement.columns import Ints
from placement.vectorised.fits import SHARED, WHOLE, Fits, Scene, slices_among


def _at_step(amount: Ints, count: int, at: int, mix: Ints) -> Ints:
    steps = mix[at : at + count]
    reached = np.searchsorted(steps, amount, side="right")
    return np.where(reached > 0, mix.take(at + count + np.maximum(reached, 1) - 1), 0)


def _popularity(mask: Ints, kind: Ints, mix: Ints) -> Ints:
    at, most = int(mix[f.POPULAR_AT]) + kind * 2048, int(mask.max(initial=0))
    total: Ints = mix.take(at + (mask & 255))
    while most > 255:
        mask, at, most = mask >> 8, at + 256, most >> 8
        total += mix.take(at + (mask & 255))
    return total


def _stranded(free: Ints, kind: Ints, usable: Ints, mix: Ints) -> Ints:
    wasted: Ints = free * (f.WHOLE - _popularity(usable, kind, mix))
    return wasted


def _runnable(scene: Scene, cpu: int, ram: int) -> Ints:
    mix, node = scene.tables[4], scene.node
    by_cpu = _at_step(node[:, k.CPU_FREE] - cpu, int(mix[f.CPU_N]), int(mix[f.CPU_AT]), mix)
    return by_cpu & _at_step(node[:, k.RAM_FREE] - ram, int(mix[f.RAM_N]), int(mix[f.RAM_AT]), mix)


def _by_empties(empties: Ints, mix: Ints) -> Ints:
    masks: Ints = mix.take(int(mix[f.EMPTIES_AT]) + np.clip(empties, 0, 64))
    return masks


def _free(gpu: Ints) -> Ints:
    return np.where(gpu[..., k.MODE] == k.ABSENT, 0, gpu[..., k.FREE_MILLI])


@dataclass(slots=True)
class _Sums:
    """Stranded compute of each node now, and after without and with an empty GPU less; what can run then."""

    now: Ints
    after: Ints
    runnable: Ints


def _sums_of(scene: Scene) -> _Sums:
    """The sums of each node, int64 [nodes] and for both cases after [2, nodes]."""
    ask, mix, empties = scene.ask, scene.tables[4], scene.node[:, k.EMPTIES]
    now, after = _runnable(scene, 0, 0), _runnable(scene, ask[k.CPU], ask[k.RAM])
    shut = _by_empties(empties, mix)
    masks = np.stack([now & shut, after & shut, after & _by_empties(empties - 1, mix)])
    gpu = scene.every_gpu()
    usable = gpu[..., k.USABLE] & masks[:, :, None]
    sums = _stranded(_free(gpu), gpu[..., k.MODEL], usable, mix).sum(2)
    return _Sums(sums[0], sums[1:], masks[1:])


def _usable_after(scene: Scene, fits: Fits) -> Ints:
    """Which usual requests could use each GPU after one more share."""
    mix, gpu, term, kind = scene.tables[4], fits.gpu, fits.term, fits.gpu[k.MODEL]
    plane = np.minimum(fits.rank, k.TIMESLICE_RANK) * int(mix[f.KINDS]) + kind
    mask: Ints = mix.take(int(mix[f.SHARE_AT]) + plane * 1001 + fits.left)
    memory = gpu[k.FREE_MEMORY] - term[k.MEMORY]
    mask &= _at_step(memory, int(mix[f.MEMORY_N]), int(mix[f.MEMORY_AT]), mix)
    clients = term[k.CLIENT_LIMIT] - gpu[k.CLIENTS] - 1
    mask &= _at_step(clients, int(mix[f.CLIENTS_N]), int(mix[f.CLIENTS_AT]), mix)
    if fits.cut is not None:
        mig = slices_among(scene.ask[k.OFFERED], fits.rank)
        mask[mig] = mix.take(int(mix[f.MIG_AT]) + kind[mig] * 4096 + fits.cut[mig])
    return mask


def stranding(scene: Scene, fits: Fits) -> Ints | int:
    """Growth of each node's stranded compute, per GPU that would take a share."""
    if scene.ask[k.WEIGHS] != k.STRANDED:
        return 0
    sums, gpu, mix = _sums_of(scene), fits.gpu, scene.tables[4]
    opened = (gpu[k.MODE] == k.EMPTY).astype(np.int64)
    beside, runnable = sums.after[opened, fits.node], sums.runnable[opened, fits.node]
    kind = gpu[k.MODEL]
    before = _stranded(gpu[k.FREE_MILLI], kind, gpu[k.USABLE] & runnable, mix)
    # Of a whole GPU nothing is left.
    after = _stranded(fits.left, kind, _usable_after(scene, fits) & runnable, mix)
    growth: Ints = beside - before + after - sums.now.take(fits.node)
    return growth


def stranding_of_whole(scene: Scene) -> Ints | int:
    """Growth of each node's stranded compute if its first empty GPUs are taken whole."""
    if scene.ask[k.WEIGHS] != k.STRANDED:
        return 0
    ask, mix, wanted, gpu = scene.ask, scene.tables[4], scene.ask[k.GPUS], scene.every_gpu()
    empties = scene.node[:, k.EMPTIES]
    now = _runnable(scene, 0, 0) & _by_empties(empties, mix)
    after = _runnable(scene, ask[k.CPU], ask[k.RAM]) & _by_empties(empties - wanted, mix)
    empty = gpu[..., k.MODE] == k.EMPTY
    gone = empty & (np.cumsum(empty, 1) <= wanted)
    free, kind, usable = _free(gpu), gpu[..., k.MODEL], gpu[..., k.USABLE]
    strand: Ints = _stranded(np.where(gone, 0, free), kind, usable & after[:, None], mix).sum(1)
    before: Ints = _stranded(free, kind, usable & now[:, None], mix).sum(1)
    return strand - before


# -- worth -------------------------------------------------------------------------------------------------


def _of_share(kind: Ints, milli: Ints, memory: Ints, mix: Ints) -> Ints:
    """Worth of GPUs with so much left: the scarcer of compute and memory counts."""
    # No more than all of a GPU's memory counts, so that a thousand times as much is a number.
    total = np.maximum(mix.take(kind + int(mix[f.TOTALS_AT])), 1)
    held = np.minimum(np.maximum(memory, 0), total) * 1000 // total
    worth: Ints = mix.take(kind * 1001 + int(mix[f.WORTH_AT]) + np.minimum(milli, held))
    return worth


def _worth_lost(scene: Scene, fits: Fits, taken: Ints) -> Ints:
    """What the free part of each GPU loses by one share."""
    mix, gpu, kind, offered = scene.tables[4], fits.gpu, fits.gpu[k.MODEL], scene.ask[k.OFFERED]
    if offered & SHARED:
        before, after = _worth_of_shares(gpu, fits, mix)
    else:
        before, after = np.zeros((2, len(kind)), np.int64)
    if fits.cut is not None:
        mig = slices_among(offered, fits.rank)
        slices = kind[mig] * 4096 + int(mix[f.SLICES_AT])
        before[mig] = mix.take(slices + gpu[k.MIG_STATE, mig])
        after[mig] = mix.take(slices + fits.cut[mig])
    before[gpu[k.MODE] == k.EMPTY] = 1000
    if offered & WHOLE:
        after[fits.rank == k.EXCLUSIVE_RANK] = 0
    lost: Ints = w.GPU_WEIGHT * (before - after) + taken * (gpu[k.FREE_MILLI] + fits.left) // 4000
    return lost


def _worth_of_shares(gpu: Ints, fits: Fits, mix: Ints) -> Ints:
    """What is free of each GPU is worth as a share, before and after one more, int64 [2, places]."""
    milli, memory = np.empty((2, len(fits.left)), np.int64), np.empty((2, len(fits.left)), np.int64)
    milli[0], milli[1], memory[0] = gpu[k.FREE_MILLI], fits.left, gpu[k.FREE_MEMORY]
    np.subtract(memory[0], fits.term[k.MEMORY], out=memory[1])
    worth = _of_share(gpu[k.MODEL], milli, memory, mix)
    worth[1, gpu[k.CLIENTS] + 1 >= fits.term[k.CLIENT_LIMIT]] = 0
    return worth


def forgone(scene: Scene, fits: Fits, taken: Ints) -> Ints | int:
    """What usual requests lose, per GPU that would take a share."""
    if scene.ask[k.WEIGHS] != k.FORGONE:
        return 0
    opened = (fits.gpu[k.MODE] == k.EMPTY).view(np.int8)
    what = _Taken(fits.node, fits.gpu[k.MODEL], taken, (0, 1), opened)
    return _worth_lost(scene, fits, taken) + _lost_beside(scene, what)


def forgone_bare(scene: Scene) -> Ints | int:
    """What usual requests lose by a request without GPUs, per node."""
    if scene.ask[k.WEIGHS] != k.FORGONE or not scene.gpus.shape[1]:
        return 0
    return np.where(scene.node[:, k.SIZE] > 0, _lost_beside(scene, _of_first(scene, 0)), 0)


def forgone_whole(scene: Scene) -> Ints | int:
    """What usual requests lose by several whole GPUs, per node."""
    if scene.ask[k.WEIGHS] != k.FORGONE or not scene.gpus.shape[1]:
        return 0
    wanted = scene.ask[k.GPUS]
    return w.WHOLE_LOST * wanted + _lost_beside(scene, _of_first(scene, wanted))


@dataclass(slots=True)
class _Taken:
    """What is taken at some places.

    Attributes:
        at: the node of each place, as it stands in the scene; kind: of its GPU; milli: thousandths of that.
        cases: how many empty GPUs may be taken; case: which of these holds at each place.
    """

    at: Ints
    kind: Ints
    milli: Ints | int
    cases: tuple[int, ...]
    case: Any


def _of_first(scene: Scene, opened: int) -> _Taken:
    """Whole GPUs of the kind of each node's first."""
    kind = scene.gpus[scene.rows, 0, k.MODEL]
    return _Taken(np.arange(len(scene.node)), kind, 1000 * opened, (opened,), 0)


def _lost_beside(scene: Scene, what: _Taken) -> Ints:
    """What the rest of each node loses."""
    mix, ask, at = scene.tables[4], scene.ask, what.at
    free, empties = scene.node[:, k.FREE_SUM], scene.node[:, k.EMPTIES]
    # CPU and RAM (MiB), before and after.
    beside = np.empty((2, 2, len(free)), np.int64)
    beside[0], beside[1] = scene.node[:, k.CPU_FREE], scene.node[:, k.RAM_FREE]
    beside[0, 1] -= ask[k.CPU]
    beside[1, 1] -= ask[k.RAM]
    beside[1] >>= 20
    np.minimum(beside, w.MUCH, out=beside)
    before, after = _feedable(beside, mix)
    lost: Ints = _fed(free, before).take(at) - _fed(free.take(at) - what.milli, after.take(at, 1))
    prices = _table(mix, f.KIND_PRICES_AT, int(mix[f.KINDS]))
    if prices.any():
        lost += prices.take(what.kind) * what.milli // 1000
    priced = (_table(mix, f.BIG_PRICES_AT, int(mix[f.BIG_N])) > 0).nonzero()[0]
    if len(priced) and empties.any():
        lost += _lost_to_several(mix, empties, (beside, priced), what.cases)[what.case, what.kind, at]
    return lost


def _table(mix: Ints, at: int, count: int) -> Ints:
    begin = int(mix[at])
    return mix[begin : begin + count]


_FEED_WEIGHTS = np.array(w.FEED_WEIGHTS, np.int64)
_BY_CPU = len(w.FEED_WEIGHTS) - 1


def _feedable(beside: Ints, mix: Ints) -> Ints:
    """The compute that CPU and RAM can feed at each ratio, int64 [2, ratios, nodes]."""
    ratios = _table(mix, f.RATIOS_AT, len(w.FEED_WEIGHTS))
    most = np.empty((2, len(ratios), beside.shape[2]), np.int64)
    cpu, mib = beside * 1000
    most[:, :_BY_CPU], most[:, _BY_CPU] = cpu[:, None], mib
    most //= np.maximum(ratios, 1)[:, None]
    if not ratios.all():
        most[:, ratios == 0] = w.MUCH
    return most


def _fed(milli: Ints, most: Ints) -> Ints:
    fed: Ints = np.dot(_FEED_WEIGHTS, np.minimum(milli, most)) // 8
    return fed


def _lost_to_several(mix: Ints, empties: Ints, rest: tuple[Ints, Ints], cases: tuple[int, ...]) -> Ints:
    """What usual requests of several GPUs lose by so many empty ones less, int64 [cases, kinds, nodes].

    ``rest``: CPU and RAM (MiB) of each node before and after, and which of the usual requests have a price.
    """
    beside, priced = rest
    count = int(mix[f.BIG_N])
    usual = _table(mix, f.BIG_AT, count * w.BIG_COLUMNS).reshape(-1, w.BIG_COLUMNS).take(priced, 0)
    asked = usual[:, :2].T[:, None, :, None]
    times = beside[:, :, None] // np.maximum(asked, 1)  # of CPU and RAM, [2, 2, usual, nodes]
    if not asked.all():
        times = np.where(asked > 0, times, w.MUCH)
    before, after = np.minimum(times[0], times[1])
    left = empties - np.array((0, *cases))[:, None, None]
    places = left // usual[:, 2, None]
    lost = np.minimum(before, places[0]) - np.minimum(after, places[1:])
    kinds = np.minimum(np.arange(int(mix[f.KINDS])), k.BIT_LIMIT)
    prices = _table(mix, f.BIG_PRICES_AT, count).take(priced)
    by_kind: Ints = (usual[:, 3] >> kinds[:, None] & 1) * prices @ lost
    return by_kind
