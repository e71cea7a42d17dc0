"""The one search over exclusive GPUs, MIG slices, MPS shares and time slices.

A request that live jobs make often keeps a row of node scores and follows the cluster's log of changed nodes,
so a look costs what changed since the last one, not the size of the cluster.  A request that hardly anybody
else makes is answered by a bounded look, see :mod:`placement.sight`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from placement import columns as k
from placement.ask import Ask, Demand
from placement.cluster import Cluster
from placement.columns import Ints
from placement.company import Company
from placement.demands import Demands
from placement.engine import workers_of
from placement.finder import Finder, Worker
from placement.gangs import Gangs
from placement.interference import InterferenceModel
from placement.lodgings import Holder
from placement.model import Assignment, Isolation, Job, Profile, Reason
from placement.options import Options
from placement.policies import Measure, Placement
from placement.prices import Prices
from placement.rows import Rows
from placement.topology import Topology

FEW_NODES = 100
"""Rows of scores of so few nodes are brought up to date in no time."""

STALE_ROWS = 50
"""Beyond that, a row is not worth keeping if about so many jobs come between two looks at it."""

MOST_SET_ASIDE = 1 << 13
"""Neighbourhoods that nobody lives in are given up when there are so many of them, and half of all."""


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
        self._finder = Finder(self._rows, placement, self._company, options)
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
            self.catch_up()
        return self._demands.compiled(demand)

    def catch_up(self) -> None:
        """Take note of other nodes: rows begin anew, and prices are those of what can get scarce now."""
        if self._generation == self.cluster.generation:
            return
        self._generation = self.cluster.generation
        self._rows.start_over()
        if self._weighs_worth:
            self.prices.rebuild()
            self._rows.copy_tables()

    def bounded(self, demand: Demand) -> bool:
        """Whether a demand is answered by a bounded look: hardly anybody who is alive asks for the same."""
        if self._options.exact:
            return False
        size = demand.crowd.size
        return size < 2 or (
            len(self.cluster.members) > FEW_NODES and self._demands.alive // size > STALE_ROWS
        )

    # -- between decisions ---------------------------------------------------------------------------------

    def tidy(self) -> None:
        """Put in order what grows; between steps."""
        table = self.cluster.neighbourhoods
        if table.set_aside > max(MOST_SET_ASIDE, len(table) // 2):
            table.sweep()

    def review_prices(self) -> None:
        """See what is scarce now; to be done now and then."""
        self.catch_up()
        if self._weighs_worth and self.prices.review():
            self._rows.copy_tables()

    # -- looking -------------------------------------------------------------------------------------------

    @property
    def mig_after(self) -> Any:
        """Occupancies with a bundle of slices, int16 [kinds, states, bundles], -1 where it does not fit."""
        return self._rows.mig_after

    def objection(self, ask: Ask, rank: int, number: int) -> Reason | None:
        """Why a request may not join a neighbourhood in a mode, None if it may."""
        if rank == k.EXCLUSIVE_RANK or not self._company.matters(ask):
            return None
        return self._company.objection(ask, rank, number)

    def score_on(self, demand: Demand, row: int) -> int | None:
        """The score of a node for a demand, promises aside; None if it cannot hold it."""
        score = self._rows.aside(self.ask_of(demand), demand.number, [row])[0][0]
        return None if score == k.BAD else score

    def workers_that_fit(self, demand: Demand) -> int:
        """An upper bound of how many workers fit now; exact for one GPU a worker, promises aside."""
        ask = self.ask_of(demand)
        self._rows.look(ask)
        workers = ask.workers
        for _score, row, info in self._finder.own(ask, demand):
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
        for _score, row, info in self._finder.own(ask, demand):
            workers[row] = workers_of(info)
        return workers

    def promising(self, demand: Demand, job: Job) -> bool:
        """Whether it is worth trying to place a job."""
        return self.bounded(demand) or self._enough_fit(demand, job.workers)

    def candidate_nodes(self, demand: Demand) -> int | None:
        """How many nodes could hold a worker when they were last looked at; None if not all have been."""
        ask = self.ask_of(demand)
        return int(np.count_nonzero(workers_of(ask.infos))) if ask.seen >= 0 else None

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

    def all_fit(self, holder: Holder, demand: Demand, job: Job) -> bool:
        """Whether all workers of a job fit now; found by trying."""
        if self.workers_that_fit(demand) < job.workers:
            return False
        placed = self.place(holder, demand, job)
        self._take_back(holder, [*(placed or ())])
        return placed is not None

    def fits_on(self, demand: Demand, row: int) -> bool:
        """Whether a worker fits on that node now."""
        return self._finder.fits_on(Worker(self.ask_of(demand), demand, 0, 0), row)

    # -- placing -------------------------------------------------------------------------------------------

    def place(self, holder: Holder, demand: Demand, job: Job) -> tuple[Assignment, ...] | None:
        """Allocate all workers of a job, or nothing and None.

        A gang that shall be together is tried in each domain with room for it, see :mod:`placement.gangs`.
        If it does not fit where each worker takes its best place, all in the same way may.
        """
        if job.workers == 1:
            return tuple(self._place_workers(holder, demand, job)) or None
        for attempt in self._attempts(demand, job):
            placed = self._place_workers(holder, attempt, job)
            if len(placed) == job.workers:
                return tuple(placed)
            self._take_back(holder, placed)
        return None

    def _attempts(self, demand: Demand, job: Job, *, or_most: bool = False) -> Iterator[Demand]:
        """The demand in each scope, and for a gang that has several ways the same in each of them alone."""
        if job.workers == 1:
            yield demand
            return
        for scope in self._gangs.scopes(demand, job.workers, or_most=or_most):
            yield scope
            ranks = self.ask_of(scope).ranks
            if len(ranks) > 1 and job.request.gpus:
                yield from (replace(scope, only=rank, ask=None) for rank in ranks)

    def _take_back(self, holder: Holder, placed: list[Assignment]) -> None:
        for assignment in placed:
            self.cluster.release(holder.job_id, assignment.worker)

    def _place_workers(self, holder: Holder, demand: Demand, job: Job) -> list[Assignment]:
        """Allocate as many workers as fit, at most all of them."""
        placed: list[Assignment] = []
        if demand.rows is not None and not len(demand.rows):
            return placed
        ask = self.ask_of(demand)
        finder = self._finder
        sight = finder.sight_of(ask, demand, job.sequence) if self.bounded(demand) else None
        while len(placed) < job.workers:
            who = Worker(ask, demand, job.sequence, len(placed))
            spot = finder.of_all(who) if sight is None else finder.in_sight(who, sight)
            if spot is None:
                break
            placed.append(finder.assignment(who, spot))
            self.cluster.allocate(holder, placed[-1])
            if sight is not None and len(placed) < job.workers:
                sight.changed(spot.row)
        return placed
