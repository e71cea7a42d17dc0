"""How rows of nodes are arranged anew when nodes come and go."""

from __future__ import annotations

import numpy as np

from placement import columns as k
from placement.columns import Ints


def arranged(kept: list[int], width: int, state: tuple[Ints, Ints, Ints]) -> tuple[Ints, Ints, Ints]:
    """Arrays of GPUs, nodes and briefs in another order of rows.

    ``kept`` names for each new row the old one that it continues, -1 for one that begins empty; ``width``
    is the number of slots.
    """
    new_gpus = np.zeros((len(kept), width, k.GPU_COLUMNS), np.int64)
    new_gpus[:, :, k.MODE] = k.ABSENT
    new_nodes = np.zeros((len(kept), k.NODE_COLUMNS), np.int64)
    new_briefs = np.zeros(len(kept), np.int64)
    gpus, nodes, briefs = state
    stay = np.array([i for i, row in enumerate(kept) if row >= 0], np.int64)
    if len(stay):
        source = np.array([row for row in kept if row >= 0], np.int64)
        common = min(width, gpus.shape[1])
        new_gpus[stay, :common] = gpus[source, :common]
        new_nodes[stay], new_briefs[stay] = nodes[source], briefs[source]
    return new_gpus, new_nodes, new_briefs
