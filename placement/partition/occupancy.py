"""Tables over every occupancy of a GPU: where the next slice goes, and how many more of it fit."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

COMPUTE_SHIFT = 8
MEDIA_SHIFT = 11
STATES = 1 << 12
"""An occupancy: memory slices in bits 0-7, compute slices used in bits 8-10, media engine in bit 11."""

Ints = npt.NDArray[np.int64]


class Shape(NamedTuple):
    """What of a profile decides where it fits; GPU models of equal shapes share their tables."""

    compute_slices: int
    memory_slices: int
    starts: tuple[int, ...]
    media: bool


def used_compute(states: Ints) -> Ints:
    """Compute slices that each occupancy uses."""
    return (states >> COMPUTE_SHIFT) & 7


class Tables(NamedTuple):
    """What an occupancy allows.

    ``start``: int8 [4096, profiles], the start that keeps the most places, of equals the highest; -1 is none.
    ``room``: int8 [4096, profiles], how many more of that profile fit.
    ``places``: int16 [4096], at how many places (profile and start) one more slice fits.
    """

    start: npt.NDArray[np.int8]
    room: npt.NDArray[np.int8]
    places: npt.NDArray[np.int16]


@functools.cache
def tables(compute_slices: int, shapes: tuple[Shape, ...]) -> Tables:
    """The tables of a GPU with these profiles."""
    states: Ints = np.arange(STATES, dtype=np.int64)
    after = [_after(states, compute_slices, shape) for shape in shapes]
    places: Ints = np.sum([(moves >= 0).sum(axis=0) for moves in after], axis=0)
    start = np.full((STATES, len(shapes)), -1, np.int8)
    room = np.zeros((STATES, len(shapes)), np.int8)
    for profile, (shape, moves) in enumerate(zip(shapes, after, strict=True)):
        start[:, profile] = _best_start(shape, moves, places)
        room[:, profile] = _room(moves, states)
    return Tables(start, room, places.astype(np.int16))


def _after(states: Ints, compute_slices: int, shape: Shape) -> Ints:
    """The occupancy with one more slice at each start, [starts, states]; -1 where it does not fit."""
    compute = used_compute(states) + shape.compute_slices
    media = states >> MEDIA_SHIFT
    fits = (compute <= compute_slices) & ~((media == 1) & shape.media)
    rest = (compute << COMPUTE_SHIFT) | ((media | shape.media) << MEDIA_SHIFT)
    masks = [((1 << shape.memory_slices) - 1) << start for start in shape.starts]
    return np.array(
        [np.where(fits & (states & mask == 0), (states & 0xFF) | mask | rest, -1) for mask in masks]
    )


def _best_start(shape: Shape, moves: Ints, places: Ints) -> Ints:
    starts: Ints = np.array(shape.starts, dtype=np.int64)
    worth = np.where(moves >= 0, places[moves] * STATES + starts[:, None], -1)
    return np.where(worth.max(axis=0) >= 0, starts[worth.argmax(axis=0)], -1)


def _room(moves: Ints, states: Ints) -> Ints:
    """How many slices one after another; every slice takes compute, so fuller occupancies come first."""
    room: Ints = np.zeros(STATES, np.int64)
    used = used_compute(states)
    for level in range(int(used.max()), -1, -1):
        here = moves[:, used == level]
        room[used == level] = np.where(here >= 0, room[here] + 1, 0).max(axis=0)
    return room
