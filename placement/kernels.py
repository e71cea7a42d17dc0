"""The inner loop of every search: what one node offers to one request.

The functions below are plain Python over nested sequences.  With numba (the extra ``fast``) the same source
is compiled and runs over the arrays, with the policy's score inside; without it, few nodes are looked at by
the plain functions and many at once by :mod:`placement.vectorised`.  All give the same integers, so all
decide alike.
"""

from __future__ import annotations

from placement import columns as k
from placement import worth as w
from placement.access import gpu_of, is_refused, term_of
from placement.columns import Row, Table, Tables
from placement.jit import inlined, register_jitable
from placement.measures import node_sums, stranding_of_whole
from placement.one_gpu import gpu_offer, left_on_gpu, room_on_gpu, workers_beside_gpus
from placement.policies.offer import Offer, Scores
from placement.several_gpus import best_set


@register_jitable
def node_offer(gpus: Table, node: Row, ask: Row, tables: Tables, scores: Scores) -> tuple[int, int, int]:
    """Score of a node, how many workers it can hold (an upper bound), and the choice of mode and slot.

    Exact for one GPU a worker, promises aside; for several the slot means nothing.  What is known to be
    refused counts for the score alone: how many workers a node holds must not depend on who has asked before.
    """
    workers = workers_beside_gpus(node, ask)
    wanted = ask[k.GPUS]
    if workers <= 0:
        return k.BAD, 0, 0
    if wanted == 0:
        kind = gpu_of(gpus, 0)[k.MODEL] if len(gpus) > 0 else 0
        return scores[0](_bare_offer(gpus, node, ask, kind, tables[4])), workers, 0
    if wanted == 1:
        best, shares, choice = _best_gpu(gpus, node, ask, tables, scores)
    else:
        best, shares, choice = best_set(gpus, node, ask, tables, scores)
    return best, min(workers, shares), choice


@register_jitable
def _bare_offer(gpus: Table, node: Row, ask: Row, kind: int, mix: Row) -> Offer:
    cpu, ram = node[k.CPU_FREE] - ask[k.CPU], node[k.RAM_FREE] - ask[k.RAM]
    size, empties, shapes = node[k.SIZE], node[k.EMPTIES], node[k.SHAPES]
    strand = forgone = 0
    if ask[k.WEIGHS] == k.STRANDED:
        strand = stranding_of_whole(gpus, node, ask, mix)
    elif ask[k.WEIGHS] == k.FORGONE and size > 0:
        forgone = w.lost_beside(node, 0, kind, w.standing(node, ask, mix), mix)
        forgone += w.lost_to_several(node, ask, kind, 0, mix)
    rest = (node[k.FREE_SUM], ask[k.CPU], cpu, ram, size, empties, 0, 0, 0, shapes, strand, forgone)
    return Offer(0, 0, 0, *rest, 0, 0, 0, 0, 0)


@inlined
def _left_in_mode(gpu: Row, rank: int, ask: Row, tables: Tables) -> int:
    """Compute left on a GPU after one share, -1 if it does not fit; reads no terms unless it might."""
    mode = gpu[k.MODE]
    if (ask[k.OFFERED] >> rank) & 1 == 0 or (mode != k.EMPTY and mode != k.MODE_OF_RANK[rank]):
        return -1
    return left_on_gpu(gpu, rank, ask, term_of(tables[0], rank, gpu[k.MODEL]), tables)


@register_jitable
def _best_gpu(gpus: Table, node: Row, ask: Row, tables: Tables, scores: Scores) -> tuple[int, int, int]:
    """Best score over GPUs and modes, shares that fit in all, and the choice; ties by mode, then slot."""
    terms = tables[0]
    score, within = scores
    best = k.BAD
    best_within = k.BAD
    best_rank = k.RANKS
    choice = 0
    shares = 0
    summed = False
    sums = (0, 0, 0, 0, 0, 0)
    empty_kind = -1
    empty_room = 0
    for j in range(len(gpus)):
        gpu = gpu_of(gpus, j)
        mode = gpu[k.MODE]
        if gpu[k.FREE_MILLI] == 0:  # as of whole GPUs that are taken, and where there is none
            continue
        if mode == k.EMPTY and gpu[k.MODEL] == empty_kind:  # as good as the one before, and behind it
            shares += empty_room
            continue
        room = 0
        for rank in range(k.RANKS):
            left = _left_in_mode(gpu, rank, ask, tables)
            if left < 0:
                continue
            term = term_of(terms, rank, gpu[k.MODEL])
            if not summed:
                sums = node_sums(gpus, node, ask, tables[4])
                summed = True
            room = max(room, room_on_gpu(gpu, rank, term, tables))
            if is_refused(tables[1], rank, gpu[k.NEIGHBOURHOOD]):
                continue
            offer = gpu_offer(gpu, node, ask, (rank, left), (sums, term, tables))
            value = score(offer) + ask[k.MODE_STEP] * rank
            inside = within(offer)
            if (value, inside, rank) < (best, best_within, best_rank):
                best = value
                best_within = inside
                best_rank = rank
                choice = rank * k.SLOTS + j
        shares += room
        if mode == k.EMPTY:
            empty_kind = gpu[k.MODEL]
            empty_room = room
    return best, shares, choice


def pick_slots(gpus: Table, node: Row, ask: Row, rank: int, context: tuple[Tables, Scores]) -> list[int]:
    """The slots of a node for a request, best first, ties by slot: all that fit in this mode."""
    tables, (score, within) = context
    sums = node_sums(gpus, node, ask, tables[4])
    offers = []
    for j, gpu in enumerate(gpus):
        term = tables[0][rank][gpu[k.MODEL]]
        left = left_on_gpu(gpu, rank, ask, term, tables)
        if left >= 0 and not is_refused(tables[1], rank, gpu[k.NEIGHBOURHOOD]):
            value = inside = 0
            if rank != k.EXCLUSIVE_RANK:
                offer = gpu_offer(gpu, node, ask, (rank, left), (sums, term, tables))
                value, inside = score(offer), within(offer)
            offers.append((value, inside, j))
    offers.sort()
    return [j for _value, _inside, j in offers]
