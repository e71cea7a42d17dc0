"""The inner loop of every search: what one node offers to one request.

The functions below are plain Python over nested sequences.  With numba (the extra ``fast``) the same source is
compiled and runs over the arrays; without it, few nodes are looked at by the plain functions and many at once
by :mod:`placement.vectorised`.  All three give the same integers, so all decide alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

try:
    from numba import njit
    from numba.extending import register_jitable
except ImportError:  # the extra "fast" is not installed
    njit = None

    def register_jitable(function: Any) -> Any:
        """Leave the function as it is."""
        return function


Ints = npt.NDArray[np.int64]
BAD = 1 << 62
"""Score of a node that cannot hold the request; lower scores are better."""

EMPTY, EXCLUSIVE, MIG, MPS, TIMESLICE, ABSENT, CPU_ONLY = range(7)
"""Codes of the mode of a GPU; ABSENT pads short nodes, CPU_ONLY is the kind of a request without GPUs."""

MODE, MIG_STATE, CLIENTS, MODEL, TENANT, ISOLATED, NEIGHBOURHOOD, FREE_MILLI, FREE_MEMORY = range(9)
"""Columns of a GPU."""
GPU_COLUMNS = 9

CPU_FREE, RAM_FREE, FREE_SUM, EMPTIES, UP = range(5)
"""Columns of a node."""
NODE_COLUMNS = 5

KIND, GPUS, CPU, RAM, ASKER, ISOLATING, GPU_WEIGHT, NODE_WEIGHT = range(8)
"""Entries of a compiled request (``ask``)."""
ASK_ENTRIES = 8

MILLI, MEMORY, PROFILE, CUT, SLICES = range(5)
"""Columns of a compiled request per GPU model: share, bytes, MIG profile, its compute slices, slices in all."""
TERM_COLUMNS = 5

NOBODY = -1
MPS_CLIENTS = 48
MANY = 1 << 40
"""More workers than any job has: nothing on the node limits them."""


@register_jitable
def left_on_gpu(gpu: Any, ask: Any, terms: Any, allowed: Any, start: Any) -> int:
    """Compute left on a GPU after taking one share, in thousandths; -1 if the share does not fit."""
    mode = gpu[MODE]
    kind = ask[KIND]
    if mode not in (EMPTY, kind) or (kind == EXCLUSIVE and mode != EMPTY):
        return -1
    term = terms[gpu[MODEL]]
    if term[MILLI] == 0 or allowed[gpu[NEIGHBOURHOOD]] == 0:
        return -1
    if kind == EXCLUSIVE:
        return 0
    if kind == MIG:
        if start[gpu[MODEL]][gpu[MIG_STATE]][term[PROFILE]] < 0:
            return -1
        used = (gpu[MIG_STATE] >> 8) & 7
        return (term[SLICES] - used - term[CUT]) * 1000 // term[SLICES]
    if gpu[FREE_MILLI] < term[MILLI] or gpu[FREE_MEMORY] < term[MEMORY]:
        return -1
    if kind == MPS and gpu[CLIENTS] >= MPS_CLIENTS:
        return -1
    tenant = gpu[TENANT]
    if tenant not in (NOBODY, ask[ASKER]) and (ask[ISOLATING] == 1 or gpu[ISOLATED] == 1):
        return -1
    return gpu[FREE_MILLI] - term[MILLI]


@register_jitable
def room_on_gpu(gpu: Any, ask: Any, terms: Any, room: Any) -> int:
    """How many such shares fit on a GPU that has room for one, promises among them aside."""
    kind = ask[KIND]
    term = terms[gpu[MODEL]]
    if kind == EXCLUSIVE:
        return 1
    if kind == MIG:
        return room[gpu[MODEL]][gpu[MIG_STATE]][term[PROFILE]]
    shares = gpu[FREE_MILLI] // term[MILLI]
    if term[MEMORY] > 0:
        shares = min(shares, gpu[FREE_MEMORY] // term[MEMORY])
    if kind == MPS:
        shares = min(shares, MPS_CLIENTS - gpu[CLIENTS])
    return shares


@register_jitable
def node_offer(gpus: Any, node: Any, ask: Any, tables: Any) -> tuple[int, int]:
    """Score of a node and how many workers it can hold (exact for one GPU a worker, else an upper bound)."""
    terms, allowed, start, room = tables
    if node[UP] == 0:
        return BAD, 0
    workers = MANY
    if ask[CPU] > 0:
        workers = min(workers, node[CPU_FREE] // ask[CPU])
    if ask[RAM] > 0:
        workers = min(workers, node[RAM_FREE] // ask[RAM])
    if workers <= 0:
        return BAD, 0
    if ask[KIND] == CPU_ONLY:
        return ask[NODE_WEIGHT] * node[FREE_SUM], workers
    wanted = ask[GPUS]
    if ask[KIND] == EXCLUSIVE and node[EMPTIES] < wanted:
        return BAD, 0
    fitting = 0
    shares = 0
    taken = 0
    best = BAD
    for j in range(len(gpus)):
        left = left_on_gpu(gpus[j], ask, terms, allowed, start)
        if left >= 0:
            fitting += 1
            shares += room_on_gpu(gpus[j], ask, terms, room)
            if ask[GPU_WEIGHT] * left < best:
                best = ask[GPU_WEIGHT] * left
                taken = gpus[j][FREE_MILLI] - left
    if fitting < wanted:
        return BAD, 0
    if ask[KIND] == EXCLUSIVE:
        taken = 1000 * wanted
    elif wanted > 1:
        best, taken = _several(gpus, ask, tables)
    return best + ask[NODE_WEIGHT] * (node[FREE_SUM] - taken), min(workers, shares // wanted)


@register_jitable
def _several(gpus: Any, ask: Any, tables: Any) -> tuple[int, int]:
    """Score and compute taken of the best ``ask[GPUS]`` GPUs, ties by slot."""
    terms, allowed, start, room = tables
    total = 0
    taken = 0
    last = -BAD
    last_j = -1
    for _ in range(ask[GPUS]):
        best = BAD
        best_j = -1
        best_left = 0
        for j in range(len(gpus)):
            left = left_on_gpu(gpus[j], ask, terms, allowed, start)
            score = ask[GPU_WEIGHT] * left
            after_last = score > last or (score == last and j > last_j)
            if left >= 0 and after_last and score < best:
                best = score
                best_j = j
                best_left = left
        total += best
        taken += gpus[best_j][FREE_MILLI] - best_left
        last = best
        last_j = best_j
    return total, taken


def _rescore(
    rows: Any, gpus: Any, nodes: Any, ask: Any, terms: Any, allowed: Any, start: Any, room: Any, out: Any
) -> int:
    """Score the given rows into ``out[0]`` and their workers into ``out[1]``; returns the change of the sum."""
    change = 0
    for k in range(len(rows)):
        i = rows[k]
        score, workers = node_offer(gpus[i], nodes[i], ask, (terms, allowed, start, room))
        change += workers - out[1, i]
        out[0, i] = score
        out[1, i] = workers
    return change


def _lowest(scores: Any) -> int:
    """Index of the lowest score, the first among equals."""
    best = 0
    for i in range(1, len(scores)):
        if scores[i] < scores[best]:
            best = i
    return best


Rescore = Callable[[Ints, Ints, Ints, Ints, Ints, Any, Any, Any, Ints], int]

compiled_rescore: Rescore | None = njit(cache=True)(_rescore) if njit is not None else None
compiled_lowest: Callable[[Ints], int] | None = njit(cache=True)(_lowest) if njit is not None else None


def pick_slots(gpus: Sequence[Sequence[int]], ask: Sequence[int], tables: tuple[Any, ...]) -> list[int]:
    """The slots of the best ``ask[GPUS]`` GPUs of a node that can hold the request, ties by slot."""
    terms, allowed, start, _room = tables
    offers = []
    for j, gpu in enumerate(gpus):
        left = left_on_gpu(gpu, ask, terms, allowed, start)
        if left >= 0:
            offers.append((ask[GPU_WEIGHT] * left, j))
    offers.sort()
    return [j for _score, j in offers[: ask[GPUS]]]
