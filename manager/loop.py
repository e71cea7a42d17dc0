"""The loop: inbox -> one step of the core -> one transaction -> wake the agents.

One lock holds the scheduler and its store together: whoever looks at the scheduler sees a committed state.
Whenever a step or its transaction fails, the scheduler is thrown away and rebuilt from the store, which still
holds the inbox; docs/decisions/0002-crash-safety.md goes through every point where it may stop.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from manager.blame import Blame
from manager.changes import changed_records, new_pairs, node_states
from manager.clock import Clock
from manager.dispatch.commands import outbox_entry
from manager.leases import Leases
from manager.roster import Roster
from manager.store import CoreImage, InboxRow, NodeState, Quarantined, StepWrite, Store, Superseded
from manager.store.codec import decode_event
from placement.interference import model_named
from placement.lifecycle import ENDED
from placement.model import (
    CotenantError,
    Event,
    JobSubmitted,
    Node,
    NodeFenced,
    NodeLost,
    OperationFailed,
)
from placement.options import Options
from placement.policies import DEFAULT_POLICY, policy_named
from placement.scheduler import Scheduler, Snapshot, Step

log = logging.getLogger(__name__)
T = TypeVar("T")

BATCH = 1000
"""Events in one step; more wait for the next."""
POLL_S = 1.0
"""The inbox is looked at that often even if nobody says that something is in it."""
GIVE_WAY_S = 0.001
"""A lock is not fair: after a turn, those who wait for a look at the scheduler get that long to take it."""
RETRY_FIRST_S, RETRY_LAST_S = 0.1, 5.0
"""How long a failed step waits before the next try, doubling from the first to the last."""


@dataclass(frozen=True, slots=True)
class CoreSettings:
    """Which brain decides: names of a policy and of an interference model."""

    policy: str = DEFAULT_POLICY
    belief: str = "additive"
    seed: int = 0

    def scheduler(self, image: CoreImage) -> Scheduler:
        """A scheduler that goes on where the image was taken.

        Raises:
            UnknownName, InvalidSpec: there is no such policy or model.
        """
        snapshot = Snapshot(
            nodes=tuple((node, state is NodeState.UP) for node, state in image.nodes),
            profiles=image.profiles,
            records=image.records,
            events=image.events,
            decisions=image.decisions,
            price_levels=image.price_levels,
            run_times=image.run_times,
        )
        scheduler = Scheduler.restore(
            policy_named(self.policy), model_named(self.belief), snapshot, Options(seed=self.seed)
        )
        scheduler.explain_placements()
        return scheduler


@dataclass(slots=True)
class LoopListeners:
    """Who is told what the loop did: nodes with new commands, each step, and its end against its will.

    Set them before :meth:`Loop.start`: what happens before is told to nobody.
    """

    commands: Callable[[Sequence[str]], None] = lambda _nodes: None
    step: Callable[[Step, float], None] = lambda _step, _now_s: None
    fatal: Callable[[CotenantError], None] = lambda _error: None


@dataclass(slots=True)
class LoopCounters:
    """What the loop has done since it started."""

    steps: int = 0
    failures: int = 0
    core_s: float = 0.0
    last_failure: str = ""
    """Empty while steps come about."""


@dataclass(frozen=True, slots=True)
class _Batch:
    """What one step takes: rows of the inbox, and what the leases say."""

    rows: tuple[InboxRow, ...]
    leases: tuple[NodeLost | NodeFenced, ...]
    now_s: float

    def events(self) -> list[Event]:
        return [*(decode_event(row.kind, row.body) for row in self.rows), *self.leases]


@dataclass(slots=True)
class _Brain:
    """The scheduler with what the loop has to remember about its records."""

    scheduler: Scheduler
    versions: dict[str, int]
    nodes: dict[str, Node]


class Loop:
    """Owns the scheduler; :meth:`run_once` is one turn, :meth:`start` turns in a thread of its own."""

    def __init__(self, store: Store, core: CoreSettings, clock: Clock, leases: Leases) -> None:
        self.listeners = LoopListeners()
        self.counters = LoopCounters()
        self.roster = Roster()
        self._store = store
        self._core = core
        self._clock = clock
        self._leases = leases
        self._brain: _Brain | None = None
        self._lock = threading.RLock()
        self._turned = threading.Condition()
        self._awake = False
        self._stopping = False
        self._taken = 0
        self._asking = 0
        self._thread: threading.Thread | None = None

    # For other threads

    def wake(self) -> None:
        """Something is in the inbox."""
        with self._turned:
            self._awake = True
            self._turned.notify_all()

    def wait_for(self, sequence: int, timeout_s: float) -> bool:
        """Whether the core has taken that row of the inbox within the time."""
        with self._turned:
            return self._turned.wait_for(lambda: self._taken >= sequence or self._stopping, timeout_s)

    def ask(self, question: Callable[[Scheduler], T]) -> T:
        """Look at the scheduler between two steps; the question must change nothing.

        Raises:
            OperationFailed: the scheduler cannot be built at the moment.
        """
        with self._turned:
            self._asking += 1
        try:
            with self._lock:
                return question(self._ready().scheduler)
        finally:
            with self._turned:
                self._asking -= 1

    def trouble(self) -> str:
        """Why nothing is decided at the moment, for anybody to see; empty while all is well."""
        thread = self._thread
        if not self._stopping and thread is not None and not thread.is_alive():
            return "the scheduling loop has ended; the manager's log says why; start the manager again"
        if self.counters.last_failure:
            return "the last step failed and is tried again; the manager's log says why"
        return ""

    def start(self) -> None:
        """Turn in a thread."""
        self._thread = threading.Thread(target=self._run, name="cotenant-loop", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Finish the turn and end the thread."""
        with self._turned:
            self._stopping = True
            self._turned.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    # The turn

    def run_once(self) -> bool:
        """One turn; gives whether there was anything to do.

        Raises:
            OperationFailed: the step did not come about; the inbox is as it was, the next turn starts afresh.
        """
        with self._lock:
            brain = self._ready()
            now_s = self._clock.now_s()
            rows = tuple(self._store.steps.pending(BATCH))
            leases = tuple(self._leases.due(now_s))
            deadline_s = brain.scheduler.next_deadline_s()
            if not rows and not leases and (deadline_s is None or deadline_s > now_s):
                return False
            self._take(_Batch(rows, leases, now_s))
        with self._turned:
            self._taken = max((row.sequence for row in rows), default=self._taken)
            self._turned.notify_all()
        return True

    def next_turn_s(self) -> float:
        """How long nothing has to be done unless somebody wakes the loop, in seconds."""
        with self._lock:
            brain = self._brain
            deadline_s = brain.scheduler.next_deadline_s() if brain is not None else None
        due = [at_s for at_s in (deadline_s, self._leases.next_due_s()) if at_s is not None]
        return min(max(min(due, default=POLL_S + self._clock.now_s()) - self._clock.now_s(), 0.0), POLL_S)

    def _run(self) -> None:
        try:
            self._turns()
        except Superseded as error:
            log.error("%s", error)
            self.listeners.fatal(error)
        except BaseException as error:
            log.critical("the scheduling loop ended: %s", _one_line(error), exc_info=error)
            self.listeners.fatal(OperationFailed(f"the scheduling loop ended: {_one_line(error)}"))

    def _turns(self) -> None:
        retry_s = 0.0
        while not self._stopping:
            try:
                busy = self.run_once()
                retry_s, self.counters.last_failure = 0.0, ""
            except Superseded:
                raise
            except Exception as error:
                busy = False
                retry_s = min(max(2 * retry_s, RETRY_FIRST_S), RETRY_LAST_S)
                self.counters.failures += 1
                self.counters.last_failure = _one_line(error)
                bug = not isinstance(error, CotenantError)  # only a bug needs its trace in the log
                log.error("a step failed, next try in %.1f s: %s", retry_s, _one_line(error), exc_info=bug)
            if busy:
                if self._asking:
                    time.sleep(GIVE_WAY_S)
                continue
            self._rest(retry_s or self.next_turn_s(), wakeable=not retry_s)

    def _rest(self, timeout_s: float, *, wakeable: bool) -> None:
        """Wait; after a failure a wake-up does not shorten it."""
        with self._turned:
            self._turned.wait_for(lambda: self._stopping or (self._awake and wakeable), timeout_s)
            self._awake = False

    def _ready(self) -> _Brain:
        if self._brain is None:
            image = self._store.steps.load()
            self._leases.load(((node.node_id, state) for node, state in image.nodes), self._clock.now_s())
            try:
                scheduler = self._core.scheduler(image)
            except MemoryError:
                raise
            except Exception as error:
                now_s = self._clock.now_s()
                self._eject(self._blame(now_s).culprits(), now_s, error)
                return self._ready()
            self.roster.reset(image.records)
            self._brain = _Brain(
                scheduler,
                dict(image.versions),
                {node.node_id: node for node, _state in image.nodes},
            )
            # A step that failed after its commit has told nobody of its commands.
            self.listeners.commands([node.node_id for node, _state in image.nodes])
        return self._brain

    def _take(self, batch: _Batch) -> None:
        """Step and make it true; if the core cannot take the batch, find the event that it cannot take."""
        scheduler = self._ready().scheduler
        began_s = time.perf_counter()
        try:
            events = batch.events()
            step = scheduler.step(events, batch.now_s)
        except MemoryError:
            self._brain = None
            raise
        except Exception as error:
            self._brain = None
            self._take_apart(batch, error)
            return
        self.counters.core_s += time.perf_counter() - began_s
        try:
            self._commit(batch, events, step)
        except BaseException:
            self._brain = None  # what it decided has not happened
            raise

    def _take_apart(self, batch: _Batch, error: Exception) -> None:
        """Take a batch that failed event by event, to find the one that the scheduler cannot stand."""
        if len(batch.rows) + bool(batch.leases) <= 1:
            self._resolve(batch, error)
            return
        for row in batch.rows:
            self._take(_Batch((row,), (), batch.now_s))
        if batch.leases:
            self._take(_Batch((), batch.leases, batch.now_s))

    def _resolve(self, batch: _Batch, error: Exception) -> None:
        """Put away the event that is to blame, or reject the waiting jobs that are; the next turn goes on.

        Raises:
            OperationFailed: neither is to blame.
        """
        blame = self._blame(batch.now_s)
        row = batch.rows[0] if batch.rows else None
        event = _decoded(row) if row is not None else None
        suspects: tuple[str, ...] = ()
        if event is not None and not isinstance(event, JobSubmitted):
            suspects = blame.culprits([event])
        elif row is None:
            suspects = blame.culprits(batch.leases)
        if not suspects and row is not None and blame.works():
            log.error("the scheduler failed on %s: %s", row.kind, _one_line(error), exc_info=error)
            self._store.steps.quarantine(Quarantined(row, _one_line(error), batch.now_s, event))
        else:
            self._eject(suspects or blame.culprits(), batch.now_s, error)

    def _blame(self, now_s: float) -> Blame:
        return Blame(self._store.steps.load(), self._core.scheduler, now_s)

    def _eject(self, job_ids: Sequence[str], now_s: float, error: Exception) -> None:
        if not job_ids:
            message = f"the scheduler failed and no event or waiting job is to blame: {_one_line(error)}"
            raise OperationFailed(message) from error
        for job_id in job_ids:
            log.error("the scheduler failed on %s: %s", job_id, _one_line(error), exc_info=error)
            self._store.steps.eject(job_id, _one_line(error), now_s)

    def _commit(self, batch: _Batch, events: Sequence[Event], step: Step) -> None:
        brain = self._ready()
        scheduler = brain.scheduler
        records = changed_records(scheduler, step)
        nodes = node_states(brain.nodes, events)
        write = StepWrite(
            now_s=batch.now_s,
            consumed=tuple(row.sequence for row in batch.rows),
            records=records,
            transitions=step.transitions,
            commands=tuple(map(outbox_entry, step.commands)),
            nodes=nodes,
            neighbours=new_pairs(scheduler, step),
            core_events=scheduler.events,
            core_decisions=scheduler.decisions,
            price_levels=scheduler.price_levels,
            run_times=step.run_times,
        )
        brain.versions.update(self._store.steps.commit(write, brain.versions))
        self.counters.steps += 1
        self.roster.update(records)
        for node, state in nodes:
            brain.nodes[node.node_id] = node
            self._leases.settle(node.node_id, state, batch.now_s)
        for record in records:
            if record.state in ENDED:
                scheduler.forget(record.job.job_id)
                brain.versions.pop(record.job.job_id, None)
        self.listeners.step(step, batch.now_s)
        targets = sorted({entry.node_id for entry in write.commands})
        if targets:
            self.listeners.commands(targets)


def _decoded(row: InboxRow) -> Event | None:
    try:
        return decode_event(row.kind, row.body)
    except OperationFailed:
        return None


def _one_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
