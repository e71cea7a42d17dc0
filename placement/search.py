"""The one search over exclusive GPUs, MIG slices, MPS shares and time slices.

A request that several live jobs make keeps a row of node scores and follows the cluster's log of touched
nodes, so a look costs what changed since the last one, not the size of the cluster.  A request that only one
job makes is answered by a bounded look: from a node drawn for the job on, the best of the first
``SIGHT`` nodes that could hold it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from placement import columns as k
from placement.ask import Ask, Crowd, Demand, compile_ask, slice_tables
from placement.cluster import Cluster
from placement.columns import Ints
from placement.company import Company
from placement.engine import Engine, choice_of, workers_of
from placement.gangs import Gangs
from placement.interference import InterferenceModel
from placement.kernels import pick_slots
from placement.lodgings import Holder
from placement.model import (
    Assignment,
    Isolation,
    Job,
    Profile,
    Reason,
    Request,
    Share,
    StateError,
)
from placement.noise import draw
from placement.options import Options
from placement.partition import MODE_ORDER
from placement.policies import Measure, Placement
from placement.prices import Prices
from placement.topology import Topology, aligned

SIGHT = 100
"""A bounded look ends after so many nodes that could hold the request."""

MAX_ROW_BYTES = 192 << 20
"""Rows of scores are dropped, oldest first, beyond this."""

MAX_ASKS = 4096
"""Compiled requests are dropped, oldest first, beyond this."""

MAX_CROWDS = 1 << 16
"""Requests that nobody alive makes are forgotten beyond about so many."""

_KEPT_BY_IDENTITY = 4096


@dataclass(slots=True)
class _Spot:
    """A node and what would be taken there."""

    row: int
    rank: int
    slots: list[int]


class Search:
    """Finds places in a cluster by a placement policy and a belief about interference."""

    def __init__(
        self, cluster: Cluster, placement: Placement, belief: InterferenceModel, options: Options
    ) -> None:
        self.cluster = cluster
        self.belief = belief
        self.placement = placement
        self.prices = Prices(cluster)
        self._options = options
        self._weighs_worth = placement.weighs is Measure.FORGONE
        self._scores = type(placement).score, type(placement).within
        self._engine = Engine(self._scores, compiled=options.compiled)
        self._company = Company(cluster, placement, belief)
        self._gangs = Gangs(Topology(cluster), self._workers_by_row, gathers=placement.gathers)
        self._crowds: dict[tuple[Request, str | None], Crowd] = {}
        self._demands: dict[tuple[Request, str | None, str | None], Demand] = {}
        self._asks: dict[tuple[Request, str | None], Ask] = {}
        self._recent: dict[tuple[int, int, str | None], Demand] = {}
        self._generation = -1
        self._tables: Any = None
        self._plain_tables: Any = None
        self._scratch: Any = None
        self._sight: Any = tuple(np.zeros(SIGHT, kind) for kind in (np.int64, np.int64, np.int32))
        self._row_count = 0
        self._most_crowds = MAX_CROWDS

    # -- demands -------------------------------------------------------------------------------------------

    def demand(self, job: Job, profile: Profile | None) -> Demand:
        """The demand of a job's worker; the tenant counts only where somebody isolates."""
        request = self.placement.asks(job)
        asker = job.tenant if self.cluster.isolated_gpus or request.isolation is Isolation.TENANT else None
        # Hashing a request costs more than a look: the very same object is recognised by its identity.
        same = (id(request), id(profile), asker)
        demand = self._recent.get(same)
        if demand is not None and demand.request is request and demand.profile is profile:
            return demand
        name = _name(profile)
        demand = self._demands.get((request, name, asker))
        if demand is None:
            while len(self._demands) >= MAX_ASKS:
                del self._demands[next(iter(self._demands))]
            crowd = self._crowds.setdefault((request, name), Crowd())
            demand = Demand(request, profile, asker, crowd)
            self._demands[request, name, asker] = demand
        if demand.request is request:
            if len(self._recent) >= _KEPT_BY_IDENTITY:
                self._recent.clear()
            self._recent[same] = demand
        return demand

    def entered(self, job: Job, profile: Profile | None) -> None:
        """A job is alive from now on: requests that several live jobs make are worth a row of scores."""
        self._crowds.setdefault((self.placement.asks(job), _name(profile)), Crowd()).size += 1
        if len(self._crowds) > self._most_crowds:
            # Those that nobody asks for any more go, and with them all that may still refer to them.
            self._crowds = {key: crowd for key, crowd in self._crowds.items() if crowd.size}
            self._most_crowds = 2 * len(self._crowds) + MAX_CROWDS
            self.forget()

    def left(self, job: Job, profile: Profile | None) -> None:
        """A job has ended."""
        crowd = self._crowds.get((self.placement.asks(job), _name(profile)))
        if crowd is not None:
            crowd.size -= 1

    def tidy(self) -> None:
        """Put in order what grows; between steps, so that a restart changes nothing."""
        self.cluster.tidy()

    def forget(self) -> None:
        """Drop everything that was compiled: a profile has changed its meaning."""
        self._demands.clear()
        self._recent.clear()
        self._asks.clear()
        self._row_count = 0

    def ask_of(self, demand: Demand) -> Ask:
        """The compiled request of a demand."""
        ask = demand.ask
        if ask is not None and ask.generation == self.cluster.generation:
            return ask
        if self._generation != self.cluster.generation:
            self._start_over()
        key = (demand.request, _name(demand.profile))
        ask = self._asks.get(key)
        if ask is None:
            while len(self._asks) >= MAX_ASKS:
                self._drop_oldest_ask()
            ask = compile_ask(demand.request, demand.profile, self.cluster, self.placement, self.belief)
            self._asks[key] = ask
        demand.ask = ask
        return ask

    def _start_over(self) -> None:
        """The cluster's rows or kinds are others: everything compiled is void."""
        cluster = self.cluster
        self._generation = cluster.generation
        self._asks.clear()
        self._row_count = 0
        self._tables = (*slice_tables(cluster), cluster.mix_tables)
        if self._weighs_worth:
            self.prices.rebuild()
        self._copy_tables()
        count = len(cluster.members)
        self._scratch = np.zeros(count, np.int64), np.zeros(count, np.int32)

    def _copy_tables(self) -> None:
        if not self._engine.compiled:
            self._plain_tables = tuple(table.tolist() for table in self._tables)

    def review_prices(self) -> None:
        """See what is scarce now; to be done now and then, between decisions."""
        if self._weighs_worth and self._generation == self.cluster.generation and self.prices.review():
            self._copy_tables()

    def _drop_oldest_ask(self) -> None:
        ask = self._asks.pop(next(iter(self._asks)))
        self._row_count -= ask.seen >= 0
        ask.generation = -1

    # -- rows of scores ------------------------------------------------------------------------------------

    def _tables_of(self, ask: Ask, rows: int = 1 << 30) -> Any:
        """The tables for a look at so many rows, as the engine likes them."""
        if self._engine.looks_plainly(rows):
            return self._plain_tables_of(ask)
        return ask.terms, ask.refused, *self._tables

    def _plain_tables_of(self, ask: Ask) -> Any:
        tables = self._tables if self._engine.compiled else self._plain_tables
        return ask.plain[1], ask.refused, *tables

    def _look(self, ask: Ask) -> Ask:
        """Bring a row up to date, or begin it."""
        count, changes = len(self.cluster.members), self.cluster.changes
        if ask.seen < 0:
            while self._row_count * 12 * (count + 1) > MAX_ROW_BYTES:
                self._drop_oldest_ask()
            self._row_count += 1
            ask.scores, ask.infos, ask.workers = np.zeros(count, np.int64), np.zeros(count, np.int32), 0
            self._rescore(ask, range(count))
        elif changes > ask.seen:
            rows = self.cluster.changed_since(ask.seen)
            if rows is None or len(rows) > count:
                self._rescore(ask, range(count))
            else:
                self._rescore(ask, rows if len(rows) == 1 else list(set(rows)))
        ask.seen = changes
        return ask

    def _rescore(self, ask: Ask, rows: Any) -> None:
        tables = self._tables_of(ask, len(rows))
        state = self.cluster.gpus, self.cluster.nodes
        ask.workers += self._engine.rescore(rows, state, ask.entries, tables, (ask.scores, ask.infos))

    def _aside(self, ask: Ask, asker: str | None, rows: Sequence[int]) -> list[tuple[int, int, int]]:
        """Score, row and info of some nodes for one who asks, without touching the rows of scores."""
        if not rows:
            return []
        ask.entries[k.ASKER] = ask.plain[0][k.ASKER] = self.number_of(asker)
        tables = self._tables_of(ask, len(rows))
        state = self.cluster.gpus, self.cluster.nodes
        self._engine.rescore(rows, state, ask.entries, tables, self._scratch)
        ask.entries[k.ASKER] = ask.plain[0][k.ASKER] = k.STRANGER
        scores, infos = self._scratch
        return [(scores.item(row), row, infos.item(row)) for row in rows]

    def number_of(self, asker: str | None) -> int:
        """The number of a tenant who asks, or of nobody's."""
        return k.STRANGER if asker is None else self.cluster.tenant_number(asker)

    def _own_rows(self, demand: Demand) -> list[int]:
        """Nodes where a tenant may take what strangers may not."""
        if demand.asker is None:
            return []
        rows = self.cluster.own_rows(demand.asker, alone=demand.request.isolation is Isolation.TENANT)
        return rows if demand.rows is None else sorted(set(rows) & set(demand.rows.tolist()))

    @property
    def mig_start(self) -> Any:
        """Best start slices, int8 [kinds, states, profiles], -1 where none."""
        return self._tables[0]

    def objection(self, ask: Ask, rank: int, number: int) -> Reason | None:
        """Why a request may not join a neighbourhood in a mode, None if it may."""
        if rank == k.EXCLUSIVE_RANK or not self._company.matters(ask):
            return None
        return self._company.objection(ask, rank, number)

    # -- how many fit --------------------------------------------------------------------------------------

    def workers_that_fit(self, demand: Demand) -> int:
        """An upper bound of how many workers fit now; exact for one GPU a worker, promises aside."""
        ask = self._look(self.ask_of(demand))
        workers = ask.workers
        for _score, row, info in self._aside(ask, demand.asker, self._own_rows(demand)):
            workers += workers_of(info) - workers_of(ask.infos.item(row))
        return workers

    def _workers_by_row(self, demand: Demand) -> Ints:
        """An upper bound of how many workers fit on each node, int64 [nodes]."""
        ask = self._look(self.ask_of(demand))
        workers: Ints = ask.infos.astype(np.int64) >> 8
        for _score, row, info in self._aside(ask, demand.asker, self._own_rows(demand)):
            workers[row] = workers_of(info)
        return workers

    def promising(self, demand: Demand, job: Job) -> bool:
        """Whether it is worth trying to place a job."""
        return self.bounded(demand) or self.workers_that_fit(demand) >= job.workers

    def bounded(self, demand: Demand) -> bool:
        """Whether a demand is answered by a bounded look: nobody else who is alive asks for the same."""
        return not self._options.exact and demand.crowd.size < 2

    def candidate_nodes(self, demand: Demand) -> int:
        """How many nodes could hold a worker, as far as has been looked."""
        ask = self.ask_of(demand)
        return int(np.count_nonzero(ask.infos > 255)) if ask.seen >= 0 else 0

    def most_workers(self, demand: Demand, job: Job) -> int:
        """How many workers of a job fit now, at most all of them; found by trying."""
        if job.workers == 1 and not self._company.matters(self.ask_of(demand)):
            return min(self.workers_that_fit(demand), 1)
        request = job.request
        probe = Holder("", job.tenant, demand.profile, request.max_slowdown, cpu_milli=request.cpu_milli)
        probe = replace(probe, ram_bytes=request.ram_bytes, isolating=request.isolation is Isolation.TENANT)
        most = 0
        for attempt in self._attempts(demand, job, or_most=True):
            if most < job.workers:
                placed = self._place_workers(probe, attempt, job)
                self._take_back(probe, placed)
                most = max(most, len(placed))
        return most

    def fits_on(self, demand: Demand, row: int) -> bool:
        """Whether a worker fits on that node now."""
        ask = self.ask_of(demand)
        while True:
            score, _row, info = self._aside(ask, demand.asker, [row])[0]
            if score == k.BAD:
                return False
            if self._welcome(ask, self._spot(ask, demand, row, info)):
                return True

    # -- placing -------------------------------------------------------------------------------------------

    def place(self, holder: Holder, demand: Demand, job: Job) -> tuple[Assignment, ...] | None:
        """Allocate all workers of a job, or nothing and None.

        A gang that shall be together is tried in each domain with room for it, see :mod:`placement.gangs`.
        If it does not fit where each worker takes its best place, all of one mode may.
        """
        for attempt in self._attempts(demand, job):
            placed = self._place_workers(holder, attempt, job)
            if len(placed) == job.workers:
                return tuple(placed)
            self._take_back(holder, placed)
        return None

    def _attempts(self, demand: Demand, job: Job, *, or_most: bool = False) -> Iterator[Demand]:
        """The demand in each scope, and for a gang that may use several modes the same in one mode each."""
        if job.workers == 1:
            yield demand
            return
        for scope in self._gangs.scopes(demand, job.workers, or_most=or_most):
            yield scope
            ranks = self.ask_of(scope).ranks
            if len(ranks) > 1 and job.request.gpus:
                for rank in ranks:
                    modes = frozenset({MODE_ORDER[rank]})
                    yield replace(scope, request=replace(scope.request, modes=modes), ask=None)

    def _take_back(self, holder: Holder, placed: list[Assignment]) -> None:
        for assignment in placed:
            self.cluster.release(holder.job_id, assignment.worker)

    def _place_workers(self, holder: Holder, demand: Demand, job: Job) -> list[Assignment]:
        """Allocate as many workers as fit, at most all of them."""
        placed: list[Assignment] = []
        ask = self.ask_of(demand)
        find = self._in_sight if demand.rows is None and self.bounded(demand) else self._best
        while len(placed) < job.workers:
            spot = find(ask, demand, job, len(placed))
            if spot is None:
                break
            placed.append(self._assignment(ask, spot, len(placed)))
            self.cluster.allocate(holder, placed[-1])
        return placed

    def _best(self, ask: Ask, demand: Demand, job: Job, worker: int) -> _Spot | None:
        """The best of all nodes."""
        self._look(ask)
        own = self._own_rows(demand)
        while True:
            row = self._best_row(ask, demand.rows, job, worker)
            best = ask.scores.item(row) if row >= 0 else k.BAD, row, 0
            # A row may be older than what it refuses; of equals, what is seen aside knows more of one's own.
            best = min([*self._aside(ask, demand.asker, own), best], key=lambda place: place[:2])
            if best[0] == k.BAD:
                return None
            spot = self._spot(ask, demand, best[1], best[2] or ask.infos.item(row), (job, worker))
            if self._welcome(ask, spot):
                return spot
            self._rescore(ask, [spot.row])

    def _best_row(self, ask: Ask, rows: Ints | None, job: Job, worker: int) -> int:
        scores = ask.scores if rows is None else ask.scores[rows]
        if not len(scores):
            return -1
        if self.placement.noise:
            fitting = np.flatnonzero(scores == scores.min())
            best = int(fitting[draw(self._options.seed, job.sequence, worker, len(fitting))])
        else:
            best = self._engine.lowest(scores)
        return best if rows is None else int(rows[best])

    def _in_sight(self, ask: Ask, demand: Demand, job: Job, worker: int) -> _Spot | None:
        """The best of the first nodes that could hold it, from one drawn for the job on; then of the next."""
        count, done = len(self.cluster.members), 0
        if not count:
            return None
        state = self.cluster.gpus, self.cluster.nodes
        begin = draw(self._options.seed, job.sequence, worker, count)
        own = self._own_rows(demand)
        while done < count:
            # What has been refused in the past must not decide what is in sight.
            terms, _refused, *tables = self._tables_of(ask)
            query = state, ask.entries, (terms, np.zeros((k.RANKS, 0), np.int8), *tables)
            found, done = self._engine.sight(begin, done, query, self._sight)
            rows, scores, infos = (column[:found].tolist() for column in self._sight)
            near = [place for place in zip(scores, rows, infos, strict=True) if place[1] not in own]
            near += self._aside(ask, demand.asker, own)
            spot = self._best_of(near, ask, demand, (job, worker))
            if spot is not None:
                return spot
        return None

    def _best_of(
        self, near: list[tuple[int, int, int]], ask: Ask, demand: Demand, who: tuple[Job, int]
    ) -> _Spot | None:
        """The best of these places that is welcome."""
        while near:
            best = min(near)
            if self.placement.noise:
                equal = sorted(place for place in near if place[0] == best[0])
                best = equal[draw(self._options.seed, who[0].sequence, who[1], len(equal))]
            if best[0] == k.BAD:
                return None
            spot = self._spot(ask, demand, best[1], best[2], who)
            if self._welcome(ask, spot):
                return spot
            near = [place for place in near if place[1] != best[1]]
            near += self._aside(ask, demand.asker, [best[1]])
        return None

    def _welcome(self, ask: Ask, spot: _Spot) -> bool:
        """Whether all promises hold there; a neighbourhood that refuses is remembered."""
        if spot.rank == k.EXCLUSIVE_RANK or not self._company.matters(ask):
            return True
        if len(spot.slots) < ask.request.gpus_apart:  # scored before what is refused elsewhere was known
            return False
        numbers = [self.cluster.gpus.item(spot.row, slot, k.NEIGHBOURHOOD) for slot in spot.slots]
        return self._company.welcomes(ask, spot.rank, numbers)

    def _spot(
        self, ask: Ask, demand: Demand, row: int, info: int, who: tuple[Job, int] | None = None
    ) -> _Spot:
        """Which slots of a node would be taken."""
        rank, slot = choice_of(info)
        wanted = ask.request.gpus_apart
        if wanted == 0:
            return _Spot(row, k.EXCLUSIVE_RANK, [])
        noisy = self.placement.noise and who is not None
        if wanted == 1 and not noisy and not (rank == k.EXCLUSIVE_RANK and self.placement.aligned):
            return _Spot(row, rank, [slot])
        entries = [*ask.plain[0]]
        entries[k.ASKER] = self.number_of(demand.asker)
        gpus, node = self.cluster.gpus[row].tolist(), self.cluster.nodes[row].tolist()
        slots = pick_slots(gpus, node, entries, rank, (self._plain_tables_of(ask), self._scores))
        if noisy and who is not None and slots:
            first = draw(self._options.seed ^ 1, who[0].sequence, who[1], len(slots))
            slots = sorted((slots[first:] + slots[:first])[:wanted])
        elif rank == k.EXCLUSIVE_RANK and self.placement.aligned:
            slots = aligned(slots, wanted)
        return _Spot(row, rank, slots[:wanted])

    def _assignment(self, ask: Ask, spot: _Spot, worker: int) -> Assignment:
        node = self.cluster.members[spot.row]
        gpus = self.cluster.gpus
        shares = (
            self._shares(ask, spot.rank, gpus[spot.row, slot].tolist(), node.gpus[slot].uuid)
            for slot in spot.slots
        )
        return Assignment(worker, node.node_id, tuple(chain.from_iterable(shares)))

    def _shares(self, ask: Ask, rank: int, gpu: list[int], uuid: str) -> tuple[Share, ...]:
        """What one worker takes of one GPU."""
        need = ask.needs[rank][gpu[k.MODEL]]
        if need is None:
            raise StateError(f"GPU {uuid} was chosen for a request that its model cannot serve")
        copies = ask.request.shares_per_gpu
        geometry = self.cluster.geometries[gpu[k.MODEL]]
        if need.mig_profile is None or geometry is None:
            return (Share(uuid, need.mode, need.compute_milli, need.memory_bytes),) * copies
        profile = geometry.profiles[need.mig_profile].name
        starts = geometry.starts_of(gpu[k.MIG_STATE], need.mig_profile, copies)
        return tuple(
            Share(uuid, need.mode, need.compute_milli, need.memory_bytes, profile, start) for start in starts
        )


def _name(profile: Profile | None) -> str | None:
    return None if profile is None else profile.name
