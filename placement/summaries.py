"""What one GPU of a node could offer at most: rules most nodes out without a look at their GPUs."""

from __future__ import annotations

from typing import Any

from placement import columns as k
from placement.jit import compiled


def _summarise(gpus: Any, node: Any, placeable: Any) -> None:
    """Enter the summary of a node; ``placeable`` is int64 [kinds, states]: MIG profiles that have a start."""
    models = 0
    most_mps = 0
    most_timeslice = 0
    profiles = 0
    for gpu in gpus:
        mode = gpu[k.MODE]
        if mode == k.ABSENT:
            continue
        kind = gpu[k.MODEL]
        models |= 1 << min(kind, k.BIT_LIMIT)
        free = gpu[k.FREE_MILLI]
        if mode in (k.EMPTY, k.MPS):
            most_mps = max(most_mps, free)
        if mode in (k.EMPTY, k.TIMESLICE):
            most_timeslice = max(most_timeslice, free)
        if mode in (k.EMPTY, k.MIG):
            profiles |= placeable[kind, gpu[k.MIG_STATE]]
    node[k.MODELS] = models
    node[k.MOST_MPS] = most_mps
    node[k.MOST_TIMESLICE] = most_timeslice
    node[k.PLACEABLE] = profiles


def _summarise_plainly(gpus: Any, node: Any, placeable: Any) -> None:
    """The same where there is no compiler: single numbers of lists are cheaper than those of arrays."""
    _summarise(gpus.tolist(), node, placeable)


summarise = compiled(_summarise) or _summarise_plainly


def one_kind(models: int) -> bool:
    """Whether the GPUs of a node are of one kind, by the mask of their kinds; False if it cannot tell."""
    return models & (models - 1) == 0 and models != 1 << k.BIT_LIMIT
