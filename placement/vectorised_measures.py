"""The measures of :mod:`placement.measures` and :mod:`placement.worth`, for many nodes at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from placement import columns as k
from placement import mix as f
from placement import worth as w
from placement.columns import Ints
from placement.policies.offer import Scores


@dataclass(slots=True)
class Sight:
    """Some nodes and a request; ``gpu`` is int64 [nodes, slots, columns], ``node`` int64 [nodes, columns]."""

    gpu: Ints
    node: Ints
    ask: Ints
    tables: tuple[Any, ...]
    scores: Scores

    def of_node(self, column: int) -> Ints:
        """A column of the nodes, beside their GPUs, int64 [nodes, 1]."""
        figures: Ints = self.node[:, column, None]
        return figures


def _at_step(amount: Ints, count: int, at: int, mix: Ints) -> Ints:
    steps = mix[at : at + count]
    reached = np.searchsorted(steps, amount, side="right")
    return np.where(reached > 0, mix[at + count + np.maximum(reached, 1) - 1], 0)


def _popularity(mask: Ints, kind: Ints, mix: Ints) -> Ints:
    total = np.zeros_like(mask)
    at, most = int(mix[f.POPULAR_AT]) + kind * 2048, int(mask.max(initial=0))
    while most:
        total += mix[at + (mask & 255)]
        mask, at, most = mask >> 8, at + 256, most >> 8
    return total


def _stranded(free: Ints, kind: Ints, usable: Ints, mix: Ints) -> Ints:
    wasted: Ints = free * (f.WHOLE - _popularity(usable, kind, mix))
    return wasted


def _runnable(sight: Sight, cpu: Ints | int, ram: Ints | int) -> Ints:
    mix, node = sight.tables[4], sight.node
    by_cpu = _at_step(node[:, k.CPU_FREE] - cpu, int(mix[f.CPU_N]), int(mix[f.CPU_AT]), mix)
    return by_cpu & _at_step(node[:, k.RAM_FREE] - ram, int(mix[f.RAM_N]), int(mix[f.RAM_AT]), mix)


def _by_empties(empties: Ints, mix: Ints) -> Ints:
    masks: Ints = mix[int(mix[f.EMPTIES_AT]) + np.clip(empties, 0, 64)]
    return masks


def _free(sight: Sight) -> Ints:
    return np.where(sight.gpu[..., k.MODE] == k.ABSENT, 0, sight.gpu[..., k.FREE_MILLI])


@dataclass(slots=True)
class Sums:
    """Stranded compute per node: now, and after without and with an empty GPU less; int64 [nodes, 1]."""

    now: Ints
    shut: Ints
    opened: Ints
    runnable_shut: Ints
    runnable_opened: Ints


def sums_of(sight: Sight) -> Sums | None:
    """The sums of each node, None unless the policy weighs them."""
    if sight.ask[k.WEIGHS] != k.STRANDED:
        return None
    ask, mix, empties = sight.ask, sight.tables[4], sight.node[:, k.EMPTIES]
    after = _runnable(sight, ask[k.CPU], ask[k.RAM])
    masks = (
        _runnable(sight, 0, 0) & _by_empties(empties, mix),
        after & _by_empties(empties, mix),
        after & _by_empties(empties - 1, mix),
    )
    free, usable, kind = _free(sight), sight.gpu[..., k.USABLE], sight.gpu[..., k.MODEL]
    now, shut, opened = (_stranded(free, kind, usable & m[:, None], mix).sum(1, keepdims=True) for m in masks)
    return Sums(now, shut, opened, masks[1][:, None], masks[2][:, None])


def _cut_after(sight: Sight, term: Ints) -> Ints:
    """The occupancy of each GPU with the slices; any where they do not fit."""
    gpu = sight.gpu
    after = sight.tables[2][gpu[..., k.MODEL], gpu[..., k.MIG_STATE], term[..., k.PROFILE]]
    state: Ints = np.maximum(after.astype(np.int64), 0)
    return state


def _usable_after(sight: Sight, rank: int, left: Ints, term: Ints) -> Ints:
    mix, gpu = sight.tables[4], sight.gpu
    kind = gpu[..., k.MODEL]
    if rank == k.MIG_RANK:
        found: Ints = mix[int(mix[f.MIG_AT]) + kind * 4096 + _cut_after(sight, term)]
        return found
    plane = rank * int(mix[f.KINDS]) + kind
    mask: Ints = mix[int(mix[f.SHARE_AT]) + plane * 1001 + np.maximum(left, 0)]
    memory = gpu[..., k.FREE_MEMORY] - term[..., k.MEMORY]
    mask = mask & _at_step(memory, int(mix[f.MEMORY_N]), int(mix[f.MEMORY_AT]), mix)
    clients = term[..., k.CLIENT_LIMIT] - gpu[..., k.CLIENTS] - 1
    mask &= _at_step(clients, int(mix[f.CLIENTS_N]), int(mix[f.CLIENTS_AT]), mix)
    return mask


def stranding(sight: Sight, rank: int, fitted: tuple[Ints, Ints], sums: Sums | None) -> Ints | int:
    """Growth of each node's stranded compute, per GPU that would take a share."""
    if sums is None:
        return 0
    left, term = fitted
    gpu, mix = sight.gpu, sight.tables[4]
    empty = gpu[..., k.MODE] == k.EMPTY
    beside = np.where(empty, sums.opened, sums.shut)
    runnable = np.where(empty, sums.runnable_opened, sums.runnable_shut)
    kind = gpu[..., k.MODEL]
    before = _stranded(_free(sight), kind, gpu[..., k.USABLE] & runnable, mix)
    after: Ints | int = 0
    if rank != k.EXCLUSIVE_RANK:
        usable = _usable_after(sight, rank, left, term) & runnable
        after = _stranded(np.maximum(left, 0), kind, usable, mix)
    return beside - before + after - sums.now


