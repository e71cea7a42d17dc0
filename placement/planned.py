"""Places that a policy's planner names, as shares of the cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from placement import columns as k
from placement.cluster import Cluster
from placement.ledger import Ledger
from placement.lifecycle import JobRecord
from placement.model import WHOLE_GPU_MILLI, Assignment, Job, Mode, Share
from placement.policies import PlannedPart, PlannedPlace, Planner


class Planned:
    """Asks the planner, if the policy brings one (it is ``on``), and keeps it told of who holds what."""

    def __init__(self, planner: Planner | None, cluster: Cluster, ledger: Ledger) -> None:
        self._planner = planner
        self.on = planner is not None
        self._cluster = cluster
        self._ledger = ledger

    def concerns(self, job: Job) -> bool:
        """Whether a planner decides on a job: it does if GPUs are asked for."""
        return self._planner is not None and job.request.gpus > 0

    def refusal(self, job: Job) -> str:
        """Why a job can never have a place, empty if it can."""
        return "" if self._planner is None else self._planner.refusal(job, self._cluster.members)

    def lay_out(self) -> None:
        """Nodes came, went or changed."""
        if self._planner is not None:
            members = self._cluster.members
            self._planner.lay_out([node for node in members if self._cluster.is_up(node.node_id)])

    def take(self, job: Job, assignments: Iterable[Assignment]) -> None:
        """Workers of a job hold shares from now on."""
        if self._planner is not None:
            self._planner.take(job, assignments)

    def give(self, job_id: str, worker: int) -> None:
        """A worker holds nothing any more."""
        if self._planner is not None:
            self._planner.give(job_id, worker)

    def find(self, record: JobRecord) -> PlannedPlace | None:
        """Where a waiting job goes and who must leave before, None if it has no place now."""
        if self._planner is None:
            return None
        place = self._planner.find(record.job, self._ledger.profile_of(record.job))
        return place if place is not None and self._fits_beside_gpus(record.job, place) else None

    def settle(self, job: Job, parts: Iterable[PlannedPart]) -> tuple[Assignment, ...]:
        """Account a job for the GPUs of these parts, which must be free by now."""
        holder = self._ledger.holder_of(job)
        placed = []
        for worker, part in enumerate(parts):
            gpus = self._cluster.members[self._cluster.row_of(part.node_id)].gpus
            shares = (
                Share(gpus[slot].uuid, Mode.EXCLUSIVE, WHOLE_GPU_MILLI, gpus[slot].memory_bytes)
                for slot in part.slots
            )
            placed.append(Assignment(worker, part.node_id, tuple(shares), part.cell))
            self._cluster.allocate(holder, placed[-1])
        return tuple(placed)

    def _fits_beside_gpus(self, job: Job, place: PlannedPlace) -> bool:
        """Whether the nodes have the CPU and RAM, once those who must leave have left."""
        freed = self._freed_by(place.evictions)
        for node_id, workers in Counter(part.node_id for part in place.parts).items():
            node = self._cluster.nodes[self._cluster.row_of(node_id)]
            if node[k.CPU_FREE] + freed[node_id, "cpu"] < workers * job.request.cpu_milli:
                return False
            if node[k.RAM_FREE] + freed[node_id, "ram"] < workers * job.request.ram_bytes:
                return False
        return True

    def _freed_by(self, evictions: Iterable[str]) -> Counter[tuple[str, str]]:
        """CPU (thousandths of a core) and RAM (bytes) that jobs would free, by node."""
        freed: Counter[tuple[str, str]] = Counter()
        for job_id in evictions:
            leaving = self._ledger.find(job_id)
            for held in leaving.assignments if leaving is not None else ():
                holder = self._cluster.holder(job_id, held.worker)
                if holder is not None:
                    freed[held.node_id, "cpu"] += holder.cpu_milli
                    freed[held.node_id, "ram"] += holder.ram_bytes
        return freed
