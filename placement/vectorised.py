"""The same offers as :mod:`placement.kernels`, for many nodes at once with numpy alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from placement import columns as k
from placement.columns import Ints
from placement.policies.offer import Offer, Scores
from placement.summaries import may_hold_each
from placement.vectorised_measures import (
    Sight,
    Sums,
    forgone,
    forgone_bare,
    forgone_whole,
    stranding,
    stranding_of_whole,
    sums_of,
)

Bools = npt.NDArray[np.bool_]


def offers(
    rows: Ints, state: tuple[Ints, Ints, Ints], ask: Ints, tables: tuple[Any, ...], scores: Scores
) -> Any:
    """Scores, workers and choices of these nodes, int64 [rows] each."""
    if not ask[k.GPUS]:
        return _offers(rows, state, ask, tables, scores)
    # Most nodes are ruled out by what is known of them without a look at their GPUs.
    could = np.flatnonzero(may_hold_each(state[2][rows], ask))
    found = np.full(len(rows), k.BAD, np.int64), np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    if len(could):
        for column, values in zip(found, _offers(rows[could], state, ask, tables, scores), strict=True):
            column[could] = values
    return found


def _offers(
    rows: Ints, state: tuple[Ints, Ints, Ints], ask: Ints, tables: tuple[Any, ...], scores: Scores
) -> tuple[Ints, Ints, Ints]:
    gpus, nodes, _briefs = state
    sight = Sight(gpus[rows], nodes[rows], ask, tables, scores)
    workers = _workers_beside_gpus(sight)
    if ask[k.GPUS] == 0:
        values, shares, choices = _bare(sight), workers, np.zeros(len(rows), np.int64)
    elif ask[k.GPUS] == 1:
        values, shares, choices = _best_gpu(sight)
    else:
        values, shares, choices = _best_set(sight)
    workers = np.minimum(workers, shares)
    fits = (workers > 0) & (values != k.BAD)
    return np.where(fits, values, k.BAD), workers, np.where(fits, choices, 0)


def _workers_beside_gpus(sight: Sight) -> Ints:
    node, ask = sight.node, sight.ask
    workers = np.full(len(node), k.MANY, np.int64)
    for asked, free in ((k.CPU, k.CPU_FREE), (k.RAM, k.RAM_FREE)):
        if ask[asked] > 0:
            workers = np.minimum(workers, node[:, free] // ask[asked])
    workers[(workers < 0) | (node[:, k.UP] == 0)] = 0
    return workers


def _bare(sight: Sight) -> Ints:
    node, ask = sight.node, sight.ask
    zero = np.zeros(len(node), np.int64)
    cpu, ram = node[:, k.CPU_FREE] - ask[k.CPU], node[:, k.RAM_FREE] - ask[k.RAM]
    size, empties, shapes = node[:, k.SIZE], node[:, k.EMPTIES], node[:, k.SHAPES]
    rest = (node[:, k.FREE_SUM], zero + ask[k.CPU], cpu, ram, size, empties, zero, zero, zero, shapes)
    strand, lost = zero + stranding_of_whole(sight), zero + forgone_bare(sight)
    felt = zero, zero, zero, zero, zero
    value: Ints = zero + sight.scores[0](Offer(zero, zero, zero, *rest, strand, lost, *felt))
    return value


def _ranks(ask: Ints) -> list[int]:
    return [rank for rank in range(k.RANKS) if int(ask[k.OFFERED]) >> rank & 1]


def _fit(sight: Sight, rank: int) -> tuple[Bools, Ints, Ints, Ints]:
    """Which GPUs fit in this mode, promises aside, compute left, shares that fit, and terms of each GPU."""
    terms, _refused, after, room, _mix = sight.tables
    gpu = sight.gpu
    term = terms[rank][gpu[..., k.MODEL]]
    mode = gpu[..., k.MODE]
    fits = (mode == k.EMPTY) | (mode == k.MODE_OF_RANK[rank])
    if rank == k.EXCLUSIVE_RANK:
        fits = mode == k.EMPTY
    fits &= term[..., k.MILLI] > 0
    if rank == k.EXCLUSIVE_RANK:
        return fits, np.zeros_like(mode), np.ones_like(mode), term
    if rank == k.MIG_RANK:
        at = (gpu[..., k.MODEL], gpu[..., k.MIG_STATE], term[..., k.PROFILE])
        fits &= after[at] >= 0
        used = (gpu[..., k.MIG_STATE] >> 8) & 7
        slices = np.maximum(term[..., k.SLICES], 1)
        return fits, (slices - used - term[..., k.CUT]) * 1000 // slices, room[at].astype(np.int64), term
    fits &= _share_fits(gpu, term, sight.ask)
    return fits, gpu[..., k.FREE_MILLI] - term[..., k.MILLI], _share_room(gpu, term), term


def _welcome(sight: Sight, rank: int) -> Bools:
    """Which GPUs are not known to refuse the request in this mode."""
    refused, number = sight.tables[1], sight.gpu[..., k.NEIGHBOURHOOD]
    if not refused.shape[1]:
        return np.ones(number.shape, np.bool_)
    known = number < refused.shape[1]
    welcome: Bools = ~(known & (refused[rank][np.where(known, number, 0)] != 0))
    return welcome


def _share_fits(gpu: Ints, term: Ints, ask: Ints) -> Bools:
    fits = (gpu[..., k.FREE_MILLI] >= term[..., k.MILLI]) & (gpu[..., k.FREE_MEMORY] >= term[..., k.MEMORY])
    fits &= gpu[..., k.CLIENTS] < term[..., k.CLIENT_LIMIT]
    tenant = gpu[..., k.TENANT]
    apart = (tenant != k.NOBODY) & (tenant != ask[k.ASKER])
    if not ask[k.ISOLATING]:
        apart &= gpu[..., k.ISOLATED] == 1
    fits &= ~apart
    return fits


def _share_room(gpu: Ints, term: Ints) -> Ints:
    shares = gpu[..., k.FREE_MILLI] // np.maximum(term[..., k.MILLI], 1)
    memory = term[..., k.MEMORY]
    within = np.minimum(shares, gpu[..., k.FREE_MEMORY] // np.maximum(memory, 1))
    shares = np.where(memory > 0, within, shares)
    room: Ints = np.minimum(shares, term[..., k.CLIENT_LIMIT] - gpu[..., k.CLIENTS])
    return room


# -- offers ------------------------------------------------------------------------------------------------


def _offer(sight: Sight, rank: int, fitted: tuple[Ints, Ints], sums: Sums | None) -> Offer:
    left, term = fitted
    gpu, ask = sight.gpu, sight.ask
    empty = (gpu[..., k.MODE] == k.EMPTY).astype(np.int64)
    taken = gpu[..., k.FREE_MILLI] - left
    suffered = term[..., k.SENSES] * gpu[..., k.PRESSURE] + term[..., k.SENSES_2] * gpu[..., k.PRESSURE_2]
    inflicted = (
        term[..., k.PRESSES] * gpu[..., k.SENSITIVITY] + term[..., k.PRESSES_2] * gpu[..., k.SENSITIVITY_2]
    )
    return Offer(
        np.full_like(taken, rank),
        taken,
        left,
        sight.of_node(k.FREE_SUM) - taken,
        np.full_like(taken, ask[k.CPU]),
        sight.of_node(k.CPU_FREE) - ask[k.CPU],
        sight.of_node(k.RAM_FREE) - ask[k.RAM],
        sight.of_node(k.SIZE),
        sight.of_node(k.EMPTIES),
        empty,
        gpu[..., k.CLIENTS],
        np.full_like(taken, 2 if rank == k.EXCLUSIVE_RANK else 1),
        sight.of_node(k.SHAPES),
        np.zeros_like(taken) + stranding(sight, rank, fitted, sums),
        np.zeros_like(taken) + forgone(sight, rank, fitted),
        suffered // 1000,
        inflicted // 1000,
        term[..., k.PRICE] * empty,
        _outlasting(gpu, ask),
        term[..., k.ALONE] * taken // 1000,
    )


def _outlasting(gpu: Ints, ask: Ints) -> Ints:
    lasting, lifetime = gpu[..., k.LASTING], ask[k.LIFETIME]
    return np.where(lasting == 0, int(lifetime > 0), np.maximum(lifetime - lasting + 1, 0))


def _scored(sight: Sight, rank: int, sums: Sums | None) -> tuple[Bools, Ints, Ints, Offer]:
    """Which GPUs would do, their score (BAD where not), the room of all that fit, and their offers."""
    fits, left, room, term = _fit(sight, rank)
    welcome = fits & _welcome(sight, rank)
    offer = _offer(sight, rank, (left, term), sums)
    scores = np.zeros_like(left) + sight.scores[0](offer)
    return welcome, np.where(welcome, scores, k.BAD), np.where(fits, room, 0), offer


def _best_gpu(sight: Sight) -> tuple[Ints, Ints, Ints]:
    sums = sums_of(sight)
    width, ranks = sight.gpu.shape[1], _ranks(sight.ask)
    columns, inside, room = [], [], np.zeros(sight.gpu.shape[:2], np.int64)
    for rank in ranks:
        fits, scores, here, offer = _scored(sight, rank, sums)
        columns.append(np.where(fits, scores + sight.ask[k.MODE_STEP] * rank, k.BAD))
        inside.append(np.zeros_like(scores) + sight.scores[1](offer))
        room = np.maximum(room, here)
    if not columns or width == 0:
        none = np.zeros(len(sight.node), np.int64)
        return none + k.BAD, none, none
    table = np.concatenate(columns, axis=1)
    lowest = table.min(1)
    # Among equals of a node the second preference decides, then the mode, then the slot.
    equals = table == lowest[:, None]
    best = np.where(equals, np.concatenate(inside, axis=1), np.iinfo(np.int64).max).argmin(1)
    choices = np.array(ranks, np.int64)[best // width] * k.SLOTS + best % width
    return lowest, room.sum(1), choices


def _best_set(sight: Sight) -> tuple[Ints, Ints, Ints]:
    count, wanted = len(sight.node), int(sight.ask[k.GPUS])
    best, choices, shares = (
        np.full(count, k.BAD, np.int64),
        np.zeros(count, np.int64),
        np.zeros(count, np.int64),
    )
    if not sight.gpu.shape[1]:
        return best, shares, choices
    sums = sums_of(sight)
    for rank in _ranks(sight.ask):
        fits, scores, room, offer = _scored(sight, rank, sums)
        enough = fits.sum(1) >= wanted
        shares += np.where((room > 0).sum(1) >= wanted, room.sum(1) // wanted, 0)
        if rank == k.EXCLUSIVE_RANK:
            together = _whole_offer(sight)
        else:
            inside = np.where(fits, np.zeros_like(scores) + sight.scores[1](offer), 0)
            together = _together(offer, np.lexsort((inside, scores), axis=1)[:, :wanted], sight)
        value = np.where(enough, sight.scores[0](together) + sight.ask[k.MODE_STEP] * rank, k.BAD)
        choices = np.where(value < best, rank * k.SLOTS, choices)
        best = np.minimum(best, value)
    return best, shares, choices


def _together(offer: Offer, order: Ints, sight: Sight) -> Offer:
    """The offers of the chosen GPUs as one; ``order`` is int64 [nodes, GPUs]."""

    def total(values: Ints) -> Ints:
        whole = np.broadcast_to(values, sight.gpu.shape[:2])
        summed: Ints = np.take_along_axis(whole, order, 1).sum(1)
        return summed

    taken = total(offer.taken)
    return Offer(
        offer.mode[:, 0],
        taken,
        total(offer.gpu_left),
        sight.node[:, k.FREE_SUM] - taken,
        offer.cpu[:, 0],
        offer.cpu_left[:, 0],
        offer.ram_left[:, 0],
        offer.gpus[:, 0],
        offer.empties[:, 0],
        total(offer.opened),
        total(offer.residents),
        offer.shape[:, 0],
        offer.shapes[:, 0],
        total(offer.stranded),
        total(offer.forgone),
        total(offer.suffered),
        total(offer.inflicted),
        total(offer.price),
        total(offer.outlasts),
        total(offer.wasted),
    )


def _whole_offer(sight: Sight) -> Offer:
    """Several whole GPUs, the first empty ones of each node."""
    node, ask = sight.node, sight.ask
    wanted, empties = int(ask[k.GPUS]), node[:, k.EMPTIES]
    zero = np.zeros(len(node), np.int64)
    return Offer(
        zero + k.EXCLUSIVE_RANK,
        zero + 1000 * wanted,
        zero,
        node[:, k.FREE_SUM] - 1000 * wanted,
        zero + ask[k.CPU],
        node[:, k.CPU_FREE] - ask[k.CPU],
        node[:, k.RAM_FREE] - ask[k.RAM],
        node[:, k.SIZE],
        empties,
        zero + wanted,
        zero,
        zero + (1 << min(wanted, k.MOST_SHAPES)),
        node[:, k.SHAPES],
        zero + stranding_of_whole(sight),
        zero + forgone_whole(sight),
        zero,
        zero,
        zero,
        zero + int(ask[k.LIFETIME] > 0) * wanted,
        zero,
    )
