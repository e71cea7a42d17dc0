"""The whole brain: events in, transitions and commands out.

A step applies all events, then decides once.  Its only inputs are the events and the time; the same inputs
give
the same answers, live, simulated or replayed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from placement import kernels as k
from placement.ask import Demand
from placement.attempts import Attempts
from placement.cluster import Cluster, Holder, Tenancy
from placement.explain import explain_placed, explain_waiting, forecast, rejection
from placement.interference import InterferenceModel, NoInterference
from placement.lifecycle import ENDED, HOLDING, JobRecord, JobState, Move, Transition
from placement.model import (
    Assignment,
    Command,
    Event,
    Explanation,
    Isolation,
    JobCancelled,
    JobSubmitted,
    Mode,
    Node,
    NodeFenced,
    NodeJoined,
    NodeLost,
    NotFound,
    Profile,
    ProfileDefined,
    StopCause,
    WorkerExited,
    WorkerStarted,
)
from placement.policies import Policy
from placement.preemption import Preemption, Wish
from placement.search import Search
from placement.vacating import Vacating
from placement.waiting import RankKey, WaitingLine


@dataclass(frozen=True, slots=True)
class Step:
    """What one call decided: moves of jobs, and what shall be done, both in order."""

    transitions: tuple[Transition, ...]
    commands: tuple[Command, ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that is needed to go on deciding; a node comes with whether it is available."""

    nodes: tuple[tuple[Node, bool], ...]
    profiles: tuple[Profile, ...]
    records: tuple[JobRecord, ...]
    events: int = 0
    decisions: int = 0


_FIRST = frozenset({NodeJoined, NodeLost, ProfileDefined})


