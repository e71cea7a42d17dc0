"""The inner loop of every search: what one node offers to one request.

The functions below are plain Python over nested sequences.  With numba (the extra ``fast``) the same source
is compiled and runs over the arrays; without it, few nodes are looked at by the plain functions and many at
once by :mod:`placement.vectorised`.  All three give the same integers, so all decide alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

F = TypeVar("F", bound=Callable[..., Any])

numba: Any
try:
    import numba
    import numba.extending
except ImportError:  # the extra "fast" is not installed
    numba = None


def register_jitable(function: F) -> F:
    """Let compiled functions call this one too; it stays plain Python for everybody else."""
    return function if numba is None else cast(F, numba.extending.register_jitable(function))


Ints = npt.NDArray[np.int64]
Row = Sequence[int]
Table = Sequence[Row]
Cube = Sequence[Table]
Tables = tuple[Table, Row, Cube, Cube]
"""Terms per GPU kind, verdict per neighbourhood, best MIG start and room per kind, state and profile."""

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
"""Columns of a compiled request per GPU kind: share, bytes, MIG profile, its compute slices, all slices."""
TERM_COLUMNS = 5

NOBODY = -1
MPS_CLIENTS = 48
MANY = 1 << 40
"""More workers than any job has: nothing on the node limits them."""


@register_jitable
def left_on_gpu(gpu: Row, ask: Row, terms: Table, allowed: Row, start: Cube) -> int:
    """Compute left on a GPU after taking one share, in thousandths; -1 if the share does not fit."""
    kind = ask[KIND]
    if gpu[MODE] not in (EMPTY, kind) or terms[gpu[MODEL]][MILLI] == 0 or allowed[gpu[NEIGHBOURHOOD]] == 0:
        return -1
    if kind == EXCLUSIVE:
        return 0 if gpu[MODE] == EMPTY else -1
    if kind == MIG:
        return _left_beside_slice(gpu, terms[gpu[MODEL]], start)
    return _left_beside_share(gpu, ask, terms[gpu[MODEL]])


@register_jitable
def _left_beside_slice(gpu: Row, term: Row, start: Cube) -> int:
    if start[gpu[MODEL]][gpu[MIG_STATE]][term[PROFILE]] < 0:
        return -1
    used = (gpu[MIG_STATE] >> 8) & 7
    return (term[SLICES] - used - term[CUT]) * 1000 // term[SLICES]


@register_jitable
def _left_beside_share(gpu: Row, ask: Row, term: Row) -> int:
    if gpu[FREE_MILLI] < term[MILLI] or gpu[FREE_MEMORY] < term[MEMORY]:
        return -1
    if ask[KIND] == MPS and gpu[CLIENTS] >= MPS_CLIENTS:
        return -1
    stranger = gpu[TENANT] not in (NOBODY, ask[ASKER])
    if stranger and (ask[ISOLATING] == 1 or gpu[ISOLATED] == 1):
        return -1
    return gpu[FREE_MILLI] - term[MILLI]


@register_jitable
def room_on_gpu(gpu: Row, ask: Row, terms: Table, room: Cube) -> int:
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
def workers_beside_gpus(node: Row, ask: Row) -> int:
    """How many workers the node's availability, CPU and RAM allow."""
    if node[UP] == 0:
        return 0
    workers = MANY
    if ask[CPU] > 0:
        workers = min(workers, node[CPU_FREE] // ask[CPU])
    if ask[RAM] > 0:
        workers = min(workers, node[RAM_FREE] // ask[RAM])
    return workers


@register_jitable
def node_offer(gpus: Table, node: Row, ask: Row, tables: Tables) -> tuple[int, int]:
    """Score of a node and how many workers it can hold (exact for one GPU a worker, else an upper bound)."""
    workers = workers_beside_gpus(node, ask)
    wanted = ask[GPUS]
    if workers <= 0 or (ask[KIND] == EXCLUSIVE and node[EMPTIES] < wanted):
        return BAD, 0
    if ask[KIND] == CPU_ONLY:
        return ask[NODE_WEIGHT] * node[FREE_SUM], workers
    fitting, shares, best, taken = _gpu_offers(gpus, ask, tables)
    if fitting < wanted:
        return BAD, 0
    if ask[KIND] == EXCLUSIVE:
        taken = 1000 * wanted
    elif wanted > 1:
        best, taken = _several(gpus, ask, tables)
    return best + ask[NODE_WEIGHT] * (node[FREE_SUM] - taken), min(workers, shares // wanted)


@register_jitable
def _gpu_offers(gpus: Table, ask: Row, tables: Tables) -> tuple[int, int, int, int]:
    """GPUs that fit, shares that fit on them, and score and compute taken of the best."""
    terms, allowed, start, room = tables
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
    return fitting, shares, best, taken


@register_jitable
def _several(gpus: Table, ask: Row, tables: Tables) -> tuple[int, int]:
    """Score and compute taken of the best ``ask[GPUS]`` GPUs, ties by slot."""
    terms, allowed, start, _room = tables
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


def _rescore(  # noqa: PLR0913, PLR0917 - a tuple of arrays costs the compiled call more than the look itself
    rows: Any, gpus: Any, nodes: Any, ask: Any, terms: Any, allowed: Any, start: Any, room: Any, out: Any
) -> int:
    """Score rows into ``out[0]`` and their workers into ``out[1]``; returns the change of the sum."""
    change = 0
    for i in rows:
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

compiled_rescore: Rescore | None = None if numba is None else numba.njit(cache=True)(_rescore)
compiled_lowest: Callable[[Ints], int] | None = None if numba is None else numba.njit(cache=True)(_lowest)


def compile_kernels() -> None:
    """Compile (or load from the cache) what the searches call, so that no decision pays for it."""
    if compiled_rescore is None or compiled_lowest is None:
        return
    gpus, nodes, out = (
        np.zeros((1, 1, GPU_COLUMNS), np.int64),
        np.zeros((1, NODE_COLUMNS), np.int64),
        np.zeros((2, 1), np.int64),
    )
    tables = np.zeros(1, np.int8), np.zeros((1, 1, 1), np.int8), np.zeros((1, 1, 1), np.int8)
    ask, terms = np.zeros(ASK_ENTRIES, np.int64), np.zeros((1, TERM_COLUMNS), np.int64)
    compiled_rescore(np.zeros(1, np.int64), gpus, nodes, ask, terms, *tables, out)
    compiled_lowest(out[0])


def pick_slots(gpus: Table, ask: Row, tables: Tables) -> list[int]:
    """The slots of the best ``ask[GPUS]`` GPUs of a node that can hold the request, ties by slot."""
    terms, allowed, start, _room = tables
    offers = []
    for j, gpu in enumerate(gpus):
        left = left_on_gpu(gpu, ask, terms, allowed, start)
        if left >= 0:
            offers.append((ask[GPU_WEIGHT] * left, j))
    offers.sort()
    return [j for _score, j in offers[: ask[GPUS]]]
