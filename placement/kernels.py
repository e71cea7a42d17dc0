"""The inner loop of every search: what one node offers to one request.

The functions below are plain Python over nested sequences.  With numba (the extra ``fast``) the same source
is compiled and runs over the arrays, with the policy's score inside; without it, few nodes are looked at by
the plain functions and many at once by :mod:`placement.vectorised`.  All give the same integers, so all
decide alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from placement import columns as k
from placement import worth as w
from placement.access import cell, gpu_of, is_refused, term_of
from placement.columns import Row, Table, Tables
from placement.jit import inlined, register_jitable
from placement.measures import node_sums, stranding, stranding_of_whole
from placement.policies.offer import Offer

Score = Callable[[Offer], Any]
Scores = tuple[Score, Score]
"""A policy's preference among places, and among the GPUs of one node where the first is equal."""


@inlined
def left_on_gpu(gpu: Row, rank: int, ask: Row, term: Row, tables: Tables) -> int:
    """Compute left on a GPU after one share, promises aside, in thousandths; -1 if it does not fit."""
    mode = gpu[k.MODE]
    if term[k.MILLI] == 0 or (mode != k.EMPTY and mode != k.MODE_OF_RANK[rank]):
        return -1
    if rank == k.EXCLUSIVE_RANK:
        return 0 if mode == k.EMPTY else -1
    if rank == k.MIG_RANK:
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
    if rank == k.MIG_RANK:
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


@inlined
def may_hold(node: Row, ask: Row) -> bool:
    """Whether a node could hold a request with GPUs, as far as can be told without looking at them."""
    if (node[k.MODELS] & ask[k.SERVED_BY]) == 0:
        return False
    offered = ask[k.OFFERED]
    return (
        (offered & 1 != 0 and node[k.MOST_MPS] >= ask[k.LEAST_MPS])
        or (offered & 2 != 0 and node[k.MOST_TIMESLICE] >= ask[k.LEAST_TIMESLICE])
        or (offered & 4 != 0 and node[k.PLACEABLE] & ask[k.PROFILES] != 0)
        or (offered & 8 != 0 and node[k.EMPTIES] >= ask[k.GPUS])
    )


@register_jitable
def outlasting(gpu: Row, ask: Row) -> int:
    """How much later a GPU would be empty, in classes of lifetime, see Offer.outlasts."""
    lasting, lifetime = gpu[k.LASTING], ask[k.LIFETIME]
    if lasting == 0:
        return 1 if lifetime > 0 else 0
    return max(lifetime - lasting + 1, 0)


@inlined
def _gpu_offer(
    gpu: Row, node: Row, ask: Row, choice: tuple[int, int], context: tuple[Any, Any, Any]
) -> Offer:
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
        rank,
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


@register_jitable
def node_offer(gpus: Table, node: Row, ask: Row, tables: Tables, scores: Scores) -> tuple[int, int, int]:
    """Score of a node, how many workers it can hold (an upper bound), and the choice of mode and slot.

    Exact for one GPU a worker, promises aside; for several the slot means nothing.  What is known to be
    refused counts for the score alone: how many workers a node holds must not depend on who has asked before.
    """
    workers = workers_beside_gpus(node, ask)
    wanted = ask[k.GPUS]
    if workers <= 0 or (wanted > 0 and not may_hold(node, ask)):
        return k.BAD, 0, 0
    if wanted == 0:
        kind = gpu_of(gpus, 0)[k.MODEL] if len(gpus) > 0 else 0
        return scores[0](_bare_offer(gpus, node, ask, kind, tables[4])), workers, 0
    if wanted == 1:
        best, shares, choice = _best_gpu(gpus, node, ask, tables, scores)
    else:
        best, shares, choice = _best_set(gpus, node, ask, tables, scores)
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
    return Offer(0, 0, 0, *rest, 0, 0, 0, 0)


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
            offer = _gpu_offer(gpu, node, ask, (rank, left), (sums, term, tables))
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


# Several GPUs are asked for less often: for them the same functions are called, not copied, which would be
# compiled for seconds.


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
    return _gpu_offer(gpu, node, ask, choice, context)


@register_jitable
def _best_set(gpus: Table, node: Row, ask: Row, tables: Tables, scores: Scores) -> tuple[int, int, int]:
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
    )


@register_jitable
def _set_offer(gpus: Table, node: Row, ask: Row, rank: int, context: tuple[Any, Any]) -> Offer:
    """The best GPUs for one share each, one after the other, as one offer; ties by slot."""
    tables, scores = context
    score, within = scores
    sums = node_sums(gpus, node, ask, tables[4])
    taken = 0
    left_sum = 0
    opened = 0
    residents = 0
    strand = 0
    forgone = 0
    suffered = 0
    inflicted = 0
    price = 0
    outlasts = 0
    last = -k.BAD
    last_within = -k.BAD
    last_j = -1
    for _ in range(ask[k.GPUS]):
        best = k.BAD
        best_within = k.BAD
        best_j = -1
        pick = Offer(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
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
    cpu, ram = node[k.CPU_FREE] - ask[k.CPU], node[k.RAM_FREE] - ask[k.RAM]
    return Offer(
        rank,
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
    )


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
                offer = _gpu_offer(gpu, node, ask, (rank, left), (sums, term, tables))
                value, inside = score(offer), within(offer)
            offers.append((value, inside, j))
    offers.sort()
    return [j for _value, _inside, j in offers]