def stranding_of_whole(sight: Sight) -> Ints | int:
    """Growth of each node's stranded compute if its first empty GPUs are taken whole."""
    if sight.ask[k.WEIGHS] != k.STRANDED:
        return 0
    ask, mix, wanted = sight.ask, sight.tables[4], int(sight.ask[k.GPUS])
    empties = sight.node[:, k.EMPTIES]
    now = _runnable(sight, 0, 0) & _by_empties(empties, mix)
    after = _runnable(sight, ask[k.CPU], ask[k.RAM]) & _by_empties(empties - wanted, mix)
    empty = sight.gpu[..., k.MODE] == k.EMPTY
    gone = empty & (np.cumsum(empty, 1) <= wanted)
    free, kind, usable = _free(sight), sight.gpu[..., k.MODEL], sight.gpu[..., k.USABLE]
    strand: Ints = _stranded(np.where(gone, 0, free), kind, usable & after[:, None], mix).sum(1)
    before: Ints = _stranded(free, kind, usable & now[:, None], mix).sum(1)
    return strand - before


# -- worth -------------------------------------------------------------------------------------------------


def _of_share(kind: Ints, milli: Ints, memory: Ints, mix: Ints) -> Ints:
    total = mix[int(mix[f.TOTALS_AT]) + kind]
    scarce = (total > 0) & (memory < total)
    by_memory = np.maximum(np.where(scarce, memory, 0), 0) * 1000 // np.maximum(total, 1)
    held = np.maximum(np.where(scarce, np.minimum(milli, by_memory), milli), 0)
    worth: Ints = mix[int(mix[f.WORTH_AT]) + kind * 1001 + held]
    return worth


def _worth_before(gpu: Ints, mix: Ints) -> Ints:
    kind, mode = gpu[..., k.MODEL], gpu[..., k.MODE]
    slices = mix[int(mix[f.SLICES_AT]) + kind * 4096 + gpu[..., k.MIG_STATE]]
    share = _of_share(kind, gpu[..., k.FREE_MILLI], gpu[..., k.FREE_MEMORY], mix)
    return np.where(mode == k.EMPTY, 1000, np.where(mode == k.MIG, slices, share))


