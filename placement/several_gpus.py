"""What a node offers to a worker that takes several of its GPUs, or shares of them.

This is asked less often: the functions for one GPU are called here, not copied, which would be compiled for
seconds.
"""

from __future__ import annotations

from typing import Any

from placement import columns as k
from placement import worth as w
from placement.access import gpu_of, is_refused, term_of
from placement.columns import Row, Table, Tables
from placement.jit import register_jitable
from placement.measures import node_sums, stranding_of_whole
from placement.one_gpu import gpu_offer, left_on_gpu, room_on_gpu
from placement.policies.offer import Offer, Scores


@register_jitable
def _left_apart(gpu: Row, rank: int, ask: Row, term: Row, tables: Tables) -> int:
    return left_on_gpu(gpu, rank, ask, term, tables)


@register_jitable
def _room_apart(gpu: Row, rank: int, term: Row, tables: Tables) -> int:
    return room_on_gpu(gpu, rank, term, tables)


@register_jitable
def _offer_apart(
    gpu: Row, node: Row, ask: Row, choice: tuple[int, int], context: tuple[Any, Any, Any]
) -> Offer:
    return gpu_offer(gpu, node, ask, choice, context)


@register_jitable
def best_set(gpus: Table, node: Row, ask: Row, tables: Tables, scores: Scores) -> tuple[int, int, int]:
    """Best score over modes of several GPUs at once, how many such sets fit, and the mode."""
    best = k.BAD
    choice = 0
    shares = 0
    wanted = ask[k.GPUS]
    for rank in range(k.RANKS):
        if (ask[k.OFFERED] >> rank) & 1 == 0:
            continue
        fitting = 0
        welcome = 0
        room = 0
        for j in range(len(gpus)):
            gpu = gpu_of(gpus, j)
            term = term_of(tables[0], rank, gpu[k.MODEL])
            if _left_apart(gpu, rank, ask, term, tables) >= 0:
                fitting += 1
                room += _room_apart(gpu, rank, term, tables)
                if not is_refused(tables[1], rank, gpu[k.NEIGHBOURHOOD]):
                    welcome += 1
        if fitting >= wanted:
            shares += room // wanted
        if welcome < wanted:
            continue
        if rank == k.EXCLUSIVE_RANK:
            value = scores[0](_whole_offer(gpus, node, ask, tables))
        else:
            value = scores[0](_set_offer(gpus, node, ask, rank, (tables, scores)))
        value += ask[k.MODE_STEP] * rank
        if value < best:
            best = value
            choice = rank * k.SLOTS
    return best, shares, choice


@register_jitable
def _whole_offer(gpus: Table, node: Row, ask: Row, tables: Tables) -> Offer:
    """Several whole GPUs."""
    wanted = ask[k.GPUS]
    mix = tables[4]
    strand = 0
    forgone = 0
    cpu, ram, empties = node[k.CPU_FREE] - ask[k.CPU], node[k.RAM_FREE] - ask[k.RAM], node[k.EMPTIES]
    taken = 1000 * wanted
    if ask[k.WEIGHS] == k.STRANDED:
        strand = stranding_of_whole(gpus, node, ask, mix)
    elif ask[k.WEIGHS] == k.FORGONE:
        forgone = w.WHOLE_LOST * wanted
        kind = gpu_of(gpus, 0)[k.MODEL]
        forgone += w.lost_beside(node, taken, kind, w.standing(node, ask, mix), mix)
        forgone += w.lost_to_several(node, ask, kind, wanted, mix)
    return Offer(
        k.EXCLUSIVE_RANK,
        taken,
        0,
        node[k.FREE_SUM] - taken,
        ask[k.CPU],
        cpu,
        ram,
        node[k.SIZE],
        empties,
        wanted,
        0,
        1 << min(wanted, k.MOST_SHAPES),
        node[k.SHAPES],
        strand,
        forgone,
        0,
        0,
        0,
        wanted if ask[k.LIFETIME] > 0 else 0,
        0,
    )


@register_jitable
def _set_offer(gpus: Table, node: Row, ask: Row, rank: int, context: tuple[Any, Any]) -> Offer:
    """The best GPUs for one share each, one after the other, as one offer; ties by slot."""
    # One function, although it is long: compiled, one more for the inner loop makes a search half as slow
    # again (4 of 8 GPUs, 1000 nodes), and packing the sums into tuples makes it slower by a sixth.
    tables, scores = context
    score, within = scores
    sums = node_sums(gpus, node, ask, tables[4])
    taken = 0
    left_sum = 0
    opened = 0
    residents = 0
    strand = 0
    forgone = 0
    suffered = inflicted = 0
    price = outlasts = wasted = 0
    last = -k.BAD
    last_within = -k.BAD
    last_j = -1
    for _ in range(ask[k.GPUS]):
        best = k.BAD
        best_within = k.BAD
        best_j = -1
        pick = Offer(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
        for j in range(len(gpus)):
            gpu = gpu_of(gpus, j)
            term = term_of(tables[0], rank, gpu[k.MODEL])
            left = _left_apart(gpu, rank, ask, term, tables)
            if left >= 0 and not is_refused(tables[1], rank, gpu[k.NEIGHBOURHOOD]):
                offer = _offer_apart(gpu, node, ask, (rank, left), (sums, term, tables))
                value = score(offer)
                inside = within(offer)
                later = inside > last_within or (inside == last_within and j > last_j)
                if value < last or (value == last and not later):
                    continue
                if value < best or (value == best and inside < best_within):
                    best = value
                    best_within = inside
                    best_j = j
                    pick = offer
        last = best
        last_within = best_within
        last_j = best_j
        taken += pick.taken
        left_sum += pick.gpu_left
        opened += pick.opened
        residents += pick.residents
        strand += pick.stranded
        forgone += pick.forgone
        suffered += pick.suffered
        inflicted += pick.inflicted
        price += pick.price
        outlasts += pick.outlasts
        wasted += pick.wasted
    cpu, ram = node[k.CPU_FREE] - ask[k.CPU], node[k.RAM_FREE] - ask[k.RAM]
    return Offer(
        k.MODE_RANK[rank],
        taken,
        left_sum,
        node[k.FREE_SUM] - taken,
        ask[k.CPU],
        cpu,
        ram,
        node[k.SIZE],
        node[k.EMPTIES],
        opened,
        residents,
        1,
        node[k.SHAPES],
        strand,
        forgone,
        suffered,
        inflicted,
        price,
        outlasts,
        wasted,
    )
