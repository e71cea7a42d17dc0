"""A request compiled against the cluster: one Ask per sharing mode that would do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from placement import kernels as k
from placement.cluster import MODE_CODE, Cluster
from placement.interference import InterferenceModel, Resident
from placement.kernels import Ints
from placement.model import Isolation, Mode, Profile, Request
from placement.neighbourhood import Neighbour
from placement.partition import MODE_ORDER, Need, needs_of
from placement.policies import ScoreWeights
from placement.promises import broken_promise

SLICE_ROUNDING = 7
"""Seven slices of a GPU, each rounded down to a thousandth, are at most so many thousandths short."""

UNJUDGED = -1
"""Verdict on a neighbourhood that nobody has looked at yet, or where nothing is promised."""


@dataclass(slots=True)
class Ask:
    """One mode of one demand: the arrays that kernels read, and the row of scores that they keep.

    ``out[0]`` is the score and ``out[1]`` the workers that fit, per node; ``workers`` is the latter's sum.
    ``seen`` is how far the cluster's log has been followed.
    """

    mode: Mode | None
    needs: list[Need | None]
    entries: Ints
    terms: Ints
    out: Ints
    seen: int = 0
    workers: int = 0
    allowed: npt.NDArray[np.int8] = field(default_factory=lambda: np.zeros(0, np.int8))
    plain: tuple[list[int], list[list[int]]] = ([], [])


@dataclass(slots=True, eq=False)
class Demand:
    """What one worker asks for and who asks; equal demands are one object, kept by the search.

    ``asker`` is the tenant where it matters (isolation), else None.  ``least_milli`` and
    ``least_memory`` (bytes) are the least per GPU that would do anywhere; ``only_whole`` says that only
    exclusive GPUs would.
    """

    request: Request
    profile: Profile | None
    asker: str | None
    asks: list[Ask] = field(default_factory=list)
    least_milli: int = 0
    least_memory: int = 0
    only_whole: bool = False
    generation: int = -1


def compile_asks(demand: Demand, cluster: Cluster, weights: ScoreWeights) -> list[Ask]:
    """The asks of a demand, the preferred mode first; empty if no GPU model of the cluster can serve it."""
    request = demand.request
    if request.gpus == 0:
        return [_ask(demand, None, [None] * len(cluster.kinds), cluster, weights)]
    by_kind = [
        needs_of(request, demand.profile, model, memory_bytes) for model, memory_bytes in cluster.kinds
    ]
    modes = [mode for mode in MODE_ORDER if any(mode in needs for needs in by_kind)]
    return [_ask(demand, mode, [needs.get(mode) for needs in by_kind], cluster, weights) for mode in modes]


def _ask(
    demand: Demand, mode: Mode | None, needs: list[Need | None], cluster: Cluster, weights: ScoreWeights
) -> Ask:
    request = demand.request
    entries = np.zeros(k.ASK_ENTRIES, np.int64)
    entries[k.KIND] = k.CPU_ONLY if mode is None else MODE_CODE[mode]
    entries[k.GPUS], entries[k.CPU], entries[k.RAM] = request.gpus, request.cpu_milli, request.ram_bytes
    entries[k.ASKER] = k.NOBODY if demand.asker is None else cluster.tenant_number(demand.asker)
    entries[k.ISOLATING] = request.isolation is Isolation.TENANT
    entries[k.GPU_WEIGHT], entries[k.NODE_WEIGHT] = weights.gpu_left, weights.node_left
    terms = np.zeros((max(len(needs), 1), k.TERM_COLUMNS), np.int64)
    for model, need in enumerate(needs):
        if need is not None:
            terms[model] = _terms(need, cluster, model)
    return Ask(
        mode=mode,
        needs=needs,
        entries=entries,
        terms=terms,
        out=np.zeros((2, len(cluster.members)), np.int64),
        plain=(entries.tolist(), terms.tolist()),
    )


def _terms(need: Need, cluster: Cluster, model: int) -> tuple[int, int, int, int, int]:
    geometry = cluster.geometries[model]
    if need.mig_profile is None or geometry is None:
        return need.compute_milli, need.memory_bytes or 0, 0, 0, 0
    cut = geometry.profiles[need.mig_profile]
    return need.compute_milli, 0, need.mig_profile, cut.compute_slices, geometry.compute_slices


def judge(ask: Ask, demand: Demand, cluster: Cluster, belief: InterferenceModel, rows: Any) -> None:
    """Judge the neighbourhoods on these rows that have not been judged for this ask."""
    table = cluster.neighbourhoods
    if len(ask.allowed) < len(table):
        more = np.full(max(2 * len(table), 64) - len(ask.allowed), UNJUDGED, np.int8)
        ask.allowed = np.concatenate([ask.allowed, more])
    trivial = demand.request.max_slowdown is None and not table.promised
    if trivial or ask.mode in (None, Mode.EXCLUSIVE):
        return
    numbers = cluster.gpus[rows, :, k.NEIGHBOURHOOD].ravel()
    unjudged = numbers[ask.allowed[numbers] == UNJUDGED]
    for number in set(unjudged.tolist()) if len(unjudged) else ():
        place = table.all[number]
        need = ask.needs[place.kind] if place.kind < len(ask.needs) else None
        broken = None if need is None else broken_promise(belief, newcomer_of(demand, need), place)
        ask.allowed[number] = broken is None


def least_milli(asks: list[Ask]) -> int:
    """The least compute per GPU that would do on any kind of GPU, in thousandths.

    Slices are rounded down one by one, so that those freed together may seem smaller than they are.
    """
    needs = [need for ask in asks for need in ask.needs if need is not None]
    milli = [need.compute_milli - (SLICE_ROUNDING if need.mode is Mode.MIG else 0) for need in needs]
    return min(milli, default=1000)


def least_memory(asks: list[Ask]) -> int:
    """The least memory per GPU that would do on any kind of GPU, in bytes; slices have their own."""
    needs = [need for ask in asks for need in ask.needs if need is not None]
    own = [0 if need.mode in (Mode.MIG, Mode.EXCLUSIVE) else need.memory_bytes or 0 for need in needs]
    return min(own, default=0)


def newcomer_of(demand: Demand, need: Need) -> Neighbour:
    """The asking job as its future neighbours would see it."""
    return Neighbour(Resident(demand.profile, need.mode, need.compute_milli), demand.request.max_slowdown)


def slice_tables(cluster: Cluster) -> tuple[Any, Any]:
    """MIG tables of all models as two int8 arrays [models, states, profiles]: best start and room."""
    widest = max((len(g.profiles) for g in cluster.geometries if g is not None), default=0)
    if widest == 0:
        empty = np.full((max(len(cluster.kinds), 1), 1, 1), -1, np.int8)
        return empty, np.zeros_like(empty)
    states = next(len(g.start) for g in cluster.geometries if g is not None)
    start = np.full((len(cluster.kinds), states, widest), -1, np.int8)
    room = np.zeros_like(start)
    for model, geometry in enumerate(cluster.geometries):
        if geometry is not None:
            start[model, :, : len(geometry.profiles)] = geometry.start
            room[model, :, : len(geometry.profiles)] = geometry.room
    return start, room
