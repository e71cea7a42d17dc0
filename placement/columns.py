"""Where things stand in the arrays of the core: columns of GPUs and nodes, entries of a compiled request."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Row = Sequence[int]
Table = Sequence[Row]
Cube = Sequence[Table]
Tables = tuple[Cube, Table, Cube, Cube, Row]
"""Terms [rank, kind], refused neighbourhoods [rank, number], MIG state after a bundle and room for it [kind,
state, bundle], and the compiled mix."""

BAD = 1 << 62
"""Score of a node that cannot hold the request; lower scores are better."""

EMPTY, EXCLUSIVE, MIG, MPS, TIMESLICE, ABSENT = range(6)
"""Codes of the mode of a GPU; ABSENT pads short nodes."""

(
    MODE,
    MIG_STATE,
    CLIENTS,
    MODEL,
    TENANT,
    ISOLATED,
    NEIGHBOURHOOD,
    FREE_MILLI,
    FREE_MEMORY,
    USABLE,
    PRESSURE,
    PRESSURE_2,
    SENSITIVITY,
    SENSITIVITY_2,
    LASTING,
) = range(15)
"""Columns of a GPU.  USABLE: which usual requests could use it, not kept (0 once it
is shared) unless the policy weighs that; the four after it: sums over its residents;
LASTING: the longest lifetime among those who share it, 0 without any, :data:`UNTOLD` if none is known."""
GPU_COLUMNS = 15

CPU_FREE, RAM_FREE, FREE_SUM, EMPTIES, UP, SIZE, SHAPES, MODELS, MOST_MPS, MOST_TIMESLICE, PLACEABLE = range(
    11
)
"""Columns of a node.  SIZE: its GPUs; SHAPES: kinds of workers there, see Offer.shapes; MODELS: mask of its
GPU kinds.  What one GPU could offer at most: compute as a share in either mode, mask of MIG profiles."""
NODE_COLUMNS = 11

(
    GPUS,
    CPU,
    RAM,
    ASKER,
    ISOLATING,
    MODE_STEP,
    WEIGHS,
    OFFERED,
    SERVED_BY,
    LEAST_MPS,
    LEAST_TIMESLICE,
    PROFILES,
    LIFETIME,
) = range(13)
"""Entries of a compiled request.  OFFERED: mask of the ranks that some GPU could serve; SERVED_BY:
mask of GPU kinds; the least compute per GPU by mode, and the mask of MIG profiles that would do; LIFETIME:
how long the job lasts, see placement.lifetimes, 0 if unknown or not to be weighed."""
ASK_ENTRIES = 13

UNTOLD = 9
"""Beyond every lifetime: nobody is known to outlast those of whom nothing is known."""

STRANDED, FORGONE = 1, 2
"""What a policy weighs, see Placement.weighs."""

MPS_RANK, TIMESLICE_RANK, MIG_RANK, EXCLUSIVE_RANK, OTHER_MIG_RANK = range(5)
RANKS = 5
"""Ways to serve a request on one GPU: the places of the modes in MODE_ORDER, and after them another slice,
see :mod:`placement.alternatives`."""
MODE_OF_RANK = (MPS, TIMESLICE, MIG, EXCLUSIVE, MIG)
MODE_RANK = (MPS_RANK, TIMESLICE_RANK, MIG_RANK, EXCLUSIVE_RANK, MIG_RANK)
"""The first of the ranks that are of the same mode."""
IN_MPS, IN_TIMESLICE, IN_MIG = 1 << MPS_RANK, 1 << TIMESLICE_RANK, 1 << MIG_RANK | 1 << OTHER_MIG_RANK
IN_EXCLUSIVE = 1 << EXCLUSIVE_RANK
"""Masks of the ranks of each mode."""

(
    MILLI,
    MEMORY,
    PROFILE,
    CUT,
    SLICES,
    CLIENT_LIMIT,
    PRICE,
    PRESSES,
    PRESSES_2,
    SENSES,
    SENSES_2,
    ALONE,
) = range(12)
"""Columns of a compiled request per rank and GPU kind: share (0: not served), bytes, MIG bundle with its
compute slices, of how many, most clients of the GPU, price of opening an empty GPU in that mode (thousandths
of a second), its own pull on neighbours, and how much its share alone slows it (beyond 1, thousandths)."""
TERM_COLUMNS = 12

MOST_SHAPES = 62
"""Workers of more whole GPUs than this count as of this many."""

BIT_LIMIT = 62
"""Kinds of GPUs beyond this share the last bit of a mask."""

SLOTS = 64
CHOICE_BITS = 9
"""A choice is coded as rank x SLOTS + slot, in so many bits."""

NOBODY = -1
STRANGER = -9
"""Asks in the name of no tenant at all."""

MANY = 1 << 30
"""More workers than any job has: nothing on the node limits them."""
