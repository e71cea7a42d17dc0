"""Whom to push out so that a job fits: only if it then fits, only those behind it, and no one too many."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np

from placement import columns as k
from placement.ask import Demand
from placement.cluster import Cluster
from placement.columns import Ints
from placement.lifecycle import JobRecord
from placement.lodgings import Holder
from placement.model import Assignment
from placement.model.frozen import made_often
from placement.search import Search
from placement.stakes import Stakes, needed
from placement.waiting import RankKey

NODES_TRIED = 8
"""So many nodes are examined for a job of one worker where counting GPUs alone does not decide."""


@made_often
@dataclass(frozen=True, slots=True)
class Wish:
    """A job that looks for room, at a moment, and its place in the order."""

    record: JobRecord
    demand: Demand
    key: RankKey
    now_s: float


class Preemption:
    """Plans who must leave for a job; the plans are pure what-ifs."""

    def __init__(self, cluster: Cluster, search: Search, slope: float) -> None:
        self._cluster = cluster
        self._search = search
        self._slope = slope
        self._stakes = Stakes()

    def add(self, record: JobRecord, rank: float, since_s: float | None) -> None:
        """A job holds shares; its rank was this when it began to run, or is it still if it has not begun."""
        if since_s is None:
            self._stakes.add(record, self._cluster, rank, 0.0)
        else:
            self._stakes.add(record, self._cluster, rank - self._slope * since_s, self._slope)

    def remove(self, job_id: str) -> None:
        """A job no longer holds what it held, or is about to leave it anyway."""
        self._stakes.remove(job_id)

    def remove_worker(self, job_id: str, worker: int) -> None:
        """One worker of a job no longer holds what it held."""
        self._stakes.remove_worker(job_id, worker)

    def relocate(self) -> None:
        """The cluster's rows have been laid out anew."""
        self._stakes.relocate(self._cluster)

    def could_help(self, wish: Wish, rows: Iterable[int]) -> bool:
        """Whether what was freed on these nodes might let a job in, at the price of those behind it."""
        if wish.demand.request.gpus == 0:
            return True
        if wish.record.job.workers > 1:
            return self._enough_in_all(wish, self._stakes.behind(wish.key, wish.now_s))
        wanted = self._least_milli(wish.demand)
        return any(
            int(self._cluster.nodes[row, k.FREE_SUM])
            + self._stakes.milli_behind_on(row, wish.key, wish.now_s)
            >= wanted
            for row in rows
        )

    def plan(self, wish: Wish, holder: Holder) -> list[str] | None:
        """The jobs to push out so that the job fits; None if pushing out all behind it would not do."""
        behind = self._stakes.behind(wish.key, wish.now_s)
        if not len(behind):
            return None
        if wish.record.job.workers > 1:
            if wish.demand.request.gpus and not self._enough_in_all(wish, behind):
                return None
            return self._try(
                self._stakes.jobs(behind), partial(self._search.all_fit, holder, wish.demand, wish.record.job)
            )
        if self._counting_decides(wish.demand):
            victims = self._plan_by_count(wish, behind)
            if victims is not None or not self._stakes.sharing:
                return victims
        return self._plan_by_trial(wish, behind)

    def _plan_by_trial(self, wish: Wish, behind: Ints) -> list[str] | None:
        request = wish.demand.request
        missing = (self._least_milli(wish.demand) if request.gpus else 0) - self._free(k.FREE_SUM)
        # Where CPU or RAM may be what is missing, those who hold no GPU are worth pushing out too.
        amount = self._stakes.milli + int(request.cpu_milli > 0 or request.ram_bytes > 0)
        for entries in self._stakes.by_node(behind, amount, missing, NODES_TRIED):
            row = int(self._stakes.node[entries[0]])
            fits = partial(self._search.fits_on, wish.demand, row)
            victims = self._try(self._stakes.jobs(self._stakes.on_node(behind, row)), fits)
            if victims is not None:
                return victims
        return None

    def _plan_by_count(self, wish: Wish, behind: Ints) -> list[str] | None:
        missing = wish.demand.request.gpus - self._free(k.EMPTIES)
        candidates = self._stakes.by_node(behind, self._stakes.whole, missing, 1)
        if not candidates:
            return None
        row = int(self._stakes.node[candidates[0][0]])
        # Two workers of one job may sit on the same node: it leaves as a whole.
        jobs = list(dict.fromkeys(self._stakes.owner[entry] for entry in candidates[0].tolist()))
        whole = [self._stakes.whole_on(job_id, row) for job_id in jobs]
        return [jobs[position] for position in needed(whole, int(missing[row]))]

    def _free(self, column: int) -> Ints:
        """What each node has free; nodes that are not available have nothing, whoever leaves."""
        nodes = self._cluster.nodes
        return np.where(nodes[:, k.UP] == 1, nodes[:, column], -(1 << 40))

    def _enough_in_all(self, wish: Wish, behind: Ints) -> bool:
        """Whether the whole cluster without those behind would have the compute for all workers."""
        freed = np.bincount(self._stakes.node[behind], self._stakes.milli[behind], len(self._cluster.members))
        workers = (self._free(k.FREE_SUM) + freed.astype(np.int64)) // self._least_milli(wish.demand)
        return int(np.maximum(workers, 0).sum()) >= wish.record.job.workers

    def _counting_decides(self, demand: Demand) -> bool:
        """Whether counting empty GPUs is all there is to a fit."""
        ask = self._search.ask_of(demand)
        if not ask.only_whole or demand.request.cpu_milli or demand.request.ram_bytes:
            return False
        return bool(ask.terms[k.EXCLUSIVE_RANK, :, k.MILLI].all())

    def _least_milli(self, demand: Demand) -> int:
        """The least compute that a worker could do with on any node, in thousandths of a GPU."""
        return max(demand.request.gpus * self._search.ask_of(demand).least_milli, 1)

    def _try(self, jobs: list[str], fits: Callable[[], bool]) -> list[str] | None:
        """Push out one after the other until it fits, then take back whoever was not needed."""
        self._cluster.checkpoint()
        try:
            gone: dict[str, list[tuple[Holder, Assignment]]] = {}
            while not fits():
                if len(gone) == len(jobs):
                    return None
                job_id = jobs[len(gone)]
                gone[job_id] = self._lift(job_id)
            victims = list(gone)[-1:]
            for job_id in list(gone)[-2::-1]:
                self._put_back(gone[job_id])
                if not fits():
                    self._lift(job_id)
                    victims.append(job_id)
            return victims
        finally:
            self._cluster.rollback()

    def _lift(self, job_id: str) -> list[tuple[Holder, Assignment]]:
        """Take back what the job still holds."""
        lifted = []
        for assignment in self._stakes[job_id].record.assignments:
            holder = self._cluster.holder(job_id, assignment.worker)
            if holder is not None:
                self._cluster.release(job_id, assignment.worker)
                lifted.append((holder, assignment))
        return lifted

    def _put_back(self, lifted: list[tuple[Holder, Assignment]]) -> None:
        for holder, assignment in lifted:
            self._cluster.allocate(holder, assignment)
