"""Which workers each node should hold, after the last step; to be read while the loop is busy."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from placement.lifecycle import ACTIVE, JobRecord

Worker = tuple[str, int, int]
"""Job id, attempt, worker."""


class Roster:
    """Kept by the loop with every step, so that a heartbeat need not wait for it."""

    def __init__(self) -> None:
        self._by_node: dict[str, set[Worker]] | None = None
        self._by_job: dict[str, list[tuple[str, Worker]]] = {}
        self._lock = threading.Lock()

    def reset(self, records: Iterable[JobRecord]) -> None:
        """Begin anew with all records."""
        with self._lock:
            self._by_node, self._by_job = {}, {}
            for record in records:
                self._enter(record)

    def update(self, records: Iterable[JobRecord]) -> None:
        """Take the records that a step has changed."""
        with self._lock:
            for record in records:
                self._enter(record)

    def workers_on(self, node_id: str) -> frozenset[Worker] | None:
        """Workers that have been told to start on a node and have not been reported gone.

        None as long as nobody has looked: the loop has just begun.
        """
        with self._lock:
            return None if self._by_node is None else frozenset(self._by_node.get(node_id, ()))

    def _enter(self, record: JobRecord) -> None:
        if self._by_node is None:
            return
        for node_id, worker in self._by_job.pop(record.job.job_id, ()):
            self._by_node[node_id].discard(worker)
        present = _present(record)
        if present:
            self._by_job[record.job.job_id] = present
        for node_id, worker in present:
            self._by_node.setdefault(node_id, set()).add(worker)


def _present(record: JobRecord) -> list[tuple[str, Worker]]:
    if record.state not in ACTIVE:
        return []
    return [
        (assignment.node_id, (record.job.job_id, record.attempt, assignment.worker))
        for assignment in record.assignments or record.vacating
        if assignment.worker not in record.exited_workers
    ]
