"""The figures of one GPU as a function of its residents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from placement import columns as k
from placement import fragments
from placement.columns import Ints
from placement.lodgings import Lodging
from placement.mix import FULL_AT, Mix
from placement.mix_tables import compile_mix
from placement.model import WHOLE_GPU_MILLI, Gpu, Mode, Share, StateError
from placement.neighbourhood import NeighbourhoodTable
from placement.partition import MigGeometry, can_be, geometry_of, mps_max_clients

UNLIMITED = 1 << 60
"""Stands for an amount that nobody stated: it never constrains and stays unlimited when used."""

MODE_CODE = {Mode.EXCLUSIVE: k.EXCLUSIVE, Mode.MIG: k.MIG, Mode.MPS: k.MPS, Mode.TIMESLICE: k.TIMESLICE}
SEVERAL = -2
"""Value of a GPU's TENANT column when several tenants share it; one tenant is its number, nobody -1."""


_STATES = 1 << 12


def limit(amount: int | None) -> int:
    """An amount, or unlimited where none is stated."""
    return UNLIMITED if amount is None else amount


class Figures:
    """Kinds of GPUs by number, and the columns that a GPU of a kind has with certain residents.

    Attributes:
        kinds: model and memory of each kind; geometries: its MIG geometry, None without MIG.
        mix: the requests that are usual here.
        mix_tables: see :func:`placement.mix_tables.compile_mix`; anew whenever a kind is added.
        placeable: int64 [kinds, states], mask of the MIG profiles that have a start.
        neighbourhoods: numbers of the sets of residents that have been met.
    """

    def __init__(self, mix: Mix, *, usable: bool = True) -> None:
        self.kinds: list[tuple[str, int | None]] = []
        self.geometries: list[MigGeometry | None] = []
        self.neighbourhoods = NeighbourhoodTable()
        self._clients: list[int] = []
        self._numbers: dict[tuple[str, int | None], int] = {}
        self.mix = mix
        self._tables: list[int] = []
        self.mix_tables: Ints = compile_mix(mix, (), ())
        self._keeps_usable = usable
        self._whole: dict[int, tuple[Ints, Ints]] = {}
        self._sweeps = 0
        self.placeable: Ints = np.zeros((0, _STATES), np.int64)

    def learn_kinds(self, gpus: Sequence[Gpu]) -> bool:
        """Number the kinds of these GPUs; gives whether there are new ones."""
        new = {(gpu.model, gpu.memory_bytes): None for gpu in gpus}.keys() - self._numbers.keys()
        for kind in [kind for kind in dict.fromkeys((g.model, g.memory_bytes) for g in gpus) if kind in new]:
            self._numbers[kind] = len(self.kinds)
            self.kinds.append(kind)
            self.geometries.append(geometry_of(kind[0]))
            self._clients.append(mps_max_clients(kind[0]))
        if new:
            self.placeable = np.array([_placeable(geometry) for geometry in self.geometries], np.int64)
            self.use_mix(self.mix)
        return bool(new)

    def use_mix(self, mix: Mix) -> None:
        """Compile another mix of usual requests."""
        self.mix = mix
        self.mix_tables = compile_mix(mix, self.kinds, self.geometries)
        self._tables = self.mix_tables.tolist()
        self._whole.clear()

    def bare(self, gpu: Gpu) -> Ints:
        """The columns of a GPU without residents; not to be changed."""
        return self.whole(self._numbers[gpu.model, gpu.memory_bytes])[0]

    def whole(self, kind: int) -> tuple[Ints, Ints]:
        """The columns of a GPU of a kind that nobody has, and of one that a job has for itself."""
        if self._sweeps != self.neighbourhoods.sweeps:  # the number of no neighbours may be another
            self._sweeps = self.neighbourhoods.sweeps
            self._whole.clear()
        known = self._whole.get(kind)
        if known is None:
            model, memory_bytes = self.kinds[kind]
            bare = np.zeros(k.GPU_COLUMNS, np.int64)
            bare[k.MODEL], bare[k.TENANT] = kind, k.NOBODY
            bare[k.NEIGHBOURHOOD] = self.neighbourhoods.number(model, kind, ())
            taken = bare.copy()
            bare[k.MODE], bare[k.USABLE] = k.EMPTY, self._tables[self._tables[FULL_AT] + kind]
            bare[k.FREE_MILLI], bare[k.FREE_MEMORY] = WHOLE_GPU_MILLI, limit(memory_bytes)
            taken[k.MODE], taken[k.CLIENTS] = k.EXCLUSIVE, 1
            known = self._whole[kind] = bare, taken
        return known

    def shared(self, kind: int, lodgings: Sequence[Lodging]) -> tuple[int, ...]:
        """The columns of a GPU of a kind that is shared by these residents."""
        model, memory_bytes = self.kinds[kind]
        mode = MODE_CODE[lodgings[0].share.gpu_mode]
        tenant, isolated, lasting = lodgings[0].tenant, 0, 0
        for lodging in lodgings:
            holder = lodging.holder
            if lodging.tenant != tenant:
                tenant = SEVERAL
            if holder.isolating:
                isolated = 1
            lasting = max(lasting, holder.lifetime)
        used_milli, used_bytes, *pulls = _summed(lodgings)
        milli = WHOLE_GPU_MILLI - used_milli
        memory = UNLIMITED if memory_bytes is None else memory_bytes - used_bytes
        mig = 0
        if mode == k.MIG:
            mig, milli = self._cut(kind, lodgings)
        place = self.neighbourhoods.number(
            model, kind, [(lodging.token, lodging.known) for lodging in lodgings]
        )
        usable = 0
        if self._keeps_usable and self.mix:
            usable = self._usable(kind, mode, (mig, len(lodgings)), (milli, memory))
        return (
            *(mode, mig, len(lodgings), kind, tenant, isolated, place, milli, memory, usable),
            *pulls,
            lasting or k.UNTOLD,
        )

    def _cut(self, kind: int, lodgings: Sequence[Lodging]) -> tuple[int, int]:
        """Occupancy of a GPU cut into these slices, and the compute that is in none.

        With slices that its model cannot have it is full: it was of another model when they were cut.
        """
        geometry = self.geometries[kind]
        if geometry is None:
            return 0, WHOLE_GPU_MILLI - sum(lodging.share.compute_milli for lodging in lodgings)
        if not all(can_be(geometry, lodging.share) for lodging in lodgings):
            return _STATES - 1, 0
        state, shared = 0, set()
        for lodging in lodgings:
            share = lodging.share
            if share.mode is not Mode.MIG:  # one slice holds all such shares of its worker
                if (lodging.key, share.mig_start) in shared:
                    continue
                shared.add((lodging.key, share.mig_start))
            state = _with_slice(geometry, state, share)
        return state, int(geometry.free_milli[state])

    def _usable(self, kind: int, mode: int, state: tuple[int, int], free: tuple[int, int]) -> int:
        """The usual requests that could still use a shared GPU."""
        mig, clients = state
        if mode == k.MIG:
            return fragments.usable_slices(kind, mig, self._tables)
        plane, more = fragments.TIMESLICE_PLANE, k.MANY
        if mode == k.MPS:
            plane, more = fragments.MPS_PLANE, self._clients[kind] - clients
        return fragments.usable_share(plane, kind, (max(free[0], 0), free[1], more), self._tables)


def _summed(lodgings: Sequence[Lodging]) -> Iterable[int]:
    """What all of them hold and pull, amount by amount."""
    if len(lodgings) == 1:
        return lodgings[0].amounts
    return map(sum, zip(*[each.amounts for each in lodgings], strict=True))


def _placeable(geometry: MigGeometry | None) -> Ints:
    """Mask of the profiles that have a start, by occupancy."""
    masks = np.zeros(_STATES, np.int64)
    if geometry is not None:
        for profile in range(len(geometry.profiles)):
            masks |= np.where(geometry.start[:, profile] >= 0, 1 << profile, 0)
    return masks


def _with_slice(geometry: MigGeometry, state: int, share: Share) -> int:
    profile = geometry.profile_index(share.mig_profile or "")
    after = geometry.add(state, profile, -1 if share.mig_start is None else share.mig_start)
    if after is None:
        raise StateError(f"{share} overlaps another slice")
    return after
