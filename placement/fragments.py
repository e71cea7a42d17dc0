"""How much of the free compute the usual requests could not use: the fragmentation measure of FGD.

FGD (ATC'23, section 4.2): on a node, a usual request of popularity p strands all free compute if the node
cannot run it, else the free compute of those GPUs that are too full for it.  Here a request counts in the
true geometry: as a share (compute, memory, clients), a MIG slice (a legal start is free) or whole GPUs.  Each
usual request is one bit; a GPU's bits say which could use it, a node's which it could run, and what is
stranded is free compute times the popularity of the bits that are missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from placement.columns import Ints
from placement.jit import register_jitable
from placement.mix import (
    CLIENTS_AT,
    CLIENTS_N,
    CPU_AT,
    CPU_N,
    EMPTIES_AT,
    FULL_AT,
    KINDS,
    MEMORY_AT,
    MEMORY_N,
    MIG_AT,
    MOST_USUAL,
    POPULAR_AT,
    RAM_AT,
    RAM_N,
    SHARE_AT,
    WHOLE,
    Kinds,
    Mix,
    UsualRequest,
)
from placement.model import WHOLE_GPU_MILLI, Mode, Request
from placement.partition import MigGeometry, Need, needs_of

_BYTE_VALUES, _BYTES = 256, 8
_SHARE_STEPS = WHOLE_GPU_MILLI + 1
_MIG_STATES = 1 << 12
_MOST_EMPTIES = 64

MPS_PLANE, TIMESLICE_PLANE = 0, 1


def fragment_tables(mix: Mix, kinds: Kinds, geometries: Sequence[MigGeometry | None]) -> dict[int, Ints]:
    """The tables of a mix on these GPU kinds, by their place in the header.

    Requests that differ in the GPU models alone share a bit, whose popularity then depends on the kind.
    """
    groups = _grouped(mix)
    needs = [[_need_of_any(group, *kind) for kind in kinds] for group in groups]
    tables = _Tables([group[0].request for group in groups], needs, geometries)
    return {
        CPU_AT: tables.steps([group[0].request.cpu_milli for group in groups]),
        RAM_AT: tables.steps([group[0].request.ram_bytes for group in groups]),
        MEMORY_AT: tables.steps(
            [
                _memory(by_kind) * group[0].request.shares_per_gpu
                for group, by_kind in zip(groups, needs, strict=True)
            ]
        ),
        CLIENTS_AT: tables.steps([group[0].request.shares_per_gpu for group in groups]),
        EMPTIES_AT: tables.by_empties(),
        SHARE_AT: np.stack([tables.by_share(Mode.MPS), tables.by_share(Mode.TIMESLICE)]),
        MIG_AT: tables.by_state(),
        FULL_AT: tables.full(),
        POPULAR_AT: _popularity_tables(groups, kinds),
    }


def _grouped(mix: Mix) -> list[list[UsualRequest]]:
    groups: dict[tuple[Request, str | None], list[UsualRequest]] = {}
    for usual in mix:
        name = None if usual.profile is None else usual.profile.name
        groups.setdefault((replace(usual.request, gpu_models=()), name), []).append(usual)
    by_weight = sorted(groups.values(), key=lambda group: -sum(usual.weight for usual in group))
    return by_weight[:MOST_USUAL]


def _need_of_any(group: list[UsualRequest], model: str, memory_bytes: int | None) -> dict[Mode, Need]:
    """What a group needs on a kind of GPU, empty if nobody of it may use it, or wants any GPU."""
    for usual in group if group[0].request.gpus else ():
        needs = needs_of(usual.request, usual.profile, model, memory_bytes)
        if needs:
            return needs
    return {}


def _popularity_tables(groups: list[list[UsualRequest]], kinds: Kinds) -> Ints:
    """Popularity on each kind of each value of each byte of a mask, int64 [kinds, 8, 256]."""
    total = sum(usual.weight for group in groups for usual in group)
    shares = [[usual.weight * WHOLE // total for usual in group] for group in groups]
    if groups:
        shares[0][0] += WHOLE - sum(map(sum, shares))
    table = np.zeros((len(kinds), _BYTES, _BYTE_VALUES), np.int64)
    for bit, group in enumerate(groups):
        byte, inside = divmod(bit, 8)
        has_bit = (np.arange(_BYTE_VALUES) >> inside) & 1 == 1
        for usual, share in zip(group, shares[bit], strict=True):
            for kind, (model, memory_bytes) in enumerate(kinds):
                if needs_of(usual.request, usual.profile, model, memory_bytes):
                    table[kind, byte, has_bit] += share
    return table


def _memory(by_kind: list[dict[Mode, Need]]) -> int:
    """Memory that a share needs, bytes; the same on every kind, 0 where none is accounted."""
    amounts = [
        need.memory_bytes or 0
        for needs in by_kind
        for mode, need in needs.items()
        if mode in (Mode.MPS, Mode.TIMESLICE)
    ]
    return max(amounts, default=0)


class _Tables:
    """Masks of the usual requests by what a node or a GPU has."""

    def __init__(
        self,
        requests: list[Request],
        needs: list[list[dict[Mode, Need]]],
        geometries: Sequence[MigGeometry | None],
    ) -> None:
        self._requests = requests
        self._needs = needs
        self._geometries = geometries

    def steps(self, wanted: list[int]) -> Ints:
        """Ascending amounts, and the mask of requests that do with each, [2, steps]."""
        amounts = sorted({0, *wanted})
        masks = [_mask(amount <= step for amount in wanted) for step in amounts]
        return np.array([amounts, masks], np.int64)

    def by_empties(self) -> Ints:
        """By empty GPUs on the node: requests for several GPUs, or whole ones, need as many."""
        return np.array(
            [
                _mask(self._empties(bit) <= empties for bit in range(len(self._requests)))
                for empties in range(_MOST_EMPTIES + 1)
            ],
            np.int64,
        )

    def _empties(self, bit: int) -> int:
        modes = {mode for needs in self._needs[bit] for mode in needs}
        gpus = self._requests[bit].gpus
        return gpus if modes <= {Mode.EXCLUSIVE} else 0

    def by_share(self, mode: Mode) -> Ints:
        """By compute left on a GPU shared in this mode, [kinds, 1001]."""
        planes = np.zeros((len(self._geometries), _SHARE_STEPS), np.int64)
        for bit, by_kind in enumerate(self._needs):
            for kind, needs in enumerate(by_kind):
                if mode in needs:
                    wanted = needs[mode].compute_milli * self._requests[bit].shares_per_gpu
                    planes[kind, wanted:] |= 1 << bit
        return planes

    def by_state(self) -> Ints:
        """By occupancy of a GPU cut into slices, [kinds, 4096]."""
        planes = np.zeros((len(self._geometries), _MIG_STATES), np.int64)
        for bit, by_kind in enumerate(self._needs):
            for kind, needs in enumerate(by_kind):
                geometry, need = self._geometries[kind], needs.get(Mode.MIG)
                if geometry is not None and need is not None and need.mig_profile is not None:
                    fits = geometry.room[:, need.mig_profile] >= self._requests[bit].shares_per_gpu
                    planes[kind] |= np.where(fits, 1 << bit, 0)
        return planes

    def full(self) -> Ints:
        """What an empty GPU of each kind could serve."""
        return np.array(
            [
                _mask(
                    bool(by_kind[kind]) and request.gpus > 0
                    for request, by_kind in zip(self._requests, self._needs, strict=True)
                )
                for kind in range(len(self._geometries))
            ],
            np.int64,
        )


def _mask(bits: Iterable[bool]) -> int:
    return sum(1 << i for i, bit in enumerate(bits) if bit)


@register_jitable
def at_step(amount: int, count: int, at: int, tables: Sequence[int]) -> int:
    """The mask that belongs to the largest step that an amount has reached; 0 below all."""
    low = 0
    high = count
    while low < high:
        middle = (low + high) // 2
        if tables[at + middle] <= amount:
            low = middle + 1
        else:
            high = middle
    return tables[at + count + low - 1] if low > 0 else 0


@register_jitable
def runnable(cpu_milli: int, ram_bytes: int, tables: Sequence[int]) -> int:
    """The requests for which a node has CPU and RAM."""
    cpu = at_step(cpu_milli, tables[CPU_N], tables[CPU_AT], tables)
    return cpu & at_step(ram_bytes, tables[RAM_N], tables[RAM_AT], tables)


@register_jitable
def by_empties(empties: int, tables: Sequence[int]) -> int:
    """The requests that so many empty GPUs on a node do not rule out."""
    return tables[tables[EMPTIES_AT] + min(empties, 64)]


@register_jitable
def usable_share(plane: int, kind: int, left: tuple[int, int, int], tables: Sequence[int]) -> int:
    """The requests that could share a GPU with so much left: thousandths, bytes and clients."""
    milli, memory_bytes, clients = left
    mask = tables[tables[SHARE_AT] + (plane * tables[KINDS] + kind) * 1001 + milli]
    mask &= at_step(memory_bytes, tables[MEMORY_N], tables[MEMORY_AT], tables)
    return mask & at_step(clients, tables[CLIENTS_N], tables[CLIENTS_AT], tables)


@register_jitable
def usable_slices(kind: int, state: int, tables: Sequence[int]) -> int:
    """The requests that find a slice on a GPU of this occupancy."""
    return tables[tables[MIG_AT] + kind * 4096 + state]


@register_jitable
def popularity(mask: int, kind: int, tables: Sequence[int]) -> int:
    """Popularity of the requests of a mask on a kind of GPU, of :data:`WHOLE`."""
    total = 0
    at = tables[POPULAR_AT] + kind * 2048
    while mask > 0:
        total += tables[at + (mask & 255)]
        at += 256
        mask >>= 8
    return total
