"""The same offers as :mod:`placement.kernels`, for many nodes at once with numpy alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from placement import kernels as k
from placement.kernels import Ints


def rescore(rows: Ints, state: tuple[Ints, Ints], ask: Ints, tables: tuple[Any, ...], out: Ints) -> int:
    """Score rows into ``out[0]``, their workers into ``out[1]``; returns the change of the sum."""
    gpus, nodes = state
    node = nodes[rows]
    workers = np.full(len(rows), k.MANY, np.int64)
    for asked, free in ((k.CPU, k.CPU_FREE), (k.RAM, k.RAM_FREE)):
        if ask[asked] > 0:
            workers = np.minimum(workers, node[:, free] // ask[asked])
    workers[(workers < 0) | (node[:, k.UP] == 0)] = 0
    if ask[k.KIND] == k.CPU_ONLY:
        score = ask[k.NODE_WEIGHT] * node[:, k.FREE_SUM]
    else:
        score, fitting = _gpu_offers(gpus[rows], node, ask, tables)
        workers = np.minimum(workers, fitting)
    score = np.where(workers > 0, score, k.BAD)
    change = int((workers - out[1, rows]).sum())
    out[0, rows], out[1, rows] = score, workers
    return change


def _gpu_offers(gpu: Ints, node: Ints, ask: Ints, tables: tuple[Any, ...]) -> tuple[Ints, Ints]:
    """Score and workers by GPUs alone, for each node."""
    terms, allowed, start, room = tables
    term = terms[gpu[..., k.MODEL]]
    kind, wanted = int(ask[k.KIND]), int(ask[k.GPUS])
    mode = gpu[..., k.MODE]
    fits = (mode == k.EMPTY) if kind == k.EXCLUSIVE else (mode == k.EMPTY) | (mode == kind)
    fits &= (term[..., k.MILLI] > 0) & (allowed[gpu[..., k.NEIGHBOURHOOD]] != 0)
    if kind == k.EXCLUSIVE:
        left, shares = np.zeros_like(mode), np.ones_like(mode)
    elif kind == k.MIG:
        at = (gpu[..., k.MODEL], gpu[..., k.MIG_STATE], term[..., k.PROFILE])
        fits &= start[at] >= 0
        used = (gpu[..., k.MIG_STATE] >> 8) & 7
        slices = np.maximum(term[..., k.SLICES], 1)
        left = (slices - used - term[..., k.CUT]) * 1000 // slices
        shares = room[at].astype(np.int64)
    else:
        fits &= _share_fits(gpu, term, ask)
        left = gpu[..., k.FREE_MILLI] - term[..., k.MILLI]
        shares = _share_room(gpu, term, kind)
    scores = np.where(fits, ask[k.GPU_WEIGHT] * left, k.BAD)
    order = np.argsort(scores, axis=1, kind="stable")[:, :wanted]
    enough = fits.sum(1) >= wanted
    chosen = np.take_along_axis(scores, order, 1)
    taken = np.take_along_axis(gpu[..., k.FREE_MILLI] - left, order, 1).sum(1)
    total = np.where(enough[:, None], chosen, 0).sum(1) + ask[k.NODE_WEIGHT] * (node[:, k.FREE_SUM] - taken)
    return total, np.where(enough, np.where(fits, shares, 0).sum(1) // wanted, 0)


def _share_fits(gpu: Ints, term: Ints, ask: Ints) -> npt.NDArray[np.bool_]:
    fits = (gpu[..., k.FREE_MILLI] >= term[..., k.MILLI]) & (gpu[..., k.FREE_MEMORY] >= term[..., k.MEMORY])
    if ask[k.KIND] == k.MPS:
        fits &= gpu[..., k.CLIENTS] < k.MPS_CLIENTS
    tenant = gpu[..., k.TENANT]
    apart = (tenant != k.NOBODY) & (tenant != ask[k.ASKER])
    if not ask[k.ISOLATING]:
        apart &= gpu[..., k.ISOLATED] == 1
    fits &= ~apart
    return fits


def _share_room(gpu: Ints, term: Ints, kind: int) -> Ints:
    shares = gpu[..., k.FREE_MILLI] // np.maximum(term[..., k.MILLI], 1)
    memory = term[..., k.MEMORY]
    shares = np.where(
        memory > 0, np.minimum(shares, gpu[..., k.FREE_MEMORY] // np.maximum(memory, 1)), shares
    )
    if kind == k.MPS:
        shares = np.minimum(shares, k.MPS_CLIENTS - gpu[..., k.CLIENTS])
    return shares