def forgone(sight: Sight, rank: int, fitted: tuple[Ints, Ints]) -> Ints | int:
    """What usual requests lose, per GPU that would take a share."""
    if sight.ask[k.WEIGHS] != k.FORGONE:
        return 0
    left, term = fitted
    gpu, mix = sight.gpu, sight.tables[4]
    kind, free = gpu[..., k.MODEL], gpu[..., k.FREE_MILLI]
    after: Ints | int = 0
    if rank == k.MIG_RANK:
        after = mix[int(mix[f.SLICES_AT]) + kind * 4096 + _cut_after(sight, term)]
    elif rank != k.EXCLUSIVE_RANK:
        share = _of_share(kind, left, gpu[..., k.FREE_MEMORY] - term[..., k.MEMORY], mix)
        after = np.where(gpu[..., k.CLIENTS] + 1 < term[..., k.CLIENT_LIMIT], share, 0)
    lost: Ints = w.GPU_WEIGHT * (_worth_before(gpu, mix) - after) + (free * free - left * left) // 4000
    opened = (gpu[..., k.MODE] == k.EMPTY).astype(np.int64)
    return lost + _lost_beside(sight, free - left, kind, opened)


def forgone_bare(sight: Sight) -> Ints | int:
    """What usual requests lose by a request without GPUs, per node."""
    if sight.ask[k.WEIGHS] != k.FORGONE or not sight.gpu.shape[1]:
        return 0
    kind = sight.gpu[:, :1, k.MODEL]
    lost = _lost_beside(sight, np.zeros_like(kind), kind, np.zeros_like(kind))[:, 0]
    return np.where(sight.node[:, k.SIZE] > 0, lost, 0)


def forgone_whole(sight: Sight) -> Ints | int:
    """What usual requests lose by several whole GPUs, per node."""
    if sight.ask[k.WEIGHS] != k.FORGONE or not sight.gpu.shape[1]:
        return 0
    wanted = int(sight.ask[k.GPUS])
    kind = sight.gpu[:, :1, k.MODEL]
    beside = _lost_beside(sight, np.full_like(kind, 1000 * wanted), kind, np.full_like(kind, wanted))
    return w.WHOLE_LOST * wanted + beside[:, 0]


def _fed(milli: Ints, cpu: Ints, ram: Ints, mix: Ints) -> Ints:
    fed = np.zeros_like(milli)
    at = int(mix[f.RATIOS_AT])
    cores, mib = np.minimum(cpu, w.MUCH), np.minimum(ram >> 20, w.MUCH)
    for i, weight in enumerate(w.FEED_WEIGHTS):
        most = milli
        if mix[at + i] > 0:
            most = np.minimum(most, (mib if i == len(w.FEED_WEIGHTS) - 1 else cores) * 1000 // mix[at + i])
        fed = fed + weight * most
    return fed // 8


def _places(at: int, kind: Ints, node: tuple[Ints, Ints, Ints], mix: Ints) -> Ints:
    cpu, ram, empties = node
    places = empties // mix[at + 2]
    if mix[at] > 0:
        places = np.minimum(places, np.minimum(cpu, w.MUCH) // mix[at])
    if mix[at + 1] > 0:
        places = np.minimum(places, np.minimum(ram >> 20, w.MUCH) // mix[at + 1])
    return np.where((int(mix[at + 3]) >> np.minimum(kind, k.BIT_LIMIT)) & 1 == 1, places, 0)


def _lost_beside(sight: Sight, taken: Ints, kind: Ints, opened: Ints) -> Ints:
    mix, ask = sight.tables[4], sight.ask
    cpu, ram = sight.of_node(k.CPU_FREE), sight.of_node(k.RAM_FREE)
    free, empties = sight.of_node(k.FREE_SUM), sight.of_node(k.EMPTIES)
    cpu_left, ram_left = cpu - ask[k.CPU], ram - ask[k.RAM]
    lost: Ints = _fed(free, cpu, ram, mix) - _fed(free - taken, cpu_left, ram_left, mix)
    lost = lost + mix[int(mix[f.KIND_PRICES_AT]) + kind] * taken // 1000
    price_at, at = int(mix[f.BIG_PRICES_AT]), int(mix[f.BIG_AT])
    for _ in range(int(mix[f.BIG_N])):
        if mix[price_at] > 0:
            before = _places(at, kind, (cpu, ram, empties), mix)
            after = _places(at, kind, (cpu_left, ram_left, empties - opened), mix)
            lost = lost + mix[price_at] * (before - after)
        price_at += 1
        at += w.BIG_COLUMNS
    return lost
