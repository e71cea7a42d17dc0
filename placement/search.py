"""The one search over exclusive GPUs, MIG slices, MPS shares and time slices.

A request that live jobs make often keeps a row of node scores and follows the cluster's log of changed nodes,
so a look costs what changed since the last one, not the size of the cluster.  A request that hardly anybody
else makes is answered by a bounded look, see :mod:`placement.sight`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from placement import columns as k
from placement.ask import NO_SCORES, Ask, Demand
from placement.cluster import Cluster
from placement.columns import Ints
from placement.company import Company
from placement.demands import Demands
from placement.engine import choice_of, workers_of
from placement.gangs import Gangs
from placement.interference import InterferenceModel
from placement.lodgings import Holder
from placement.model import Assignment, Isolation, Job, Mode, Profile, Reason, Share, StateError
from placement.model.frozen import made_often
from placement.noise import draw
from placement.options import Options
from placement.partition import MODE_ORDER
from placement.policies import Measure, Placement
from placement.prices import Prices
from placement.rows import Near, Rows
from placement.sight import Sight, better
from placement.topology import Topology, aligned

SHARED_MODES = frozenset({Mode.MPS, Mode.TIMESLICE})

STALE_ROWS = 100
"""A row of scores is not worth keeping if about so many nodes change between two looks at it."""

MOST_SET_ASIDE = 1 << 13
"""Neighbourhoods that nobody lives in are given up when there are so many of them, and half of all."""


@dataclass(slots=True)
class _Spot:
    """A node and what would be taken there."""

    row: int
    rank: int
    slots: list[int]


@made_often
@dataclass(frozen=True, slots=True)
class _Worker:
    """One worker of a job that looks for a place."""

    ask: Ask
    demand: Demand
    sequence: int
    worker: int


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
        self._demands = Demands(cluster, placement, belief)
        scores = type(placement).score, type(placement).within
        self._rows = Rows(cluster, scores, compiled=options.compiled)
        self._company = Company(cluster, placement, belief)
        self._gangs = Gangs(Topology(cluster), self._workers_by_row, gathers=placement.gathers)
        self._weighs_worth = placement.weighs is Measure.FORGONE
        self._generation = -1

    # -- demands -------------------------------------------------------------------------------------------

    def demand(self, job: Job, profile: Profile | None) -> Demand:
        """The demand of a job's worker; the tenant counts only where somebody isolates."""
        return self._demands.demand(job, profile)

    def entered(self, job: Job) -> None:
        """A job is alive from now on: requests that several live jobs make are worth a row of scores."""
        self._demands.entered(job)

    def left(self, job: Job) -> None:
        """A job has ended."""
        self._demands.left(job)

    def forget(self) -> None:
        """Drop everything that was compiled: a profile has changed its meaning."""
        self._demands.forget()

    def ask_of(self, demand: Demand) -> Ask:
        """The compiled request of a demand."""
        if self._generation != self.cluster.generation:
            self._generation = self.cluster.generation
            self._rows.start_over()
            if self._weighs_worth:
                self.prices.rebuild()
                self._rows.copy_tables()
        return self._demands.compiled(demand)

    def bounded(self, demand: Demand) -> bool:
        """Whether a demand is answered by a bounded look: hardly anybody who is alive asks for the same."""
        if self._options.exact:
            return False
        size = demand.crowd.size
        return size < 2 or min(self._demands.alive // size, len(self.cluster.members)) > STALE_ROWS

    # -- between decisions ---------------------------------------------------------------------------------

    def tidy(self) -> None:
        """Put in order what grows; between steps."""
        table = self.cluster.neighbourhoods
        if table.set_aside > max(MOST_SET_ASIDE, len(table) // 2):
            table.sweep()

    def review_prices(self) -> None:
        """See what is scarce now; to be done now and then."""
        if self._weighs_worth and self._generation == self.cluster.generation and self.prices.review():
            self._rows.copy_tables()

    # -- looking -------------------------------------------------------------------------------------------

    @property
    def mig_after(self) -> Any:
        """Occupancies with a bundle of slices, int16 [kinds, states, bundles], -1 where it does not fit."""
        return self._rows.mig_after

    def number_of(self, asker: str | None) -> int:
        """The number of a tenant who asks, or of nobody's."""
        return k.STRANGER if asker is None else self.cluster.tenant_number(asker)

    def objection(self, ask: Ask, rank: int, number: int) -> Reason | None:
        """Why a request may not join a neighbourhood in a mode, None if it may."""
        if rank == k.EXCLUSIVE_RANK or not self._company.matters(ask):
            return None
        return self._company.objection(ask, rank, number)

    def score_on(self, demand: Demand, row: int) -> int | None:
        """The score of a node for a demand, promises aside; None if it cannot hold it."""
        score = self._rows.aside(self.ask_of(demand), self.number_of(demand.asker), [row])[0][0]
        return None if score == k.BAD else score

    def workers_that_fit(self, demand: Demand) -> int:
        """An upper bound of how many workers fit now; exact for one GPU a worker, promises aside."""
        ask = self.ask_of(demand)
        self._rows.look(ask)
        workers = ask.workers
        for _score, row, info in self._own(ask, demand):
            workers += workers_of(info) - workers_of(ask.infos.item(row))
        return workers

    def _enough_fit(self, demand: Demand, workers: int) -> bool:
        """Whether so many workers may fit, strangers' places first."""
        ask = self.ask_of(demand)
        self._rows.look(ask)
        return ask.workers >= workers or self.workers_that_fit(demand) >= workers

    def _workers_by_row(self, demand: Demand) -> Ints:
        """An upper bound of how many workers fit on each node, int64 [nodes]."""
        ask = self.ask_of(demand)
        workers = self._rows.room_by_row(ask)
        for _score, row, info in self._own(ask, demand):
            workers[row] = workers_of(info)
        return workers

    def _own(self, ask: Ask, demand: Demand) -> list[Near]:
        """Nodes where a tenant may take what strangers may not, as the tenant sees them."""
        rows = self._own_rows(demand).tolist()
        return self._rows.aside(ask, self.number_of(demand.asker), rows) if rows else []

    def _own_rows(self, demand: Demand) -> Ints:
        """Nodes where a tenant may take what strangers may not, in order."""
        if demand.asker is None or not demand.request.modes & SHARED_MODES:
            return NO_SCORES
        own = self.cluster.own_rows(demand.asker, alone=demand.request.isolation is Isolation.TENANT)
        return own if demand.rows is None or not len(own) else np.intersect1d(own, demand.rows)

    def promising(self, demand: Demand, job: Job) -> bool:
        """Whether it is worth trying to place a job."""
        return self.bounded(demand) or self._enough_fit(demand, job.workers)

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
        probe = replace(probe, lifetime=demand.lifetime)
        most = 0
        for attempt in self._attempts(demand, job, or_most=True):
            if most < job.workers:
                placed = self._place_workers(probe, attempt, job)
                self._take_back(probe, placed)
                most = max(most, len(placed))
        return most

    def fits_on(self, demand: Demand, row: int) -> bool:
        """Whether a worker fits on that node now."""
        who = _Worker(self.ask_of(demand), demand, 0, 0)
        while True:
            near = self._rows.aside(who.ask, self.number_of(demand.asker), [row])[0]
            if near[0] == k.BAD:
                return False
            if self._welcome(who.ask, self._spot(near, who, noisy=False)):
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
        sight = self._sight(ask, demand, job) if self.bounded(demand) else None
        while len(placed) < job.workers:
            who = _Worker(ask, demand, job.sequence, len(placed))
            spot = self._of_all(who) if sight is None else self._in_sight(who, sight)
            if spot is None:
                break
            placed.append(self._assignment(ask, spot, len(placed)))
            self.cluster.allocate(holder, placed[-1])
            if sight is not None and len(placed) < job.workers:
                sight.changed(spot.row)
        return placed

    def _sight(self, ask: Ask, demand: Demand, job: Job) -> Sight:
        """Where the workers of a job look that are answered by a bounded look."""
        within = NO_SCORES if demand.rows is None else demand.rows
        count = len(self.cluster.members) if demand.rows is None else len(within)
        begin = draw(self._options.seed, job.sequence, 0, count) if count else 0
        own = self._own_sight(ask, demand, job.sequence)
        return Sight(self._rows, ask, self.number_of(demand.asker), self._options.sight, begin, within, own)

    def _own_sight(self, ask: Ask, demand: Demand, sequence: int) -> Sight | None:
        """Places where the asker may take what strangers may not; some of them unless all shall be seen."""
        rows = self._own_rows(demand)
        if not len(rows):
            return None
        size = len(rows) if self._options.exact else self._options.own_sight
        begin = draw(self._options.seed ^ 2, sequence, 0, len(rows))
        own = Sight(self._rows, ask, self.number_of(demand.asker), size, begin, rows)
        own.widen()
        return own

    def _of_all(self, who: _Worker) -> _Spot | None:
        """The best of all nodes."""
        ask, rows = who.ask, who.demand.rows
        self._rows.look(ask)
        if self.placement.noise:
            return self._drawn_of_all(who)
        own = self._own_sight(ask, who.demand, who.sequence)
        if self._takes_sets(ask):
            self._judge_sets(ask, own)
        while len(ask.scores if rows is None else rows):
            near = self._rows.best(ask, rows)
            near = near if own is None else better(own.best(), near)
            if near[0] == k.BAD:
                return None
            spot = self._spot(near, who)
            if self._welcome(ask, spot):
                return spot
            self._rows.rescore(ask, np.array([spot.row]))
            if own is not None:
                own.changed(spot.row)
        return None

    def _judge_sets(self, ask: Ask, own: Sight | None) -> None:
        """Judge all who might refuse a worker that takes sets."""
        fitting = np.flatnonzero(ask.scores != k.BAD)
        if self._company.judges_anew(ask, fitting if own is None else np.union1d(fitting, own.nodes)):
            self._rows.rescore(ask, fitting)
            if own is not None:
                own.look_again()

    def _drawn_of_all(self, who: _Worker) -> _Spot | None:
        """One of all the nodes with the lowest score, as the asker sees them."""
        ask, rows = who.ask, who.demand.rows
        own = self._own(ask, who.demand)
        fitting = np.flatnonzero(ask.scores != k.BAD) if rows is None else rows[ask.scores[rows] != k.BAD]
        if not own and not self._company.matters(ask):  # nobody can refuse
            equal = fitting[ask.scores[fitting] == ask.scores[fitting].min(initial=k.BAD)]
            if not len(equal):
                return None
            row = equal.item(draw(self._options.seed, who.sequence, who.worker, len(equal)))
            return self._spot((ask.scores.item(row), row, ask.infos.item(row)), who)
        columns = ask.scores[fitting].tolist(), fitting.tolist(), ask.infos[fitting].tolist()
        mine = {near[1] for near in own}
        return self._drawn([near for near in zip(*columns, strict=True) if near[1] not in mine] + own, who)

    def _in_sight(self, who: _Worker, sight: Sight) -> _Spot | None:
        """The best place in sight; if none there will do, of those that come in sight next."""
        spot = self._in_window(who, sight) if sight.opened else None
        while spot is None and sight.widen():
            if self._takes_sets(who.ask):
                self._company.judges_anew(who.ask, sight.all_nodes())
                sight.look_again()
            spot = self._in_window(who, sight)
        return spot

    def _in_window(self, who: _Worker, sight: Sight) -> _Spot | None:
        """The best of the places in sight that is welcome."""
        if self.placement.noise:
            return self._drawn([*sight.places().values()], who)
        while (near := sight.best())[0] != k.BAD:
            spot = self._spot(near, who)
            if self._welcome(who.ask, spot):
                return spot
            sight.changed(spot.row)
        return None

    def _takes_sets(self, ask: Ask) -> bool:
        """Whether a worker takes shares of several GPUs of which some may refuse it.

        The best set of those that do not may be better than the best set of all, so all are judged first.
        """
        shares = ask.plain[k.OFFERED] & ~(1 << k.EXCLUSIVE_RANK)
        return ask.request.gpus_apart > 1 and shares != 0 and self._company.matters(ask)

    def _drawn(self, near: list[Near], who: _Worker) -> _Spot | None:
        """One of the places with the lowest score that are welcome, all judged before anything is drawn."""
        places = {place[1]: place for place in near if place[0] != k.BAD}
        while places:
            lowest = min(place[0] for place in places.values())
            equal = sorted(place for place in places.values() if place[0] == lowest)
            refused = [place for place in equal if not self._settled(place, who)]
            if not refused:
                pick = equal[draw(self._options.seed, who.sequence, who.worker, len(equal))]
                return self._spot(pick, who)
            for place in refused:
                again = self._rows.aside(who.ask, self.number_of(who.demand.asker), [place[1]])[0]
                if again[0] == k.BAD:
                    del places[place[1]]
                else:
                    places[place[1]] = again
        return None

    def _settled(self, near: Near, who: _Worker) -> bool:
        """Whether a place is welcome with every GPU that could be taken there; what refuses is noted."""
        ask = who.ask
        rank = choice_of(near[2])[0]
        if not ask.request.gpus_apart or rank == k.EXCLUSIVE_RANK or not self._company.matters(ask):
            return True
        slots = self._rows.slots(ask, self.number_of(who.demand.asker), near[1], rank)
        welcome = self._welcome(ask, _Spot(near[1], rank, slots))
        return welcome and len(slots) >= ask.request.gpus_apart

    def _welcome(self, ask: Ask, spot: _Spot) -> bool:
        """Whether all promises hold there; a neighbourhood that refuses is remembered."""
        if spot.rank == k.EXCLUSIVE_RANK or not self._company.matters(ask):
            return True
        if len(spot.slots) < ask.request.gpus_apart:  # scored before what is refused elsewhere was known
            return False
        numbers = [self.cluster.gpus.item(spot.row, slot, k.NEIGHBOURHOOD) for slot in spot.slots]
        return self._company.welcomes(ask, spot.rank, numbers)

    def _spot(self, near: Near, who: _Worker, *, noisy: bool = True) -> _Spot:
        """Which slots of a node would be taken."""
        _score, row, info = near
        ask, (rank, slot) = who.ask, choice_of(info)
        wanted = ask.request.gpus_apart
        noisy = noisy and self.placement.noise
        in_blocks = rank == k.EXCLUSIVE_RANK and self.placement.aligned
        if wanted == 0:
            return _Spot(row, k.EXCLUSIVE_RANK, [])
        if wanted == 1 and not noisy and not in_blocks:
            return _Spot(row, rank, [slot])
        if rank == k.EXCLUSIVE_RANK:
            slots = self._rows.empty_slots(ask, row)
        else:
            slots = self._rows.slots(ask, self.number_of(who.demand.asker), row, rank)
        if noisy and slots:
            first = draw(self._options.seed ^ 1, who.sequence, who.worker, len(slots))
            slots = sorted((slots[first:] + slots[:first])[:wanted])
        elif in_blocks:
            slots = [*aligned(tuple(slots), wanted)]
        return _Spot(row, rank, slots[:wanted])

    def _assignment(self, ask: Ask, spot: _Spot, worker: int) -> Assignment:
        node = self.cluster.members[spot.row]
        copies = ask.request.shares_per_gpu
        shares: list[Share] = []
        for slot in spot.slots:
            kind, uuid = self.cluster.gpus.item(spot.row, slot, k.MODEL), node.gpus[slot].uuid
            need, geometry = ask.needs[spot.rank][kind], self.cluster.geometries[kind]
            if need is None:
                raise StateError(f"GPU {uuid} was chosen for a request that its model cannot serve")
            what = need.mode, need.compute_milli, need.memory_bytes
            if need.mig_profile is None or geometry is None:
                shares += (Share(uuid, *what),) * copies
            else:
                profile = geometry.profiles[need.mig_profile].name
                state = self.cluster.gpus.item(spot.row, slot, k.MIG_STATE)
                starts = geometry.starts_of(state, need.mig_profile, copies)
                shares += [Share(uuid, *what, profile, start) for start in starts]
        return Assignment(worker, node.node_id, tuple(shares))
