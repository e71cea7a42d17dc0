"""MIG geometry: which slices of a GPU can stand together, as data and small tables."""

from __future__ import annotations

import functools
import importlib.resources
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from placement.model import Share, StateError, UnknownName
from placement.partition.occupancy import COMPUTE_SHIFT, MEDIA_SHIFT, STATES, Shape, tables, used_compute


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
        slices: name and start of every slice that it can have.
        start: int8 [4096, profiles]: the start slice that keeps most placements possible, -1 where none is.
        room: int8 [4096, profiles]: how many more slices of that profile fit.
        places: int16 [4096]: at how many places (profile and start) one more slice fits.
        free_milli: int32 [4096]: compute not in any slice, in thousandths of the GPU, rounded down.
        bundles: profile and number of equal slices that an empty GPU has room for, single slices first.
        after: int16 [4096, bundles]: the occupancy once all slices of a bundle stand, one after the other and
            each at its best start; -1 where they do not all fit.
    """

    def __init__(self, compute_slices: int, memory_slices: int, profiles: tuple[MigProfile, ...]) -> None:
        self.compute_slices = compute_slices
        self.memory_slices = memory_slices
        self.profiles = profiles
        self._index = {profile.name: i for i, profile in enumerate(profiles)}
        self.slices = frozenset((profile.name, start) for profile in profiles for start in profile.starts)
        self.start, self.room, self.places = tables(
            compute_slices,
            tuple(Shape(p.compute_slices, p.memory_slices, p.starts, p.media) for p in profiles),
        )
        used = used_compute(np.arange(STATES, dtype=np.int64))
        self.free_milli: npt.NDArray[np.int32] = (
            (compute_slices - used).clip(0) * 1000 // compute_slices
        ).astype(np.int32)

        self.bundles = tuple(
            (profile, copies)
            for copies in range(1, compute_slices + 1)
            for profile in range(len(profiles))
            if copies == 1 or self.room[0, profile] >= copies
        )
        self.after = self._after_bundles()

    def _after_bundles(self) -> npt.NDArray[np.int16]:
        after = np.full((STATES, len(self.bundles)), -1, np.int16)
        states: npt.NDArray[np.int64] = np.arange(STATES, dtype=np.int64)
        for bundle, (profile, copies) in enumerate(self.bundles):
            before = states
            if copies > 1:
                before = after[:, self.bundles.index((profile, copies - 1))].astype(np.int64)
            cut, start = self.profiles[profile], self.start[before, profile].astype(np.int64)
            taken = ((1 << cut.memory_slices) - 1) << np.maximum(start, 0)
            then = (before | taken | cut.media << MEDIA_SHIFT) + (cut.compute_slices << COMPUTE_SHIFT)
            after[:, bundle] = np.where((before >= 0) & (start >= 0), then, -1)
        return after

    def starts_of(self, state: int, profile: int, copies: int) -> list[int]:
        """Where so many slices of a profile begin, each at its best start once those before it stand.

        So many fit as the room says: a test tries all occupancies.

        Raises:
            StateError: there is no room for so many.
        """
        starts: list[int] = []
        after: int | None = state
        while len(starts) < copies:
            start = -1 if after is None else self.start.item(after, profile)
            if after is None or start < 0:
                raise StateError(f"no room for {copies} slices {self.profiles[profile].name}")
            starts.append(start)
            if len(starts) < copies:
                after = self.add(after, profile, start)
        return starts

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
        compute = ((state >> COMPUTE_SHIFT) & 7) + cut.compute_slices
        if state & mask or compute > self.compute_slices:
            return None
        if cut.media and state >> MEDIA_SHIFT:
            return None
        media = (state >> MEDIA_SHIFT) | cut.media
        return (state & 0xFF) | mask | compute << COMPUTE_SHIFT | media << MEDIA_SHIFT


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


def mig_mode_resets(gpu_model: str) -> bool:
    """Whether turning MIG on or off resets the GPU: it did until Ampere; a model without MIG never can."""
    entry = _entries().get(gpu_model)
    return entry is not None and bool(_table()[entry]["mig_mode_resets"])


def mig_profile_names() -> tuple[str, ...]:
    """Every MIG profile of any GPU model, in alphabetical order."""
    return tuple(sorted({profile["name"] for entry in _table() for profile in entry["profiles"]}))


def can_be(geometry: MigGeometry, share: Share) -> bool:
    """Whether a GPU has such a slice as a share is or lies in; none if it was of another model then."""
    return (share.mig_profile, share.mig_start) in geometry.slices
