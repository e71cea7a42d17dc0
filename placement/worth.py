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
from placement.access import cell
from placement.columns import Row, Tables
from placement.jit import register_jitable

GPU_WEIGHT = 3
"""The worth of a GPU's free part counts so many times: insensitive from 1 to 10."""

WHOLE_LOST = GPU_WEIGHT * 1000 + 250
"""What taking a whole empty GPU loses: all its worth and all its best-fit bonus."""

FEED_WEIGHTS = (8, 8, 8, 1, 8)
"""Weights of the ratios of CPU and RAM, in eighths."""

BIG_COLUMNS = 4
"""Columns of a usual request of several GPUs: CPU, RAM (MiB), GPUs, mask of GPU kinds."""

MUCH = 1 << 40
"""More CPU (thousandths) or RAM (MiB) than any node has."""


@register_jitable
def _of_share(kind: int, milli: int, memory_bytes: int, mix: Row) -> int:
    """Worth of a GPU with so much left: the scarcer of compute and memory counts."""
    total = mix[mix[f.TOTALS_AT] + kind]
    memory = max(memory_bytes, 0)
    if memory < total and memory * 1000 < milli * total:
        milli = memory * 1000 // total
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
    if k.MODE_RANK[rank] == k.MIG_RANK:
        state = int(cell(tables[2], kind, gpu[k.MIG_STATE], term[k.PROFILE]))  # is of 16 bits
        after = mix[mix[f.SLICES_AT] + kind * 4096 + state]
    elif rank != k.EXCLUSIVE_RANK and gpu[k.CLIENTS] + 1 < term[k.CLIENT_LIMIT]:
        after = _of_share(kind, left, gpu[k.FREE_MEMORY] - term[k.MEMORY], mix)
    return GPU_WEIGHT * (before - after) + (free * free - left * left) // 4000


@register_jitable
def _part(milli: int, amount: int, ratio: int) -> int:
    """What of so much compute can be fed: a division, if need be, at so much per thousandth."""
    if ratio == 0 or amount >= milli * ratio:
        return milli
    return amount // ratio


@register_jitable
def _fed(milli: int, cpu: int, mib: int, mix: Row) -> int:
    """What of so much free compute can be fed at five ratios, weighed by :data:`FEED_WEIGHTS`, of eight."""
    at = mix[f.RATIOS_AT]
    fed = _part(milli, cpu, mix[at]) + _part(milli, cpu, mix[at + 1]) + _part(milli, cpu, mix[at + 2])
    fed = 8 * (fed + _part(milli, mib, mix[at + 4])) + _part(milli, cpu, mix[at + 3])
    return fed // 8


@register_jitable
def standing(node: Row, ask: Row, mix: Row) -> tuple[int, int, int]:
    """What can be fed of a node's free compute now; CPU and RAM (MiB) after a placement, times 1000."""
    cpu, mib = min(node[k.CPU_FREE], MUCH) * 1000, min(node[k.RAM_FREE] >> 20, MUCH) * 1000
    before = _fed(node[k.FREE_SUM], cpu, mib, mix)
    cpu_left, ram_left = node[k.CPU_FREE] - ask[k.CPU], node[k.RAM_FREE] - ask[k.RAM]
    return before, min(cpu_left, MUCH) * 1000, min(ram_left >> 20, MUCH) * 1000


@register_jitable
def _places(at: int, node: tuple[int, int, int], mix: Row) -> int:
    """How many usual requests of several GPUs a node takes; ``node``: CPU, RAM in bytes, empty GPUs."""
    cpu, mib, places = min(node[0], MUCH), min(node[1] >> 20, MUCH), node[2] // mix[at + 2]
    if cpu < places * mix[at]:
        places = cpu // mix[at]
    if mib < places * mix[at + 1]:
        places = mib // mix[at + 1]
    return places


@register_jitable
def lost_to_several(node: Row, ask: Row, kind: int, opened: int, mix: Row) -> int:
    """What usual requests of several GPUs of a kind lose on a node where so many empty ones are taken."""
    lost = 0
    empties = node[k.EMPTIES]
    if empties == 0:
        return lost
    cpu, ram = node[k.CPU_FREE], node[k.RAM_FREE]
    price_at = mix[f.BIG_PRICES_AT]
    for i in range(mix[f.BIG_N]):
        at = mix[f.BIG_AT] + i * BIG_COLUMNS
        if mix[price_at + i] > 0 and (mix[at + 3] >> min(kind, k.BIT_LIMIT)) & 1 == 1:
            rest = (cpu - ask[k.CPU], ram - ask[k.RAM], empties - opened)
            places = _places(at, (cpu, ram, empties), mix) - _places(at, rest, mix)
            lost += mix[price_at + i] * places
    return lost


@register_jitable
def lost_beside(node: Row, taken: int, kind: int, standing_now: tuple[int, int, int], mix: Row) -> int:
    """What a node's other compute loses where so many thousandths of a kind of GPU are taken."""
    before, cpu, mib = standing_now
    lost = before - _fed(node[k.FREE_SUM] - taken, cpu, mib, mix)
    return lost + mix[mix[f.KIND_PRICES_AT] + kind] * taken // 1000