class Scheduler:
    """Decides for one cluster by one policy."""

    def __init__(
        self, policy: Policy, belief: InterferenceModel, *, seed: int = 0, compiled: bool = True
    ) -> None:
        self.policy = policy
        self.belief = belief
        self.events = 0
        self.decisions = 0
        self.cluster = Cluster()
        weights = policy.placement.weights
        self._search = Search(self.cluster, weights, belief, seed=seed, compiled=compiled)
        self._bare = Search(Cluster(), weights, NoInterference(), compiled=compiled)
        self._line = WaitingLine(policy.order)
        self._preemption = (
            Preemption(self.cluster, self._search, policy.order.rank_per_s)
            if policy.order.preemptive
            else None
        )
        self._vacating = Vacating()
        self._records: dict[str, JobRecord] = {}
        self._profiles: dict[str, Profile] = {}
        self._claims: dict[str, JobRecord] = {}
        self._tenants_apart = False
        self._freed: set[int] = set()
        self._impatient: list[JobRecord] = []
        self._transitions: list[Transition] = []
        self._commands: list[Command] = []
        self._attempts = Attempts(self)

    # -- the one way in ------------------------------------------------------------------------------------

    def step(self, events: Sequence[Event], now_s: float) -> Step:
        """Apply all events, then decide once.

        Nodes and profiles come first, so that the order of events of the same moment does not matter.
        """
        self.events += len(events)
        if any(type(event) in _FIRST for event in events):
            self._apply_nodes(events, now_s)
        for event in events:
            self._apply(event, now_s)
        self._attempts.enforce_time_limits(now_s)
        self._decide(now_s)
        if self._impatient:
            self._turn_away(now_s)
        step = Step(tuple(self._transitions), tuple(self._commands))
        self._transitions.clear()
        self._commands.clear()
        return step

    def next_deadline_s(self) -> float | None:
        """When the earliest time limit of a running job ends, None if there is none; step again then."""
        return self._attempts.next_deadline_s()

    def _apply(self, event: Event, now_s: float) -> None:
        match event:
            case WorkerStarted():
                self._attempts.worker_started(event, now_s)
            case WorkerExited():
                self._attempts.worker_exited(event, now_s)
            case JobSubmitted():
                self._submit(event, now_s)
            case JobCancelled():
                self._attempts.cancel(event.job_id, now_s)
            case NodeFenced():
                self._attempts.fenced(event.node_id, now_s)
            case NodeJoined() | NodeLost() | ProfileDefined():
                pass

    # -- nodes and profiles --------------------------------------------------------------------------------

    def _apply_nodes(self, events: Sequence[Event], now_s: float) -> None:
        members = {node.node_id: node for node in self.cluster.members}
        changed = False
        for event in events:
            if isinstance(event, NodeJoined):
                changed |= members.get(event.node.node_id) != event.node
                members[event.node.node_id] = event.node
                self.cluster.set_up(event.node.node_id, up=True)
            elif isinstance(event, NodeLost):
                self.cluster.set_up(event.node_id, up=False)
            elif isinstance(event, ProfileDefined):
                self._define(event.profile)
        if changed:
            self.cluster.set_nodes(members.values())
            self._bare.cluster.set_nodes(members.values())
            if self._preemption is not None:
                self._preemption.relocate()
        for group in list(self._line.blocked_groups()):
            self._line.reopen(group)

    def _define(self, profile: Profile) -> None:
        if self._profiles.get(profile.name) == profile:
            return
        self._profiles[profile.name] = profile
        self._search.forget()
        self._bare.forget()
        self._queue_again()

    def _queue_again(self) -> None:
        """Form the groups anew: what makes demands equal has changed."""
        waiting = self._line.ordered()
        self._line = WaitingLine(self.policy.order)
        for record in waiting:
            self.queue(record)

    # -- jobs ----------------------------------------------------------------------------------------------

    def _submit(self, event: JobSubmitted, now_s: float) -> None:
        job = event.job
        if job.job_id in self._records:
            return
        record = self._records[job.job_id] = JobRecord(job)
        self.note(Transition(job.job_id, 0, None, JobState.QUEUED, now_s))
        if self.cluster.members and not self.could_ever_fit(record):
            self._reject(record, self._bare, now_s)
        else:
            self.queue(record)
            if job.immediate:
                self._impatient.append(record)

    def _turn_away(self, now_s: float) -> None:
        """Reject the jobs of this step that would not wait and did not get a place."""
        for record in self._impatient:
            if record.state is JobState.QUEUED and record.attempt == 0:
                self._line.discard(record.job.job_id)
                self._reject(record, self._search, now_s)
        self._impatient.clear()

    def could_ever_fit(self, record: JobRecord) -> bool:
        """Whether the cluster could hold the job if it were empty and every node available."""
        demand = self._bare.demand(record.job, self._profile(record))
        return self._bare.workers_that_fit(demand) >= record.job.workers

    def _reject(self, record: JobRecord, search: Search, now_s: float) -> None:
        record.failure = rejection(search, search.demand(record.job, self._profile(record)), record.job)
        record.ended_s = now_s
        self.decisions += 1
        self.note(record.move(Move.REJECT, now_s, record.failure))

    def queue(self, record: JobRecord) -> None:
        """Put a job in the waiting line."""
        self._line.push(record, self._search.demand(record.job, self._profile(record)))

    def dequeue(self, job_id: str) -> None:
        """Take a job out of the waiting line."""
        self._line.discard(job_id)

    def _profile(self, record: JobRecord) -> Profile | None:
        name = record.job.profile
        return None if name is None else self._profiles.get(name)

    def _holder(self, record: JobRecord) -> Holder:
        job, request = record.job, record.job.request
        return Holder(
            job.job_id,
            job.tenant,
            self._profile(record),
            request.max_slowdown,
            request.isolation is Isolation.TENANT,
            request.cpu_milli,
            request.ram_bytes,
        )

    # -- deciding ------------------------------------------------------------------------------------------

    def _decide(self, now_s: float) -> None:
        """Place whoever can be placed, in order, until nothing freed on the way could help anyone."""
        while True:
            if self._freed:
                self._reopen_groups(now_s)
            while (first := self._line.first()) is not None:
                self._try_first(first, now_s)
                if self._tenants_apart != bool(self.cluster.isolated_gpus):
                    self._tenants_apart = not self._tenants_apart
                    self._queue_again()
            if not self._freed:
                return

    def _try_first(self, first: tuple[RankKey, JobRecord, Demand], now_s: float) -> None:
        """Place the first in line, push others out for it, reject it, or let it wait."""
        key, record, demand = first
        assignments = self._place(record, demand)
        if assignments is None and self._preemption is not None:
            victims = self._preemption.plan(Wish(record, demand, key, now_s), self._holder(record))
            if victims is not None:
                for job_id in victims:
                    self._push_out(self._records[job_id], now_s)
                assignments = self._place(record, demand)
        if assignments is not None:
            self._line.discard(record.job.job_id)
            self._take(record, assignments, now_s)
        else:
            self._line.block(record.job.job_id)

    def _place(self, record: JobRecord, demand: Demand) -> tuple[Assignment, ...] | None:
        if self._search.workers_that_fit(demand) < record.job.workers:
            return None
        return self._search.place(self._holder(record), demand, record.job)

    def _reopen_groups(self, now_s: float) -> None:
        """Groups that what was freed could help are worth another try."""
        rows = sorted(self._freed)
        self._freed.clear()
        empties = max(self.cluster.nodes.item(row, k.EMPTIES) for row in rows)
        for group in list(self._line.blocked_groups()):
            if self._preemption is not None:
                key, record = self._line.head_of(group)
                helps = self._preemption.could_help(Wish(record, group.demand, key, now_s), rows)
            else:
                asks = self._search.asks_of(group.demand)
                only_whole = len(asks) == 1 and asks[0].mode is Mode.EXCLUSIVE
                helps = not only_whole or group.demand.request.gpus <= empties
            if helps:
                self._line.reopen(group)

    def _take(self, record: JobRecord, assignments: tuple[Assignment, ...], now_s: float) -> None:
        """Account a job for its shares and start it, at once or when those who sit there have left."""
        job = record.job
        record.assignments = assignments
        self.decisions += 1
        record.predicted_slowdown, record.predicted_upper = forecast(self.cluster, self.belief, record)
        if self._preemption is not None:
            rank = self.policy.order.rank(job, remaining_s(record))
            self._preemption.add(record, self._holder(record), rank, now_s)
        node_matters = bool(job.request.cpu_milli or job.request.ram_bytes)
        record.waits_for = self._vacating.sitting_on(assignments, node_matters=node_matters)
        if record.waits_for:
            self._claims[job.job_id] = record
            self.note(record.move(Move.CLAIM, now_s))
        else:
            self._attempts.start(record, Move.PLACE, now_s)

    def _push_out(self, record: JobRecord, now_s: float) -> None:
        """Make a job leave: its shares are free for others to be accounted for, if not yet to be used."""
        self.decisions += 1
        if record.state is JobState.PLACED:
            self._unplace(record, now_s)
            return
        assignments = record.assignments
        self.give_back(record)
        record.vacating, record.assignments = assignments, ()
        self._vacating.add(record.job.job_id, assignments)
        self._attempts.stop(record, StopCause.PREEMPTED, now_s)

    # -- what the attempts need ----------------------------------------------------------------------------

    def note(self, transition: Transition) -> None:
        """Record a move of this step."""
        self._transitions.append(transition)

    def command(self, command: Command) -> None:
        """Order something in this step."""
        self._commands.append(command)

    def give_back_worker(self, record: JobRecord, worker: int) -> None:
        """Free what one worker holds."""
        assignment = self.cluster.release(record.job.job_id, worker)
        if assignment is not None:
            self._freed.add(self.cluster.row_of(assignment.node_id))

    def give_back(self, record: JobRecord) -> None:
        """Free all that a job is accounted for."""
        for assignment in record.assignments:
            self.give_back_worker(record, assignment.worker)
        if self._preemption is not None:
            self._preemption.remove(record.job.job_id)
        self._claims.pop(record.job.job_id, None)

    def left(self, record: JobRecord, now_s: float) -> None:
        """A preempted job has left its places: whoever waited for that may start."""
        self._vacating.remove(record.job.job_id, record.vacating)
        record.vacating = ()
        for other in list(self._claims.values()):
            other.waits_for.discard(record.job.job_id)
            if other.waits_for:
                continue
            del self._claims[other.job.job_id]
            if all(self.available(assignment.node_id) for assignment in other.assignments):
                self._attempts.start(other, Move.START, now_s)
            else:
                self._unplace(other, now_s)

    def _unplace(self, record: JobRecord, now_s: float) -> None:
        """A claim came to nothing: back to the waiting line."""
        self.give_back(record)
        record.assignments, record.waits_for = (), set()
        self.note(record.move(Move.UNPLACE, now_s))
        self.queue(record)

    # -- looking -------------------------------------------------------------------------------------------

    def find(self, job_id: str) -> JobRecord | None:
        """The record of a job, None if there is none."""
        return self._records.get(job_id)

    def record(self, job_id: str) -> JobRecord:
        """All that is known of a job.

        Raises:
            NotFound: no such job, or it has been forgotten.
        """
        record = self._records.get(job_id)
        if record is None:
            raise NotFound(f"no job {job_id!r} is known")
        return record

    def records(self) -> Iterator[JobRecord]:
        """Live and ended jobs in the order of submission, until they are forgotten."""
        return iter(self._records.values())

    def waiting(self) -> list[JobRecord]:
        """Queued jobs in the order of the policy."""
        return self._line.ordered()

    def forget(self, job_id: str) -> None:
        """Drop the record of an ended job."""
        record = self._records.get(job_id)
        if record is not None and record.state in ENDED:
            del self._records[job_id]

    def residents(self, gpu_uuid: str) -> tuple[Tenancy, ...]:
        """Who holds shares of a GPU; raises NotFound for an unknown one."""
        return self.cluster.residents(gpu_uuid)

    def node_ids(self) -> list[str]:
        """Known nodes in the order of their ids."""
        return [node.node_id for node in self.cluster.members]

    def node(self, node_id: str) -> Node:
        """A node; raises NotFound for an unknown one."""
        return self.cluster.members[self.cluster.row_of(node_id)]

    def available(self, node_id: str) -> bool:
        """Whether new work may go to a node; raises NotFound for an unknown one."""
        return bool(self.cluster.nodes[self.cluster.row_of(node_id), k.UP])

    def explain(self, job_id: str) -> Explanation:
        """Why a job waits, or why it was placed where it is; changes nothing."""
        record = self.record(job_id)
        if record.state is not JobState.QUEUED:
            return explain_placed(self.cluster, self.belief, record)
        demand = self._search.demand(record.job, self._profile(record))
        ahead = self._line.ordered().index(record) if self.policy.order.strict else 0
        return explain_waiting(self._search, demand, record.job, ahead)

    # -- going on after a restart --------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """All that :meth:`restore` needs; the records are the live ones, not copies."""
        nodes = tuple((node, self.available(node.node_id)) for node in self.cluster.members)
        records = tuple(record for record in self._records.values() if record.state not in ENDED)
        return Snapshot(nodes, tuple(self._profiles.values()), records, self.events, self.decisions)

    @classmethod
    def restore(
        cls,
        policy: Policy,
        belief: InterferenceModel,
        snapshot: Snapshot,
        *,
        seed: int = 0,
        compiled: bool = True,
    ) -> Scheduler:
        """A scheduler that decides exactly as the one that the snapshot was taken of."""
        self = cls(policy, belief, seed=seed, compiled=compiled)
        nodes = [node for node, _up in snapshot.nodes]
        for search in (self._search, self._bare):
            search.cluster.set_nodes(nodes)
        for node, up in snapshot.nodes:
            self.cluster.set_up(node.node_id, up=up)
        self._profiles = {profile.name: profile for profile in snapshot.profiles}
        for record in sorted(snapshot.records, key=lambda record: record.job.sequence):
            self._records[record.job.job_id] = record
            if record.state in HOLDING:
                self._resume(record)
        self._tenants_apart = bool(self.cluster.isolated_gpus)
        for record in self._records.values():
            if record.state is JobState.QUEUED:
                self.queue(record)
        self.events, self.decisions = snapshot.events, snapshot.decisions
        return self

    def _resume(self, record: JobRecord) -> None:
        holder = self._holder(record)
        if record.state is JobState.PLACED:
            self._claims[record.job.job_id] = record
        for assignment in record.assignments:
            if assignment.worker not in record.exited_workers and assignment.node_id in self.cluster:
                self.cluster.allocate(holder, assignment)
        self._vacating.add(record.job.job_id, record.vacating)
        self._attempts.resume(record)
        if self._preemption is not None and record.assignments and record.state is not JobState.STOPPING:
            since_s = record.placed_s if record.placed_s is not None else record.job.submit_s
            self._preemption.add(
                record, holder, self.policy.order.rank(record.job, remaining_s(record)), since_s
            )


def remaining_s(record: JobRecord) -> float | None:
    """Solo run time left as far as the policies may know, in seconds; None if unknown."""
    if record.job.duration_s is None:
        return None
    return max(record.job.duration_s - record.served_s, 0.0)
