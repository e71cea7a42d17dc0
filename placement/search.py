"""The one search over exclusive GPUs, MIG slices, MPS shares and time slices.

Each demand keeps a row of node scores per mode and follows the cluster's log of touched nodes, so a look
costs what changed since that demand was last looked at, not the size of the cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from placement import kernels as k
from placement import vectorised
from placement.ask import Ask, Demand, compile_asks, judge, least_memory, least_milli, slice_tables
from placement.cluster import Cluster, Holder
from placement.interference import InterferenceModel
from placement.kernels import Ints
from placement.model import Assignment, Isolation, Job, Mode, Profile, Request, Share, StateError
from placement.noise import draw
from placement.policies import ScoreWeights

_SHARING = (Mode.MPS, Mode.TIMESLICE, Mode.MIG)

FEW_NODES = 4
"""Up to so many nodes are scored one by one where there is no compiled kernel."""

MAX_ROW_BYTES = 256 << 20
"""Rows of scores are dropped, oldest first, beyond this."""


class Search:
    """Finds places in a cluster by a placement policy and a belief about interference."""

    def __init__(
        self,
        cluster: Cluster,
        weights: ScoreWeights,
        belief: InterferenceModel,
        *,
        seed: int = 0,
        compiled: bool = True,
    ) -> None:
        self.cluster = cluster
        self.belief = belief
        self._weights = weights
        self._seed = seed
        self._compiled = compiled and k.compiled_rescore is not None
        self._demands: dict[tuple[Request, str | None, str | None], Demand] = {}
        self._recent: dict[tuple[int, int, str | None], Demand] = {}
        self._generation = -1
        self._tables: tuple[Any, Any] = (None, None)
        self._plain_tables: tuple[Any, Any] = (None, None)

    def demand(self, job: Job, profile: Profile | None) -> Demand:
        """The demand of a job's worker; the tenant counts only where somebody isolates."""
        asker = (
            job.tenant if self.cluster.isolated_gpus or job.request.isolation is Isolation.TENANT else None
        )
        # Hashing a request costs more than a look: the very same object is recognised by its identity.
        same = (id(job.request), id(profile), asker)
        demand = self._recent.get(same)
        if demand is not None and demand.request is job.request and demand.profile is profile:
            return demand
        key = (job.request, None if profile is None else profile.name, asker)
        demand = self._demands.get(key)
        if demand is None:
            while len(self._demands) * 16 * (len(self.cluster.members) + 1) > MAX_ROW_BYTES:
                del self._demands[next(iter(self._demands))]
                self._recent.clear()
            demand = self._demands[key] = Demand(job.request, profile, asker)
        if demand.request is job.request:
            self._recent[same] = demand
        return demand

    def forget(self) -> None:
        """Drop everything that was compiled: a profile has changed its meaning."""
        self._demands.clear()
        self._recent.clear()

    def workers_that_fit(self, demand: Demand) -> int:
        """An upper bound of how many workers fit now; exact for one mode and one GPU a worker.

        A GPU that could be shared in several modes is counted for each of them.
        """
        workers = 0
        for ask in self.asks_of(demand):
            workers += self._look(ask, demand).workers
        return workers

    def candidate_nodes(self, demand: Demand) -> int:
        """How many nodes could hold a worker in the mode that would be chosen, as of the last look."""
        for ask in self.asks_of(demand):
            if ask.workers > 0:
                return int(np.count_nonzero(ask.out[1]))
        return 0

    def most_workers(self, demand: Demand, job: Job) -> int:
        """How many workers of a job fit now, at most all of them; found by trying."""
        if job.workers == 1:
            return min(self.workers_that_fit(demand), 1)
        request = job.request
        probe = Holder("", job.tenant, demand.profile, request.max_slowdown, cpu_milli=request.cpu_milli)
        probe = replace(probe, ram_bytes=request.ram_bytes, isolating=request.isolation is Isolation.TENANT)
        asks = self.asks_of(demand)
        most = 0
        for allowed in [asks, *([ask] for ask in asks if len(asks) > 1)]:
            if most < job.workers:
                placed = self._place_workers(probe, demand, job, allowed)
                self._take_back(probe, placed)
                most = max(most, len(placed))
        return most

    def fits_on(self, demand: Demand, row: int) -> bool:
        """Whether a worker fits on that node now."""
        return any(self._look(ask, demand).out[1, row] > 0 for ask in self.asks_of(demand))

    def place(self, holder: Holder, demand: Demand, job: Job) -> tuple[Assignment, ...] | None:
        """Allocate all workers of a job, or nothing and None; worth trying if enough workers fit.

        Each worker takes the first mode that fits it; if a gang does not fit that way, all of one mode may.
        """
        asks = self.asks_of(demand)
        placed = self._place_workers(holder, demand, job, asks)
        if len(placed) < job.workers and job.workers > 1 and len(asks) > 1:
            for ask in asks:
                self._take_back(holder, placed)
                placed = self._place_workers(holder, demand, job, [ask])
                if len(placed) == job.workers:
                    break
        if len(placed) == job.workers:
            return tuple(placed)
        self._take_back(holder, placed)
        return None

    def _take_back(self, holder: Holder, placed: list[Assignment]) -> None:
        for assignment in placed:
            self.cluster.release(holder.job_id, assignment.worker)

    def _place_workers(self, holder: Holder, demand: Demand, job: Job, asks: list[Ask]) -> list[Assignment]:
        """Allocate as many workers as fit, at most all of them."""
        placed: list[Assignment] = []
        while len(placed) < job.workers:
            worker = len(placed)
            ask = next((ask for ask in asks if self._look(ask, demand).workers > 0), None)
            if ask is None:
                break
            placed.append(self._assignment(ask, self._best_row(ask, job, worker), job, worker))
            self.cluster.allocate(holder, placed[-1])
        return placed

    # -- rows of scores ------------------------------------------------------------------------------------

    @property
    def mig_start(self) -> Any:
        """Best start slices, int8 [kinds, states, profiles], -1 where none."""
        return self._tables[0]

    def asks_of(self, demand: Demand) -> list[Ask]:
        """The compiled asks of a demand, the preferred mode first."""
        cluster = self.cluster
        if demand.generation != cluster.generation:
            if self._generation != cluster.generation:
                self._start_over()
            demand.asks = compile_asks(demand, cluster, self._weights)
            demand.generation = cluster.generation
            demand.least_milli, demand.least_memory = least_milli(demand.asks), least_memory(demand.asks)
            demand.only_whole = len(demand.asks) == 1 and demand.asks[0].mode is Mode.EXCLUSIVE
            for ask in demand.asks:
                self._refresh(ask, demand, range(len(cluster.members)))
                ask.seen = len(cluster.touched)
        return demand.asks

    def _start_over(self) -> None:
        self._generation = self.cluster.generation
        self._tables = slice_tables(self.cluster)
        if not self._compiled:
            self._plain_tables = (self._tables[0].tolist(), self._tables[1].tolist())

    def _look(self, ask: Ask, demand: Demand) -> Ask:
        """Bring a row up to date."""
        touched = self.cluster.touched
        behind = len(touched) - ask.seen
        if behind:
            rows: Sequence[int] = touched[ask.seen :]
            if behind > 1:
                rows = (
                    list(set(rows))
                    if behind <= len(self.cluster.members)
                    else range(len(self.cluster.members))
                )
            ask.seen = len(touched)
            self._refresh(ask, demand, rows)
        return ask

    def _refresh(self, ask: Ask, demand: Demand, rows: Any) -> None:
        if len(ask.allowed) < len(self.cluster.neighbourhoods) or ask.mode in _SHARING:
            judge(ask, demand, self.cluster, self.belief, rows)
        gpus, nodes = self.cluster.gpus, self.cluster.nodes
        start, room = self._tables
        if self._compiled and k.compiled_rescore is not None:
            ask.workers += k.compiled_rescore(
                np.asarray(rows, np.int64),
                gpus,
                nodes,
                ask.entries,
                ask.terms,
                ask.allowed,
                start,
                room,
                ask.out,
            )
        elif len(rows) > FEW_NODES:
            tables = (ask.terms, ask.allowed, start, room)
            ask.workers += vectorised.rescore(
                np.asarray(rows, np.int64), (gpus, nodes), ask.entries, tables, ask.out
            )
        else:
            self._refresh_plainly(ask, rows)

    def _refresh_plainly(self, ask: Ask, rows: Any) -> None:
        entries, terms = ask.plain
        tables: Any = (terms, ask.allowed, *self._plain_tables)
        for row in rows:
            offer = k.node_offer(
                self.cluster.gpus[row].tolist(), self.cluster.nodes[row].tolist(), entries, tables
            )
            ask.workers += offer[1] - int(ask.out[1, row])
            ask.out[0, row], ask.out[1, row] = offer

    def _best_row(self, ask: Ask, job: Job, worker: int) -> int:
        if self._weights.noise:
            fitting = np.flatnonzero(ask.out[1] > 0)
            return int(fitting[draw(self._seed, job.sequence, worker, len(fitting))])
        scores: Ints = ask.out[0]
        if self._compiled and k.compiled_lowest is not None:
            return k.compiled_lowest(scores)
        return int(scores.argmin())

    def _assignment(self, ask: Ask, row: int, job: Job, worker: int) -> Assignment:
        node = self.cluster.members[row]
        if ask.mode is None:
            return Assignment(worker, node.node_id, ())
        gpus = self.cluster.gpus[row].tolist()
        entries, terms = ask.plain
        if ask.mode is Mode.EXCLUSIVE:
            slots = [
                j for j, gpu in enumerate(gpus) if gpu[k.MODE] == k.EMPTY and terms[gpu[k.MODEL]][k.MILLI]
            ]
        else:
            tables: Any = (terms, ask.allowed, *self._tables)
            slots = k.pick_slots(gpus, entries, tables)
        wanted = job.request.gpus
        if self._weights.noise:
            first = draw(self._seed ^ 1, job.sequence, worker, len(slots))
            slots = sorted((slots[first:] + slots[:first])[:wanted])
        return Assignment(
            worker, node.node_id, tuple(self._share(ask, gpus[j], node.gpus[j].uuid) for j in slots[:wanted])
        )

    def _share(self, ask: Ask, gpu: list[int], uuid: str) -> Share:
        need = ask.needs[gpu[k.MODEL]]
        if need is None:
            raise StateError(f"GPU {uuid} was chosen for a request that its model cannot serve")
        geometry = self.cluster.geometries[gpu[k.MODEL]]
        if need.mig_profile is None or geometry is None:
            return Share(uuid, need.mode, need.compute_milli, need.memory_bytes)
        start = int(geometry.start[gpu[k.MIG_STATE], need.mig_profile])
        profile = geometry.profiles[need.mig_profile].name
        return Share(uuid, need.mode, need.compute_milli, need.memory_bytes, profile, start)
