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

    ``asker`` is the tenant where it matters (isolation), else None.
    """

    request: Request
    profile: Profile | None
    asker: str | None
    asks: list[Ask] = field(default_factory=list)
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


def extend_allowed(ask: Ask, demand: Demand, cluster: Cluster, belief: InterferenceModel) -> None:
    """Judge the neighbourhoods that came up since this ask was last looked at."""
    table = cluster.neighbourhoods
    known = len(ask.allowed)
    if known == len(table):
        return
    verdicts = np.ones(len(table) - known, np.int8)
    if ask.mode not in (None, Mode.EXCLUSIVE):
        for i, place in enumerate(table.all[known:]):
            need = ask.needs[place.kind] if place.kind < len(ask.needs) else None
            if need is not None:
                newcomer = newcomer_of(demand, need)
                verdicts[i] = broken_promise(belief, newcomer, place) is None
    ask.allowed = np.concatenate([ask.allowed, verdicts])


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
