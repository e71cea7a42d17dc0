"""What one GPU of a node could offer at most: rules most nodes out without a look at their GPUs.

A node's summary is in its columns, and packed into one number, its brief: a look at a large cluster goes over
the briefs, which lie side by side, and reads nothing else of the nodes that they rule out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from placement import columns as k
from placement.columns import Ints, Row
from placement.jit import compiled, inlined, register_jitable

_MILLI_BITS, _EMPTIES_BITS, _PROFILE_BITS, _MODEL_BITS = 10, 7, 12, 24  # 7: a node has at most 64 GPUs
_PROFILES_AT = _MODEL_BITS
_EMPTIES_AT = _PROFILES_AT + _PROFILE_BITS
_TIMESLICE_AT = _EMPTIES_AT + _EMPTIES_BITS
_MPS_AT = _TIMESLICE_AT + _MILLI_BITS
_MILLI, _EMPTIES = (1 << _MILLI_BITS) - 1, (1 << _EMPTIES_BITS) - 1

ONE_EMPTY = 1 << _EMPTIES_AT
"""What one empty GPU more adds to a brief."""


@register_jitable
def _squeezed(mask: int, bits: int) -> int:
    """A mask of so many bits, of which the last stands for all beyond it too."""
    low = mask & ((1 << bits) - 1)
    return low if mask >> bits == 0 else low | 1 << (bits - 1)


@register_jitable
def _brief_of(node: Row) -> int:
    """The most compute as a share in either mode, empty GPUs, MIG profiles with a start, kinds of GPUs."""
    brief = node[k.MOST_MPS] << _MPS_AT | node[k.MOST_TIMESLICE] << _TIMESLICE_AT
    brief |= node[k.EMPTIES] << _EMPTIES_AT | _squeezed(node[k.PLACEABLE], _PROFILE_BITS) << _PROFILES_AT
    return brief | _squeezed(node[k.MODELS], _MODEL_BITS)


@inlined
def may_hold(brief: int, ask: Row) -> bool:
    """Whether a node could hold a request with GPUs, as far as can be told without looking at them."""
    if brief & _squeezed(ask[k.SERVED_BY], _MODEL_BITS) == 0:
        return False
    offered = ask[k.OFFERED]
    return (
        (offered & k.IN_MPS != 0 and brief >> _MPS_AT >= ask[k.LEAST_MPS])
        or (offered & k.IN_TIMESLICE != 0 and (brief >> _TIMESLICE_AT) & _MILLI >= ask[k.LEAST_TIMESLICE])
        or (
            offered & k.IN_MIG != 0
            and (brief >> _PROFILES_AT) & _squeezed(ask[k.PROFILES], _PROFILE_BITS) != 0
        )
        or (offered & k.IN_EXCLUSIVE != 0 and (brief >> _EMPTIES_AT) & _EMPTIES >= ask[k.GPUS])
    )


def may_hold_each(briefs: Ints, ask: Row) -> Any:
    """The same for many nodes at once, bool [nodes]."""
    offered, profiles = int(ask[k.OFFERED]), _squeezed(int(ask[k.PROFILES]), _PROFILE_BITS)
    ways = []  # compared where it stands: only what is above it is masked
    if offered & k.IN_MPS:
        ways.append(briefs >= int(ask[k.LEAST_MPS]) << _MPS_AT)
    if offered & k.IN_TIMESLICE:
        ways.append(briefs & _MILLI << _TIMESLICE_AT >= int(ask[k.LEAST_TIMESLICE]) << _TIMESLICE_AT)
    if offered & k.IN_MIG:
        ways.append(briefs & profiles << _PROFILES_AT != 0)
    if offered & k.IN_EXCLUSIVE:
        ways.append(briefs & _EMPTIES << _EMPTIES_AT >= int(ask[k.GPUS]) << _EMPTIES_AT)
    could = briefs & _squeezed(int(ask[k.SERVED_BY]), _MODEL_BITS) != 0
    if not ways:
        return np.zeros(len(briefs), np.bool_)
    some = ways[0]
    for way in ways[1:]:
        some |= way
    could &= some
    return could


def _summarise(gpus: Any, node: Any, placeable: Any) -> int:
    """Enter the summary of a node; ``placeable`` is int64 [kinds, states]: MIG profiles that have a start.

    Gives its brief.
    """
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
    return _brief_of(node)


def _summarise_plainly(gpus: Any, node: Any, placeable: Any) -> int:
    """The same where there is no compiler: numbers of lists are cheaper than those of arrays."""
    modes, kinds = gpus[:, k.MODE].tolist(), gpus[:, k.MODEL].tolist()
    models = most_mps = most_timeslice = profiles = 0
    for kind in {kind for mode, kind in zip(modes, kinds, strict=True) if mode != k.ABSENT}:
        models |= 1 << min(kind, k.BIT_LIMIT)
    for slot, mode in enumerate(modes):
        if mode in _TAKEN:
            continue
        free = gpus.item(slot, k.FREE_MILLI)
        if mode in (k.EMPTY, k.MPS) and free > most_mps:
            most_mps = free
        if mode in (k.EMPTY, k.TIMESLICE) and free > most_timeslice:
            most_timeslice = free
        if mode in (k.EMPTY, k.MIG):
            profiles |= placeable.item(kinds[slot], gpus.item(slot, k.MIG_STATE))
    node[k.MODELS :] = models, most_mps, most_timeslice, profiles
    return _brief_of(node.tolist())


_TAKEN = (k.EXCLUSIVE, k.ABSENT)
summarise = compiled(_summarise) or _summarise_plainly


def warm_up() -> None:
    """Compile, or load from the cache, what a change of a node calls."""
    gpus, node = np.zeros((1, k.GPU_COLUMNS), np.int64), np.zeros(k.NODE_COLUMNS, np.int64)
    summarise(gpus, node, np.zeros((1, 1), np.int64))


def one_kind(models: int) -> bool:
    """Whether the GPUs of a node are of one kind, by the mask of their kinds; False if it cannot tell."""
    return models & (models - 1) == 0 and models != 1 << k.BIT_LIMIT
