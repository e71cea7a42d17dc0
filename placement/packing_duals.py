"""What a share of a GPU is worth when everything usual is packed as well as it can be.

Dual prices of the fractional bin packing problem (Gilmore and Gomory, Operations Research 9(6), 1961), by
column generation: maximise the sum of demand x price, where no set of shares that fits one GPU may cost more
than the GPU.  A share's price says how much of a GPU it takes in a good packing: with shares of 810
thousandths and nothing of 190, such a share takes the whole GPU.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from placement.columns import Ints
from placement.model import WHOLE_GPU_MILLI

Floats = npt.NDArray[np.float64]

STEP_MILLI = 10
"""Shares are rounded up to this for the packing."""

MAX_PIVOTS = 400
_TINY = 1e-9


def residual_worth(demand: Mapping[int, int]) -> Ints:
    """What 0..1000 free thousandths of one GPU are worth, in thousandths of a whole one; int64 [1001].

    ``demand`` is how often shares of each size (thousandths) are asked for; empty: everything is worth 0.
    """
    return _residual_worth(tuple((milli, weight) for milli, weight in sorted(demand.items()) if weight > 0))


@functools.lru_cache(maxsize=64)
def _residual_worth(wanted: tuple[tuple[int, int], ...]) -> Ints:
    if not wanted:
        return np.zeros(WHOLE_GPU_MILLI + 1, np.int64)
    sizes = -(-np.array([milli for milli, _weight in wanted], np.int64) // STEP_MILLI)
    prices = _prices(sizes, np.array([weight for _milli, weight in wanted], np.float64))
    worth, _last = _knapsack(sizes, prices)
    steps = np.arange(WHOLE_GPU_MILLI + 1) // STEP_MILLI
    return np.rint(WHOLE_GPU_MILLI * worth[steps]).astype(np.int64)


def _prices(sizes: Ints, demand: Floats) -> Floats:
    """The dual price of each size, as a part of a GPU."""
    whole, count = WHOLE_GPU_MILLI // STEP_MILLI, len(sizes)
    basis = np.diag((whole // sizes).astype(np.float64))
    cost = np.ones(count)
    prices: Floats = np.zeros(count)
    for _ in range(MAX_PIVOTS):
        prices = np.asarray(np.linalg.solve(basis.T, cost), np.float64)
        entering, price = _entering(sizes, prices)
        if entering is None:
            break
        direction = np.linalg.solve(basis, entering)
        amounts = np.maximum(np.linalg.solve(basis, demand), 0)
        grows = direction > _TINY
        ratio = np.where(grows, amounts / np.where(grows, direction, 1.0), np.inf)
        leaving = int(np.argmin(ratio))
        if not np.isfinite(ratio[leaving]):
            break
        basis[:, leaving], cost[leaving] = entering, price
    clipped: Floats = np.clip(prices, 0.0, 1.0)
    return clipped


def _entering(sizes: Ints, prices: Floats) -> tuple[Floats | None, float]:
    """The column that would improve the packing and its cost; None at the optimum."""
    lowest = int(np.argmin(prices))
    column = np.zeros(len(sizes))
    if prices[lowest] < -_TINY:  # more is packed of this size than is asked for
        column[lowest] = -1.0
        return column, 0.0
    worth, last = _knapsack(sizes, prices)
    left = len(worth) - 1
    if worth[left] <= 1 + _TINY:
        return None, 0.0
    while left > 0:
        if last[left] < 0:
            left -= 1
        else:
            column[last[left]] += 1
            left -= int(sizes[last[left]])
    return column, 1.0


def _knapsack(sizes: Ints, prices: Floats) -> tuple[Floats, Ints]:
    """The greatest price that so many steps can hold, and the share that was added last (-1: none)."""
    whole = WHOLE_GPU_MILLI // STEP_MILLI
    worth, last = np.zeros(whole + 1), np.full(whole + 1, -1, np.int64)
    for room in range(1, whole + 1):
        with_one = np.where(sizes <= room, prices + worth[np.maximum(room - sizes, 0)], -1.0)
        best = int(np.argmax(with_one))
        if with_one[best] > worth[room - 1] + _TINY:
            worth[room], last[room] = with_one[best], best
        else:
            worth[room] = worth[room - 1]
    return worth, last
