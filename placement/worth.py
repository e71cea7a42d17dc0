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
        first = int(cell(tables[2], kind, gpu[k.MIG_STATE], term[k.PROFILE]))  # may be of 8 bits
        state = gpu[k.MIG_STATE] | (((1 << term[k.CELLS]) - 1) << first) | (term[k.MEDIA] << 11)
        after = mix[mix[f.SLICES_AT] + kind * 4096 + state + (term[k.CUT] << 8)]
    elif rank != k.EXCLUSIVE_RANK and gpu[k.CLIENTS] + 1 < term[k.CLIENT_LIMIT]:
        after = _of_share(kind, left, gpu[k.FREE_MEMORY] - term[k.MEMORY], mix)
    return GPU_WEIGHT * (before - after) + (free * free - left * left) // 4000


@register_jitable
def _quotas(cpu_milli: int, ram_bytes: int, mix: Row) -> tuple[int, int, int, int, int]:
    """Compute that CPU (four ratios) and RAM (one) could feed, thousandths of a GPU."""
    at = mix[f.RATIOS_AT]
    cpu, ram = min(cpu_milli, MUCH) * 1000, min(ram_bytes >> 20, MUCH) * 1000
    return (
        cpu // mix[at] if mix[at] > 0 else MUCH,
        cpu // mix[at + 1] if mix[at + 1] > 0 else MUCH,
        cpu // mix[at + 2] if mix[at + 2] > 0 else MUCH,
        cpu // mix[at + 3] if mix[at + 3] > 0 else MUCH,
        ram // mix[at + 4] if mix[at + 4] > 0 else MUCH,
    )


@register_jitable
def _fed(milli: int, quotas: tuple[int, int, int, int, int]) -> int:
    """What of so much free compute can be fed, weighed by :data:`FEED_WEIGHTS`, of eight."""
    a, b, c, d, e = quotas
    fed = 8 * (min(milli, a) + min(milli, b) + min(milli, c) + min(milli, e)) + min(milli, d)
    return fed // 8


@register_jitable
def standing(node: Row, ask: Row, mix: Row) -> tuple[int, int, int, int, int, int]:
    """What can be fed of a node's free compute now, and what CPU and RAM could feed after a placement."""
    before = _fed(node[k.FREE_SUM], _quotas(node[k.CPU_FREE], node[k.RAM_FREE], mix))
    a, b, c, d, e = _quotas(node[k.CPU_FREE] - ask[k.CPU], node[k.RAM_FREE] - ask[k.RAM], mix)
    return before, a, b, c, d, e


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
def lost_beside(
    node: Row, ask: Row, taken: int, which: tuple[int, int], context: tuple[tuple[int, ...], Row]
) -> int:
    """What a node loses besides: ``taken`` thousandths; ``which``: kind of GPU and empty GPUs taken."""
    kind, opened = which
    (before, a, b, c, d, e), mix = context
    lost = before - _fed(node[k.FREE_SUM] - taken, (a, b, c, d, e))
    lost += mix[mix[f.KIND_PRICES_AT] + kind] * taken // 1000
    price_at = mix[f.BIG_PRICES_AT]
    for i in range(mix[f.BIG_N]):
        price = mix[price_at + i]
        if price > 0:
            cpu, ram, empties = node[k.CPU_FREE], node[k.RAM_FREE], node[k.EMPTIES]
            at = mix[f.BIG_AT] + i * BIG_COLUMNS
            places = _places(at, (kind, cpu, ram, empties), mix)
            rest = (kind, cpu - ask[k.CPU], ram - ask[k.RAM], empties - opened)
            lost += price * (places - _places(at, rest, mix))
    return lost
