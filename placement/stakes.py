"""What running jobs hold, as arrays: who could be pushed out, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from placement.cluster import Cluster
from placement.columns import Ints
from placement.lifecycle import JobRecord
from placement.model import WHOLE_GPU_MILLI, Mode
from placement.waiting import RankKey

_NEVER = np.iinfo(np.int64).max


@dataclass(slots=True)
class Stake:
    """One job's holdings; ``entries`` are places in the arrays by worker, of those that still hold shares."""

    record: JobRecord
    base: float
    aging: float
    entries: dict[int, int] = field(default_factory=dict)


class Stakes:
    """One entry per worker of every preemptible job that holds shares.

    A job's rank at a time is ``base + aging x time``: under SRTF the remaining time shrinks while it runs,
    but not while it waits for others to leave its place.  Entries that nobody uses hold no compute and have a
    rank and priority before everyone.

    Attributes:
        node: int64, row in the cluster; milli: int64, compute held; whole: int64, exclusive GPUs held;
        priority, sequence: int64, of the job; base, aging: float64, see above; owner: job ids;
        sharing: how many entries hold shares of GPUs that are not exclusively theirs.
    """

    def __init__(self) -> None:
        self._by_job: dict[str, Stake] = {}
        self._unused: list[int] = []
        self._on_row: dict[int, set[int]] = {}
        self._priorities: dict[int, int] = {}
        self.owner: list[str] = []
        self.sharing = 0
        self.node, self.milli, self.whole, self.priority, self.sequence = (
            np.zeros(0, np.int64) for _ in range(5)
        )
        self.base: npt.NDArray[np.float64] = np.zeros(0, np.float64)
        self.aging: npt.NDArray[np.float64] = np.zeros(0, np.float64)

    def __getitem__(self, job_id: str) -> Stake:
        return self._by_job[job_id]

    def add(self, record: JobRecord, cluster: Cluster, base: float, aging: float) -> None:
        """A job holds shares from now on; those who cannot be preempted are no stake."""
        job = record.job
        if not job.preemptible:
            return
        self.remove(job.job_id)
        stake = self._by_job[job.job_id] = Stake(record, base, aging)
        self._priorities[job.priority] = self._priorities.get(job.priority, 0) + 1
        for assignment in record.assignments:
            if assignment.worker in record.exited_workers or not cluster.has_node(assignment.node_id):
                continue
            entry = self._unused.pop() if self._unused else self._grow()
            node_id, row = assignment.node_id, cluster.row_of(assignment.node_id)
            shares = [share for share in assignment.shares if cluster.is_on(share.gpu_uuid, node_id)]
            # Slices and shares of them are rounded down one by one, and together free all of the GPU.
            milli = sum([share.compute_milli + (share.gpu_mode is Mode.MIG) for share in shares])
            whole = [share.mode for share in shares].count(Mode.EXCLUSIVE)
            self.owner[entry], self.node[entry] = job.job_id, row
            self.milli[entry], self.whole[entry] = milli, whole
            self.sharing += milli > whole * WHOLE_GPU_MILLI
            self.priority[entry], self.sequence[entry] = job.priority, job.sequence
            self.base[entry], self.aging[entry] = base, aging
            self._on_row.setdefault(row, set()).add(entry)
            stake.entries[assignment.worker] = entry

    def remove(self, job_id: str) -> None:
        """A job no longer holds what it held."""
        stake = self._by_job.pop(job_id, None)
        if stake is None:
            return
        priority = stake.record.job.priority
        self._priorities[priority] -= 1
        if not self._priorities[priority]:
            del self._priorities[priority]
        for entry in stake.entries.values():
            self._retire(entry)

    def remove_worker(self, job_id: str, worker: int) -> None:
        """One worker of a job no longer holds what it held."""
        stake = self._by_job.get(job_id)
        if stake is not None and worker in stake.entries:
            self._retire(stake.entries.pop(worker))

    def _retire(self, entry: int) -> None:
        self.sharing -= self.milli.item(entry) > self.whole.item(entry) * WHOLE_GPU_MILLI
        self._on_row[self.node.item(entry)].discard(entry)
        self._clear(entry)
        self._unused.append(entry)

    def relocate(self, cluster: Cluster) -> None:
        """The cluster's rows have been laid out anew, perhaps without some of the GPUs."""
        held = list(self._by_job.values())
        for stake in held:
            self.remove(stake.record.job.job_id)
        self._on_row.clear()
        for stake in held:
            self.add(stake.record, cluster, stake.base, stake.aging)

    def behind(self, key: RankKey, now_s: float) -> Ints:
        """Entries of jobs that rank behind a place in the order, by priority and rank."""
        behind = self.base + self.aging * now_s > key[1]
        if len(self._priorities) > 1 or -key[0] not in self._priorities:
            behind = (self.priority < -key[0]) | ((self.priority == -key[0]) & behind)
        entries: Ints = behind.nonzero()[0]
        return entries

    def milli_behind_on(self, row: int, key: RankKey, now_s: float) -> int:
        """Compute that jobs behind a place in the order hold on one node."""
        total = 0
        for entry in self._on_row.get(row, ()):
            stake = self._by_job[self.owner[entry]]
            priority = stake.record.job.priority
            if priority < -key[0] or (priority == -key[0] and stake.base + stake.aging * now_s > key[1]):
                total += self.milli.item(entry)
        return total

    def by_node(self, entries: Ints, amount: Ints, missing: Ints, most: int) -> list[Ints]:
        """Per node that could be freed enough, the entries to push out, last in rank first; ``most`` nodes.

        ``missing`` is what is wanting per cluster row, in the unit of ``amount``.  Nodes whose victims rank
        last come first: such victims can hardly push out others in turn.
        """
        entries = entries[amount[entries] > 0]
        if not len(entries):
            return []
        ordered = entries[np.lexsort((*self._rank_keys(entries), self.node[entries]))]
        node = self.node[ordered]
        gained = np.cumsum(amount[ordered])
        first = _starts(node)
        begin = first[np.cumsum(_is_start(node)) - 1]
        before = gained[begin] - amount[ordered[begin]]
        enough = np.flatnonzero(gained - before >= missing[node])
        reached = enough[_starts(node[enough])]
        last = ordered[reached]
        best = reached[np.lexsort((self.node[last], *self._rank_keys(last)))][:most]
        return [ordered[start : end + 1] for start, end in zip(begin[best], best, strict=True)]

    def _rank_keys(self, entries: Ints) -> tuple[Ints, npt.NDArray[np.float64], Ints]:
        """Keys that sort entries by rank, last first, the least important key first."""
        return -self.sequence[entries], -self.base[entries], self.priority[entries]

    def on_node(self, entries: Ints, row: int) -> Ints:
        """Those of the entries that are on one node."""
        here: Ints = entries[self.node[entries] == row]
        return here

    def whole_on(self, job_id: str, row: int) -> int:
        """Exclusive GPUs that all workers of a job hold on one node."""
        return sum(int(self.whole[e]) for e in self._by_job[job_id].entries.values() if self.node[e] == row)

    def jobs(self, entries: Ints) -> list[str]:
        """Jobs of these entries, last in rank first; ties by later sequence."""

        def rank(job_id: str) -> tuple[int, float, int]:
            stake = self._by_job[job_id]
            return stake.record.job.priority, -stake.base, -stake.record.job.sequence

        return sorted({self.owner[entry] for entry in entries.tolist()}, key=rank)

    def _grow(self) -> int:
        size = len(self.owner)
        grown = max(64, 2 * size)
        self.owner += [""] * (grown - size)
        more = np.zeros(grown - size, np.int64)
        self.node, self.milli, self.whole, self.priority, self.sequence = (
            np.concatenate([column, more])
            for column in (self.node, self.milli, self.whole, self.priority, self.sequence)
        )
        self.base, self.aging = (
            np.concatenate([column, np.zeros(grown - size)]) for column in (self.base, self.aging)
        )
        for entry in range(size, grown):
            self._clear(entry)
        self._unused = list(range(grown - 1, size - 1, -1))
        return self._unused.pop()

    def _clear(self, entry: int) -> None:
        self.owner[entry] = ""
        self.milli[entry] = self.whole[entry] = 0
        self.priority[entry], self.base[entry], self.aging[entry] = _NEVER, -np.inf, 0.0


def _is_start(groups: Ints) -> npt.NDArray[np.bool_]:
    """Where a run of equal values begins."""
    start = np.ones(len(groups), np.bool_)
    start[1:] = groups[1:] != groups[:-1]
    return start


def _starts(groups: Ints) -> Ints:
    """Positions at which runs of equal values begin."""
    return np.flatnonzero(_is_start(groups))


def needed(whole: Sequence[int], missing: int) -> list[int]:
    """Positions, last first, of the amounts that are needed to reach ``missing``; the last one always is."""
    surplus = sum(whole) - missing
    kept = [len(whole) - 1]
    for position in range(len(whole) - 2, -1, -1):
        if whole[position] <= surplus:
            surplus -= whole[position]
        else:
            kept.append(position)
    return kept
