"""Whom to push out so that a job fits: only if it then fits, only jobs that rank behind it, and no one too many."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from placement import kernels as k
from placement.ask import Demand
from placement.cluster import Cluster, Holder
from placement.lifecycle import JobRecord
from placement.model import Assignment
from placement.search import Search
from placement.waiting import RankKey

NODES_TRIED = 8
"""So many nodes are examined for a job of one worker, those first where least must be freed."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A job that looks for room, at a moment, and its place in the order."""

    record: JobRecord
    holder: Holder
    demand: Demand
    key: RankKey
    now_s: float


@dataclass(slots=True)
class _Stake:
    """What a running job holds, as the planner sees it; ``rows`` are its entries in the arrays."""

    record: JobRecord
    holder: Holder
    rows: list[int]


class Preemption:
    """Keeps the running jobs that may be pushed out, as arrays, and plans who goes.

    A running job's rank at a time is ``base + slope x time``: under SRTF the remaining time shrinks while it runs.
    """

    def __init__(self, cluster: Cluster, search: Search, slope: float) -> None:
        self._cluster = cluster
        self._search = search
        self._slope = slope
        self._stakes: dict[str, _Stake] = {}
        self._owner: list[str | None] = []
        self._free: list[int] = []
        self._node = np.zeros(0, np.int64)
        self._milli = np.zeros(0, np.int64)
        self._priority = np.zeros(0, np.int64)
        self._base = np.zeros(0, np.float64)

    def add(self, record: JobRecord, holder: Holder, rank: float, now_s: float) -> None:
        """A preemptible job holds shares from now on."""
        if not record.job.preemptible:
            return
        rows = []
        for assignment in record.assignments:
            row = self._row()
            self._owner[row] = record.job.job_id
            self._node[row] = self._cluster.row_of(assignment.node_id)
            self._milli[row] = sum(share.compute_milli for share in assignment.shares)
            self._priority[row] = record.job.priority
            self._base[row] = rank - self._slope * now_s
            rows.append(row)
        self._stakes[record.job.job_id] = _Stake(record, holder, rows)

    def remove(self, job_id: str) -> None:
        """A job no longer holds what it held."""
        stake = self._stakes.pop(job_id, None)
        if stake is not None:
            for row in stake.rows:
                self._owner[row] = None
                self._milli[row] = 0
                self._base[row] = -np.inf
                self._priority[row] = np.iinfo(np.int64).max
                self._free.append(row)

    def relocate(self) -> None:
        """The cluster's rows have been laid out anew."""
        for stake in self._stakes.values():
            for row, assignment in zip(stake.rows, stake.record.assignments, strict=True):
                self._node[row] = self._cluster.row_of(assignment.node_id)

    def _row(self) -> int:
        if not self._free:
            grown = max(64, 2 * len(self._owner))
            self._free = list(range(grown - 1, len(self._owner) - 1, -1))
            self._owner += [None] * (grown - len(self._owner))
            for name in ("_node", "_milli", "_priority", "_base"):
                setattr(self, name, np.resize(getattr(self, name), grown))
            fresh = self._free
            self._milli[fresh], self._base[fresh], self._priority[fresh] = 0, -np.inf, np.iinfo(np.int64).max
        return self._free.pop()

    def plan(self, claim: Claim) -> list[str] | None:
        """The jobs to push out so that the claim fits, None if pushing out everyone behind it would not do."""
        if claim.demand.request.gpus == 0:
            return None
        behind = self._behind(claim)
        freed = np.bincount(self._node[behind], self._milli[behind], len(self._cluster.members)).astype(
            np.int64
        )
        wanted = self._least_milli(claim.demand)
        potential = self._cluster.nodes[:, k.FREE_SUM] + freed
        if (potential // wanted)[self._cluster.nodes[:, k.UP] == 1].sum() < claim.record.job.workers:
            return None
        if claim.record.job.workers > 1:
            return self._try(claim, self._by_rank(behind), lambda: self._gang_fits(claim))
        missing = wanted - self._cluster.nodes[:, k.FREE_SUM]
        rows = np.flatnonzero((potential >= wanted) & (freed > 0) & (self._cluster.nodes[:, k.UP] == 1))
        for row in rows[np.argsort(missing[rows], kind="stable")][:NODES_TRIED].tolist():
            here = self._by_rank(behind[self._node[behind] == row])
            victims = self._try(claim, here, lambda row=row: self._search.fits_on(claim.demand, row))
            if victims is not None:
                return victims
        return None

    def _behind(self, claim: Claim) -> k.Ints:
        """Entries of jobs that rank behind the claim."""
        priority, rank = -claim.key[0], claim.key[1]
        later = self._base + self._slope * claim.now_s > rank
        return np.flatnonzero((self._priority < priority) | ((self._priority == priority) & later))

    def _least_milli(self, demand: Demand) -> int:
        """The least compute that a worker could do with on any node."""
        milli = [n.compute_milli for ask in self._search.asks_of(demand) for n in ask.needs if n is not None]
        return demand.request.gpus * min(milli, default=1000)

    def _by_rank(self, entries: k.Ints) -> list[str]:
        """Jobs of these entries, last in rank first; ties by later sequence."""
        jobs = {owner for entry in entries.tolist() if (owner := self._owner[entry]) is not None}
        rank: dict[str, tuple[int, float, int]] = {}
        for job_id in jobs:
            stake = self._stakes[job_id]
            base = float(self._base[stake.rows[0]])
            rank[job_id] = (stake.record.job.priority, -base, -stake.record.job.sequence)
        return sorted(jobs, key=rank.__getitem__)

    def _gang_fits(self, claim: Claim) -> bool:
        if self._search.workers_that_fit(claim.demand) < claim.record.job.workers:
            return False
        placed = self._search.place(claim.holder, claim.demand, claim.record.job)
        for assignment in placed or ():
            self._cluster.release(claim.holder.job_id, assignment.worker)
        return placed is not None

    def _try(self, claim: Claim, jobs: list[str], fits: Callable[[], bool]) -> list[str] | None:
        """Push out one after the other until it fits, then take back whoever was not needed; a pure what-if."""
        self._cluster.checkpoint()
        try:
            gone: dict[str, list[Assignment]] = {}
            while not fits():
                if len(gone) == len(jobs):
                    return None
                job_id = jobs[len(gone)]
                gone[job_id] = self._lift(job_id)
            *others, last = gone or [""]
            needed = [last] if last else []
            for job_id in reversed(others):
                self._put_back(job_id, gone[job_id])
                if not fits():
                    self._lift(job_id)
                    needed.append(job_id)
            return needed
        finally:
            self._cluster.rollback()

    def _lift(self, job_id: str) -> list[Assignment]:
        """Take back what the job still holds."""
        assignments = self._stakes[job_id].record.assignments
        released = (self._cluster.release(job_id, assignment.worker) for assignment in assignments)
        return [assignment for assignment in released if assignment is not None]

    def _put_back(self, job_id: str, assignments: list[Assignment]) -> None:
        for assignment in assignments:
            self._cluster.allocate(self._stakes[job_id].holder, assignment)
