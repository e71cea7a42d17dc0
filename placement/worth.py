"""What a place is worth to the requests that are usual here: the measure of our own policy.

A placement takes compute from others.  How much they lose, in thousandths of a GPU times 3, is the sum of

- what the free part of the GPU was worth before and is after: as a share by the dual prices of packing
  (:mod:`placement.packing_duals`), as slices by the best fill that the geometry still allows, and a little
  more for a nearly full GPU (best fit);
- what CPU and RAM can still feed of the node's free compute, at ratios about the usual one;
- places for usual requests of several whole GPUs, and GPU kinds that some requests must have, each at a
  price that rises from 0 only when they get scarce (:mod:`placement.prices`).

Fragmentation gradient descent asks which free compute cannot be used at all; this asks what it could have
been used for, so that two holes that fit something are told apart by what they fit.
"""

from __future__ import annotations

from placement import columns as k
from placement import mix as f
from placement.columns import Row, Tables
from placement.jit import register_jitable

GPU_WEIGHT = 3
"""The worth of a GPU's free part counts so many times: insensitive from 1 to 10."""

WHOLE_LOST = GPU_WEIGHT * 1000 + 250
"""What taking a whole empty GPU loses: all its worth and all its best-fit bonus."""

BIG_COLUMNS = 4
"""Columns of a usual request of several GPUs: CPU, RAM (MiB), GPUs, mask of GPU kinds."""

MUCH = 1 << 40
"""More CPU (thousandths) or RAM (MiB) than any node has."""


@register_jitable
def _of_share(kind: int, milli: int, memory_bytes: int, mix: Row) -> int:
    """Worth of a GPU with so much left: the scarcer of compute and memory counts."""
    total = mix[mix[f.TOTALS_AT] + kind]
    if total > 0 and memory_bytes < total:
        milli = min(milli, max(memory_bytes, 0) * 1000 // total)
    return mix[mix[f.WORTH_AT] + kind * 1001 + milli]


@register_jitable
def worth_lost(gpu: Row, choice: tuple[int, int], term: Row, tables: Tables) -> int:
    """What a GPU's free part loses by one share; ``choice`` is the rank of the mode and what is left."""
    rank, left = choice
    mix = tables[4]
    kind, free, mode = gpu[k.MODEL], gpu[k.FREE_MILLI], gpu[k.MODE]
    if mode == k.EMPTY:
        before = 1000
    elif mode == k.MIG:
        before = mix[mix[f.SLICES_AT] + kind * 4096 + gpu[k.MIG_STATE]]
    else:
        before = _of_share(kind, free, gpu[k.FREE_MEMORY], mix)
    after = 0
    if rank == k.MIG_RANK:
        first = int(tables[2][kind][gpu[k.MIG_STATE]][term[k.PROFILE]])  # the tables may be of 8 bits
        state = gpu[k.MIG_STATE] | (((1 << term[k.CELLS]) - 1) << first) | (term[k.MEDIA] << 11)
        after = mix[mix[f.SLICES_AT] + kind * 4096 + state + (term[k.CUT] << 8)]
    elif rank != k.EXCLUSIVE_RANK and gpu[k.CLIENTS] + 1 < term[k.CLIENT_LIMIT]:
        after = _of_share(kind, left, gpu[k.FREE_MEMORY] - term[k.MEMORY], mix)
    return GPU_WEIGHT * (before - after) + (free * free - left * left) // 4000


@register_jitable
def _fed(milli: int, cpu_milli: int, ram_bytes: int, mix: Row) -> int:
    """Compute that CPU and RAM can feed, summed over the ratios of the mix."""
    fed = 0
    at = mix[f.RATIOS_AT]
    cpu, ram = min(cpu_milli, MUCH), min(ram_bytes >> 20, MUCH)
    for _ in range(mix[f.RATIOS_N]):
        most = milli
        if mix[at] > 0:
            most = min(most, cpu * 1000 // mix[at])
        if mix[at + 1] > 0:
            most = min(most, ram * 1000 // mix[at + 1])
        fed += mix[at + 2] * most
        at += 3
    return fed // 8


@register_jitable
def _places(at: int, node: tuple[int, int, int, int], mix: Row) -> int:
    """How many usual requests of several GPUs a node takes; ``node``: kind, CPU, RAM in bytes, empty GPUs."""
    kind, cpu, ram, empties = node
    if (mix[at + 3] >> kind) & 1 == 0:
        return 0
    places = empties // mix[at + 2]
    if mix[at] > 0:
        places = min(places, min(cpu, MUCH) // mix[at])
    if mix[at + 1] > 0:
        places = min(places, min(ram >> 20, MUCH) // mix[at + 1])
    return places


@register_jitable
def lost_beside(node: Row, ask: Row, taken: int, which: tuple[int, int], mix: Row) -> int:
    """What a node loses besides: ``taken`` thousandths; ``which``: kind of GPU and empty GPUs taken."""
    kind, opened = which
    cpu, ram, free, empties = node[k.CPU_FREE], node[k.RAM_FREE], node[k.FREE_SUM], node[k.EMPTIES]
    cpu_left, ram_left = cpu - ask[k.CPU], ram - ask[k.RAM]
    lost = _fed(free, cpu, ram, mix) - _fed(free - taken, cpu_left, ram_left, mix)
    lost += mix[mix[f.KIND_PRICES_AT] + kind] * taken // 1000
    price_at, at = mix[f.BIG_PRICES_AT], mix[f.BIG_AT]
    for _ in range(mix[f.BIG_N]):
        price = mix[price_at]
        if price > 0:
            before = _places(at, (kind, cpu, ram, empties), mix)
            lost += price * (before - _places(at, (kind, cpu_left, ram_left, empties - opened), mix))
        price_at += 1
        at += BIG_COLUMNS
    return lost
