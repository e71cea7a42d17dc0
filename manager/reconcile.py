"""Compares what an agent holds with what it should hold, and puts right what commands and reports cannot.

Two things should never be, but a lost disk or a fence that came too late can bring them about: an agent
holds a worker of an attempt that is over (it is told to stop), or it has forgotten a worker that should run
(it counts as lost, so that the job starts again).  Neither is acted upon at the first sight: a heartbeat may
have crossed a command or a report.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from manager.clock import Clock
from manager.dispatch.commands import stop_entry
from manager.leases import LeaseTimes
from manager.loop import Loop
from manager.roster import Worker
from manager.store import Store
from manager.wire.agent_models import HeldWorker, WorkerState
from placement.model import ExitCause, StopCause, StopWorker, WorkerExited


class Reconciler:
    """Remembers since when each node's list deviates; that is not stored, a new manager watches anew."""

    def __init__(self, store: Store, loop: Loop, clock: Clock, times: LeaseTimes) -> None:
        self._store = store
        self._loop = loop
        self._clock = clock
        self._times = times
        self._odd_since_s: dict[str, dict[tuple[str, Worker], float]] = {}
        self._lock = threading.Lock()

    def compare(self, node_id: str, held: Iterable[HeldWorker]) -> None:
        """Take the list of one heartbeat.

        Raises:
            OperationFailed: the store refuses.
        """
        states = {(each.job_id, each.attempt, each.worker): each.state for each in held}
        expected = self._loop.roster.workers_on(node_id)
        if expected is None:
            return
        stale = {w for w, state in states.items() if w not in expected and state is not WorkerState.EXITED}
        missing = expected - states.keys()
        if not stale and not missing:
            with self._lock:
                self._odd_since_s.pop(node_id, None)
            return
        underway = self._store.queries.undelivered(node_id)
        odd = {("stale", w) for w in stale - underway} | {("missing", w) for w in missing - underway}
        ripe = self._ripe(node_id, odd)
        stops = [_stop(node_id, worker) for kind, worker in ripe if kind == "stale"]
        if stops:
            self._store.intake.order([stop_entry(stop) for stop in stops])
            self._loop.listeners.commands([node_id])
        lost = [_lost(node_id, worker) for kind, worker in ripe if kind == "missing"]
        if lost:
            self._store.intake.append(lost)
            self._loop.wake()

    def _ripe(self, node_id: str, odd: set[tuple[str, Worker]]) -> list[tuple[str, Worker]]:
        """The deviations that have lasted; each is given once and then watched anew."""
        now_s = self._clock.now_s()
        patience_s = {"stale": self._times.lease_s / 2, "missing": 2 * self._times.lease_s}
        with self._lock:
            before = self._odd_since_s.get(node_id, {})
            since_s = {each: before.get(each, now_s) for each in odd}
            ripe = sorted(each for each, at_s in since_s.items() if now_s - at_s >= patience_s[each[0]])
            self._odd_since_s[node_id] = {each: at_s for each, at_s in since_s.items() if each not in ripe}
        return ripe


def _stop(node_id: str, worker: Worker) -> StopWorker:
    job_id, attempt, index = worker
    return StopWorker(job_id, attempt, index, node_id, StopCause.CANCELLED, 0.0)


def _lost(node_id: str, worker: Worker) -> WorkerExited:
    job_id, attempt, index = worker
    return WorkerExited(
        job_id, attempt, index, ExitCause.LOST, message=f"node {node_id} no longer knows worker {index}"
    )
