"""FGD's measure for one node: how much compute the usual requests cannot use, before and after a placement.

Plain Python that numba compiles too; :mod:`placement.vectorised.measures` gives the same integers for many.
"""

from __future__ import annotations

from typing import Any

from placement import columns as k
from placement import fragments as f
from placement import worth as w
from placement.access import cell, gpu_of
from placement.columns import Row, Table, Tables
from placement.jit import register_jitable
from placement.mix import WHOLE


@register_jitable
def stranded_on_gpu(free: int, kind: int, usable: int, mix: Row) -> int:
    """Free compute of a GPU that the usual requests cannot use, times their popularity."""
    return free * (WHOLE - f.popularity(usable, kind, mix)) if free > 0 else 0


@register_jitable
def stranded(gpus: Table, runnable: int, without: int, mix: Row) -> int:
    """Stranded compute of a node that can run some usual requests, its first empty GPUs left out."""
    total = 0
    for j in range(len(gpus)):
        gpu = gpu_of(gpus, j)
        if without > 0 and gpu[k.MODE] == k.EMPTY:
            without -= 1
        elif gpu[k.MODE] != k.ABSENT:
            total += stranded_on_gpu(gpu[k.FREE_MILLI], gpu[k.MODEL], gpu[k.USABLE] & runnable, mix)
    return total


@register_jitable
def usable_after(gpu: Row, rank: int, left: int, term: Row, tables: Tables) -> int:
    """Which usual requests could use a GPU after one more share in the mode of this rank."""
    mix = tables[4]
    kind = gpu[k.MODEL]
    if k.MODE_RANK[rank] == k.MIG_RANK:
        state = int(cell(tables[2], kind, gpu[k.MIG_STATE], term[k.PROFILE]))  # is of 16 bits
        return f.usable_slices(kind, state, mix)
    clients = term[k.CLIENT_LIMIT] - gpu[k.CLIENTS] - 1
    return f.usable_share(rank, kind, (left, gpu[k.FREE_MEMORY] - term[k.MEMORY], clients), mix)


@register_jitable
def node_sums(gpus: Table, node: Row, ask: Row, mix: Row) -> tuple[int, int, int, int, int, int]:
    """What all offers of a node share.

    Stranded compute now, and after without and with an empty GPU less; and what can run in the latter two.
    Or what :func:`placement.worth.standing` says, and the kind of its first GPU with what usual requests of
    several GPUs lose without and with an empty one taken.
    """
    if ask[k.WEIGHS] == k.FORGONE:
        before, cpu, mib = w.standing(node, ask, mix)
        kind = gpu_of(gpus, 0)[k.MODEL]
        shut = w.lost_to_several(node, ask, kind, 0, mix)
        return before, cpu, mib, kind, shut, w.lost_to_several(node, ask, kind, 1, mix)
    if ask[k.WEIGHS] != k.STRANDED:
        return 0, 0, 0, 0, 0, 0
    empties = node[k.EMPTIES]
    now = f.runnable(node[k.CPU_FREE], node[k.RAM_FREE], mix) & f.by_empties(empties, mix)
    after = f.runnable(node[k.CPU_FREE] - ask[k.CPU], node[k.RAM_FREE] - ask[k.RAM], mix)
    shut = after & f.by_empties(empties, mix)
    opened = after & f.by_empties(max(empties - 1, 0), mix)
    total = stranded(gpus, now, 0, mix)
    beside_shut = total if shut == now else stranded(gpus, shut, 0, mix)
    if empties == 0 or opened == shut:
        return total, beside_shut, beside_shut, shut, opened, 0
    return total, beside_shut, stranded(gpus, opened, 0, mix), shut, opened, 0


@register_jitable
def stranding(gpu: Row, choice: tuple[int, int], context: tuple[Any, Any, Any]) -> int:
    """Growth of a node's stranded compute if a GPU takes one share."""
    rank, left = choice
    sums, term, tables = context
    now, beside_shut, beside_opened, shut, opened, _ = sums
    beside, runnable = (beside_opened, opened) if gpu[k.MODE] == k.EMPTY else (beside_shut, shut)
    mix = tables[4]
    before = stranded_on_gpu(gpu[k.FREE_MILLI], gpu[k.MODEL], gpu[k.USABLE] & runnable, mix)
    after = 0
    if left > 0:
        usable = usable_after(gpu, rank, left, term, tables) & runnable
        after = stranded_on_gpu(left, gpu[k.MODEL], usable, mix)
    growth: int = beside - before + after - now
    return growth


@register_jitable
def stranding_of_whole(gpus: Table, node: Row, ask: Row, mix: Row) -> int:
    """Growth of a node's stranded compute if its first empty GPUs are taken whole."""
    wanted, empties = ask[k.GPUS], node[k.EMPTIES]
    now = f.runnable(node[k.CPU_FREE], node[k.RAM_FREE], mix) & f.by_empties(empties, mix)
    after = f.runnable(node[k.CPU_FREE] - ask[k.CPU], node[k.RAM_FREE] - ask[k.RAM], mix)
    after &= f.by_empties(empties - wanted, mix)
    return stranded(gpus, after, wanted, mix) - stranded(gpus, now, 0, mix)
