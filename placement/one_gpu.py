"""What one GPU of a node offers to one share: whether it fits, what is left, and what that does to others.

Called for every GPU that is looked at, so compiled code copies these functions into its loop.
"""

from __future__ import annotations

from typing import Any

from placement import columns as k
from placement import worth as w
from placement.access import cell
from placement.columns import Row, Tables
from placement.jit import inlined, register_jitable
from placement.measures import stranding
from placement.policies.offer import Offer


@inlined
def left_on_gpu(gpu: Row, rank: int, ask: Row, term: Row, tables: Tables) -> int:
    """Compute left on a GPU after one share, promises aside, in thousandths; -1 if it does not fit."""
    mode = gpu[k.MODE]
    if term[k.MILLI] == 0 or (mode != k.EMPTY and mode != k.MODE_OF_RANK[rank]):
        return -1
    if rank == k.EXCLUSIVE_RANK:
        return 0 if mode == k.EMPTY else -1
    if k.MODE_RANK[rank] == k.MIG_RANK:
        if cell(tables[2], gpu[k.MODEL], gpu[k.MIG_STATE], term[k.PROFILE]) < 0:
            return -1
        used = (gpu[k.MIG_STATE] >> 8) & 7
        return (term[k.SLICES] - used - term[k.CUT]) * 1000 // term[k.SLICES]
    return _left_beside_share(gpu, ask, term)


@inlined
def _left_beside_share(gpu: Row, ask: Row, term: Row) -> int:
    if gpu[k.FREE_MILLI] < term[k.MILLI] or gpu[k.FREE_MEMORY] < term[k.MEMORY]:
        return -1
    if gpu[k.CLIENTS] >= term[k.CLIENT_LIMIT]:
        return -1
    stranger = gpu[k.TENANT] != k.NOBODY and gpu[k.TENANT] != ask[k.ASKER]
    if stranger and (ask[k.ISOLATING] == 1 or gpu[k.ISOLATED] == 1):
        return -1
    return gpu[k.FREE_MILLI] - term[k.MILLI]


@inlined
def room_on_gpu(gpu: Row, rank: int, term: Row, tables: Tables) -> int:
    """How many such shares fit on a GPU that has room for one, promises among them aside."""
    if rank == k.EXCLUSIVE_RANK:
        return 1
    if k.MODE_RANK[rank] == k.MIG_RANK:
        return int(cell(tables[3], gpu[k.MODEL], gpu[k.MIG_STATE], term[k.PROFILE]))
    shares = gpu[k.FREE_MILLI] // term[k.MILLI]
    if gpu[k.FREE_MEMORY] < shares * term[k.MEMORY]:
        shares = gpu[k.FREE_MEMORY] // term[k.MEMORY]
    return min(shares, term[k.CLIENT_LIMIT] - gpu[k.CLIENTS])


@inlined
def workers_beside_gpus(node: Row, ask: Row) -> int:
    """How many workers the node's availability, CPU and RAM allow."""
    if node[k.UP] == 0:
        return 0
    workers = k.MANY
    if ask[k.CPU] > 0:
        workers = min(workers, node[k.CPU_FREE] // ask[k.CPU])
    if ask[k.RAM] > 0:
        workers = min(workers, node[k.RAM_FREE] // ask[k.RAM])
    return workers


@register_jitable
def outlasting(gpu: Row, ask: Row) -> int:
    """How much later a GPU would be empty, in classes of lifetime, see Offer.outlasts."""
    lasting, lifetime = gpu[k.LASTING], ask[k.LIFETIME]
    if lasting == 0:
        return 1 if lifetime > 0 else 0
    return max(lifetime - lasting + 1, 0)


@inlined
def gpu_offer(gpu: Row, node: Row, ask: Row, choice: tuple[int, int], context: tuple[Any, Any, Any]) -> Offer:
    """One share on one GPU; ``choice`` is its rank and what is left, ``context`` sums, term and tables."""
    rank, left = choice
    term = context[1]
    empty = gpu[k.MODE] == k.EMPTY
    taken = gpu[k.FREE_MILLI] - left
    strand = 0
    forgone = 0
    if ask[k.WEIGHS] == k.STRANDED:
        strand = stranding(gpu, choice, context)
    elif ask[k.WEIGHS] == k.FORGONE:
        forgone = w.worth_lost(gpu, choice, term, context[2])
        forgone += _lost_beside(gpu, node, ask, taken, (context[0], context[2][4]))
    return Offer(
        k.MODE_RANK[rank],
        taken,
        left,
        node[k.FREE_SUM] - taken,
        ask[k.CPU],
        node[k.CPU_FREE] - ask[k.CPU],
        node[k.RAM_FREE] - ask[k.RAM],
        node[k.SIZE],
        node[k.EMPTIES],
        1 if empty else 0,
        gpu[k.CLIENTS],
        2 if rank == k.EXCLUSIVE_RANK else 1,
        node[k.SHAPES],
        strand,
        forgone,
        (term[k.SENSES] * gpu[k.PRESSURE] + term[k.SENSES_2] * gpu[k.PRESSURE_2]) // 1000,
        (term[k.PRESSES] * gpu[k.SENSITIVITY] + term[k.PRESSES_2] * gpu[k.SENSITIVITY_2]) // 1000,
        term[k.PRICE] if empty else 0,
        outlasting(gpu, ask),
        term[k.ALONE] * taken // 1000,
    )


@inlined
def _lost_beside(gpu: Row, node: Row, ask: Row, taken: int, context: tuple[Any, Any]) -> int:
    """What usual requests lose beside one share of a GPU; ``context``: see node_sums, and the mix."""
    before, cpu, mib, kind, shut, opened = context[0]
    lost: int = w.lost_beside(node, taken, gpu[k.MODEL], (before, cpu, mib), context[1])
    empty = gpu[k.MODE] == k.EMPTY
    if gpu[k.MODEL] == kind:
        lost += opened if empty else shut
        return lost
    several: int = w.lost_to_several(node, ask, gpu[k.MODEL], 1 if empty else 0, context[1])
    return lost + several
