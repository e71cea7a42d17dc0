"""MIG geometry: which slices of a GPU can stand together, as data and small tables."""

from __future__ import annotations

import functools
import importlib.resources
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from placement.model import UnknownName

_COMPUTE_SHIFT = 8
_MEDIA_SHIFT = 11
STATES = 1 << 12
"""An occupancy: memory slices in bits 0-7, compute slices used in bits 8-10, media engine in bit 11."""


@dataclass(frozen=True, slots=True)
class MigProfile:
    """One kind of slice; ``memory_bytes`` is what a job can use of it."""

    name: str
    compute_slices: int
    memory_slices: int
    memory_bytes: int
    starts: tuple[int, ...]
    media: bool


class MigGeometry:
    """The slices of one GPU model, with tables over all 4,096 occupancies.

    Attributes:
        start: int8 [4096, profiles]: the start slice that keeps most placements possible, -1 where none is.
        room: int8 [4096, profiles]: how many more slices of that profile fit.
        free_milli: int32 [4096]: compute not in any slice, in thousandths of the GPU, rounded down.
    """

    def __init__(self, compute_slices: int, memory_slices: int, profiles: tuple[MigProfile, ...]) -> None:
        self.compute_slices = compute_slices
        self.memory_slices = memory_slices
        self.profiles = profiles
        self._index = {profile.name: i for i, profile in enumerate(profiles)}
        self.start, self.room = self._tables()
        used = (np.arange(STATES) >> _COMPUTE_SHIFT) & 7
        self.free_milli: npt.NDArray[np.int32] = (
            (compute_slices - used).clip(0) * 1000 // compute_slices
        ).astype(np.int32)

    def profile_index(self, name: str) -> int:
        """Position of a profile in the tables.

        Raises:
            UnknownName: this GPU has no such profile.
        """
        index = self._index.get(name)
        if index is None:
            raise UnknownName(f"MIG profile {name!r} is unknown here; choose one of {', '.join(self._index)}")
        return index

    def compute_milli(self, profile: MigProfile) -> int:
        """Compute of a slice in thousandths of the GPU, rounded down: slices never exceed the whole."""
        return profile.compute_slices * 1000 // self.compute_slices

    def add(self, state: int, profile: int, start: int) -> int | None:
        """The occupancy with one more slice, None if it does not fit there."""
        cut = self.profiles[profile]
        if start not in cut.starts:
            return None
        mask = ((1 << cut.memory_slices) - 1) << start
        compute = ((state >> _COMPUTE_SHIFT) & 7) + cut.compute_slices
        if state & mask or compute > self.compute_slices:
            return None
        if cut.media and state >> _MEDIA_SHIFT:
            return None
        media = (state >> _MEDIA_SHIFT) | cut.media
        return (state & 0xFF) | mask | compute << _COMPUTE_SHIFT | media << _MEDIA_SHIFT

    def _choices(self, state: int, profile: int) -> list[tuple[int, int]]:
        moves = ((start, self.add(state, profile, start)) for start in self.profiles[profile].starts)
        return [(start, after) for start, after in moves if after is not None]

    def _tables(self) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int8]]:
        options = np.array(
            [sum(len(self._choices(state, p)) for p in range(len(self.profiles))) for state in range(STATES)]
        )
        start = np.full((STATES, len(self.profiles)), -1, np.int8)
        room = np.zeros((STATES, len(self.profiles)), np.int8)
        for state in range(STATES - 1, -1, -1):
            for profile in range(len(self.profiles)):
                choices = self._choices(state, profile)
                if choices:
                    start[state, profile] = max(choices, key=lambda c: (options[c[1]], c[0]))[0]
                    room[state, profile] = 1 + max(room[after, profile] for _, after in choices)
        return start, room


@functools.cache
def _entries() -> dict[str, int]:
    return {model: i for i, entry in enumerate(_table()) for model in entry["models"]}


@functools.cache
def _table() -> list[dict[str, Any]]:
    text = importlib.resources.files("placement.partition").joinpath("mig_tables.json").read_text("utf-8")
    entries: list[dict[str, Any]] = json.loads(text)["geometries"]
    return entries


@functools.cache
def _geometry(entry: int) -> MigGeometry:
    facts = _table()[entry]
    profiles = tuple(
        MigProfile(
            name=p["name"],
            compute_slices=p["compute_slices"],
            memory_slices=p["memory_slices"],
            memory_bytes=p["memory_mib"] << 20,
            starts=tuple(p["starts"]),
            media=p["media"],
        )
        for p in facts["profiles"]
    )
    return MigGeometry(facts["compute_slices"], facts["memory_slices"], profiles)


def geometry_of(gpu_model: str) -> MigGeometry | None:
    """The MIG geometry of a GPU model, None where it has no MIG (or we do not know it yet)."""
    entry = _entries().get(gpu_model)
    return None if entry is None else _geometry(entry)


def mig_profile_names() -> tuple[str, ...]:
    """Every MIG profile of any GPU model, in alphabetical order."""
    return tuple(sorted({profile["name"] for entry in _table() for profile in entry["profiles"]}))
