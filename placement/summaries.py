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
    for j in range(len(gpus)):
        mode = gpus[j, k.MODE]
        if mode == k.ABSENT:
            continue
        kind = gpus[j, k.MODEL]
        models |= 1 << min(kind, k.BIT_LIMIT)
        free = gpus[j, k.FREE_MILLI]
        if mode in (k.EMPTY, k.MPS):
            most_mps = max(most_mps, free)
        if mode in (k.EMPTY, k.TIMESLICE):
            most_timeslice = max(most_timeslice, free)
        if mode in (k.EMPTY, k.MIG):
            profiles |= placeable[kind, gpus[j, k.MIG_STATE]]
    node[k.MODELS] = models
    node[k.MOST_MPS] = most_mps
    node[k.MOST_TIMESLICE] = most_timeslice
    node[k.PLACEABLE] = profiles


summarise = compiled(_summarise) or _summarise
