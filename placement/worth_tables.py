"""The slow part of :mod:`placement.worth`: tables that change only with the mix of usual requests."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from placement import mix as m
from placement.columns import BIT_LIMIT, Ints
from placement.mix import Kinds, Mix, UsualRequest
from placement.model import WHOLE_GPU_MILLI, Mode
from placement.packing_duals import residual_worth
from placement.partition import MigGeometry, Need, needs_of

CPU_RATIOS = (800, 900, 1000, 1400)
RAM_RATIO = 1000
"""Thousandths of the mean CPU and RAM that usual requests take per GPU."""

_NO_STATES = np.zeros(1 << 12, np.int64)


def worth_tables(mix: Mix, kinds: Kinds, geometries: Sequence[MigGeometry | None]) -> dict[int, Ints]:
    """The tables by their place in the header; prices begin at 0."""
    needs = [[needs_of(u.request, u.profile, *kind) for kind in kinds] for u in mix]
    big = [(u, by_kind) for u, by_kind in zip(mix, needs, strict=True) if is_big(u)]
    shares = residual_worth(_demand(mix, needs))
    return {
        m.WORTH_AT: np.tile(shares, (len(kinds), 1)),
        m.SLICES_AT: np.array(
            [_slices_worth(g, _bundles(mix, needs, kind)) for kind, g in enumerate(geometries)], np.int64
        ).reshape(-1),
        m.TOTALS_AT: np.array([memory or 0 for _model, memory in kinds], np.int64),
        m.RATIOS_AT: _ratios(mix),
        m.BIG_AT: np.array([_big_row(u, by_kind) for u, by_kind in big], np.int64).reshape(-1, 4),
        m.BIG_PRICES_AT: np.zeros(len(big), np.int64),
        m.KIND_PRICES_AT: np.zeros(len(kinds), np.int64),
    }


def is_big(usual: UsualRequest) -> bool:
    """Whether a request is for several whole GPUs."""
    return usual.request.gpus_apart > 1


def _demand(mix: Mix, needs: list[list[dict[Mode, Need]]]) -> Counter[int]:
    """How often a GPU's part of each size is asked for; slices are counted elsewhere."""
    demand: Counter[int] = Counter()
    for usual, by_kind in zip(mix, needs, strict=True):
        sizes = [
            need.compute_milli
            for found in by_kind
            for mode, need in found.items()
            if mode is not Mode.MIG and (mode is not Mode.EXCLUSIVE or len(found) == 1)
        ]
        if sizes:
            request = usual.request
            demand[min(sizes) * request.shares_per_gpu] += usual.weight * request.gpus_apart
    return demand


def milli_of(usual: UsualRequest, kinds: Kinds) -> int:
    """Compute that a usual request takes where it takes least, thousandths of a GPU; 0 without GPUs."""
    found = [needs_of(usual.request, usual.profile, *kind) for kind in kinds]
    least = min((need.compute_milli for needs in found for need in needs.values()), default=0)
    return usual.request.gpus * least


def _ratios(mix: Mix) -> Ints:
    """CPU (thousandths) at each ratio, and RAM (MiB), that go with 1000 thousandths of a GPU; 0: none."""
    with_gpus = [usual for usual in mix if usual.request.gpus]
    total = sum(u.weight * u.request.gpus * (u.request.compute_milli or WHOLE_GPU_MILLI) for u in with_gpus)
    if not total:
        return np.zeros(len(CPU_RATIOS) + 1, np.int64)
    cpu = sum(u.weight * u.request.cpu_milli for u in with_gpus)
    ram = sum(u.weight * (u.request.ram_bytes >> 20) for u in with_gpus)
    return np.array([*(ratio * cpu // total for ratio in CPU_RATIOS), RAM_RATIO * ram // total], np.int64)


def _big_row(usual: UsualRequest, by_kind: list[dict[Mode, Need]]) -> tuple[int, int, int, int]:
    request = usual.request
    mask = 0
    for kind, needs in enumerate(by_kind):
        mask |= 1 << min(kind, BIT_LIMIT) if needs else 0
    return request.cpu_milli, request.ram_bytes >> 20, request.gpus, mask


Bundle = tuple[int, int]
"""A MIG profile, and how many such slices of one GPU are taken at once."""


def _bundles(mix: Mix, needs: Iterable[list[dict[Mode, Need]]], kind: int) -> frozenset[Bundle]:
    """The slices that usual requests would take of a GPU of a kind."""
    found = ((u.request, by_kind[kind].get(Mode.MIG)) for u, by_kind in zip(mix, needs, strict=True))
    return frozenset(
        (need.mig_profile, request.shares_per_gpu)
        for request, need in found
        if need is not None and need.mig_profile is not None
    )


def _slices_worth(geometry: MigGeometry | None, usual: frozenset[Bundle]) -> Ints:
    """What the free part of a GPU cut into slices is worth, by occupancy, thousandths of a GPU."""
    if geometry is None:
        return _NO_STATES
    plain = frozenset((i, 1) for i, profile in enumerate(geometry.profiles) if not profile.media)
    return _best_fill(geometry, usual or plain)


@functools.lru_cache(maxsize=64)
def _best_fill(geometry: MigGeometry, usual: frozenset[Bundle]) -> Ints:
    """The best fill of what is free with these slices, each worth the scarcer of its two parts."""
    filled: dict[int, int] = {}

    def best(state: int) -> int:
        if state not in filled:
            filled[state] = max(
                (
                    copies * _slice_worth(geometry, profile) + best(after)
                    for profile, copies in usual
                    for after in _with_slices(geometry, state, profile, copies)
                ),
                default=0,
            )
        return filled[state]

    table = np.array([best(state) for state in range(1 << 12)], np.int64)
    return table * WHOLE_GPU_MILLI // max(int(table[0]), 1)


def _slice_worth(geometry: MigGeometry, profile: int) -> int:
    cut, total = geometry.profiles[profile], geometry.compute_slices * geometry.memory_slices
    parts = cut.compute_slices * geometry.memory_slices, cut.memory_slices * geometry.compute_slices
    return WHOLE_GPU_MILLI * max(parts) // total


def _with_slices(geometry: MigGeometry, state: int, profile: int, copies: int) -> set[int]:
    """Every occupancy with so many more slices of a profile."""
    reached = {state}
    for _ in range(copies):
        starts = geometry.profiles[profile].starts
        added = (geometry.add(before, profile, start) for before in reached for start in starts)
        reached = {after for after in added if after is not None}
    return reached
