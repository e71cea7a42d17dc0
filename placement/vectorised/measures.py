"""The measures of :mod:`placement.measures`, for many places at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from placement import columns as k
from placement import mix as f
from placement.columns import Ints
from placement.vectorised.fits import Fits, Scene, slices_among


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
