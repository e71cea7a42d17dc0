"""What a policy knows of a place, and arithmetic that reads the same for one place and for many.

A score is written once, as arithmetic on the fields of an :class:`Offer`, which it reads by name.  The
search calls it with plain integers (one place), compiled by numba, or for many places with int64 arrays of
one number for each, or one integer that holds for all; there a field costs nothing unless it is read.  So a
score may use ``+ - * //`` and comparisons, and :func:`where`, :func:`smaller`, :func:`larger` and
:func:`level` instead of ``if``, ``min``, ``max`` and tables.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from placement.jit import numba


class Offer(NamedTuple):
    """One place for one worker, as it would be once taken; sums over all GPUs that the worker asks for.

    Attributes:
        mode: place of the sharing mode in :data:`placement.partition.MODE_ORDER`.
        taken: compute taken, thousandths of a GPU.
        gpu_left: compute left on those GPUs, thousandths.
        node_left: compute left on the whole node, thousandths.
        cpu: CPU asked for, thousandths of a core; cpu_left: CPU left on the node; ram_left: RAM left, bytes.
        gpus: GPUs of the node; empties: those without residents before; opened: how many of these are taken.
        residents: jobs already on the GPUs.
        shape: what kind of worker asks, one bit: 1 a share of a GPU, 2**n whole GPUs; shapes: the kinds that
            are on the node already, as a mask.
        stranded: growth of the compute that the usual requests could not use, in thousandths of a GPU
            times :data:`placement.mix.WHOLE` (FGD, ATC'23, section 4.2); 0 unless Placement.weighs says so.
        forgone: what the usual requests lose by it, thousandths of a GPU times 3: see :mod:`placement.worth`;
            0 unless Placement.weighs says so.
        suffered: predicted slowdown of the newcomer beyond 1, thousandths; inflicted: that of all who are
            there already, summed.  0 where the belief has no linear form (see interference.Coupling).
        price: what changing the mode of an empty GPU costs, thousandths of a second.
        outlasts: how much later the GPUs would be empty, in classes of lifetime (placement.model.Lifetime): 1
            if the job lasts as long as the last of those who are there or nobody is there, 1 more for each
            class that it lasts longer; 0 if it lasts less, or its lifetime or that of all others is unknown;
            0 unless Placement.weighs_lifetimes.
        wasted: compute taken that brings the newcomer nothing because its own share or slice slows it: the
            share times the predicted slowdown beyond 1 that it has in there alone, thousandths of a GPU.
    """

    mode: Any
    taken: Any
    gpu_left: Any
    node_left: Any
    cpu: Any
    cpu_left: Any
    ram_left: Any
    gpus: Any
    empties: Any
    opened: Any
    residents: Any
    shape: Any
    shapes: Any
    stranded: Any
    forgone: Any
    suffered: Any
    inflicted: Any
    price: Any
    outlasts: Any
    wasted: Any


Score = Callable[[Offer], Any]
Scores = tuple[Score, Score]
"""A policy's preference among places, and among the GPUs of one node where the first is equal."""


def where(condition: Any, yes: Any, no: Any) -> Any:
    """``yes`` where the condition holds, else ``no``."""
    if isinstance(condition, np.ndarray):
        return np.where(condition, yes, no)
    return yes if condition else no


def smaller(one: Any, other: Any) -> Any:
    """The lesser of two."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.minimum(one, other)
    return one if one < other else other


def larger(one: Any, other: Any) -> Any:
    """The greater of two."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.maximum(one, other)
    return one if one > other else other


def level(value: Any, steps: tuple[int, ...]) -> Any:
    """How many of the ascending steps a value has reached."""
    if isinstance(value, np.ndarray):
        return np.searchsorted(np.asarray(steps, np.int64), value, side="right")
    reached: int = _level(value, steps)  # type: ignore[no-untyped-call]
    return reached


def _where(condition, yes, no):  # type: ignore[no-untyped-def]
    return yes if condition else no


def _smaller(one, other):  # type: ignore[no-untyped-def]
    return one if one < other else other


def _larger(one, other):  # type: ignore[no-untyped-def]
    return one if one > other else other


def _level(value, steps):  # type: ignore[no-untyped-def]
    low = 0
    high = len(steps)
    while low < high:
        middle = (low + high) // 2
        if steps[middle] <= value:
            low = middle + 1
        else:
            high = middle
    return low


if numba is not None:
    # Compiled code takes the branch for single values.  The compiler wants the very same signatures, bare.
    numba.extending.overload(where)(lambda condition, yes, no: _where)
    numba.extending.overload(smaller)(lambda one, other: _smaller)
    numba.extending.overload(larger)(lambda one, other: _larger)
    numba.extending.overload(level)(lambda value, steps: _level)
