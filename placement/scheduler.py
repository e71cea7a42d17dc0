"""The whole brain: events in, transitions and commands out.

A step applies all events, then decides once.  Its only inputs are the events and the time; the same inputs
give the same answers, live, simulated or replayed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from placement.ask import Demand
from placement.attempts import Attempts
from placement.cluster import Cluster
from placement.explain import explain_placed, explain_waiting, rejection, unserved
from placement.interference import InterferenceModel, NoInterference
from placement.ledger import Ledger
from placement.lifecycle import ENDED, HOLDING, JobRecord, JobState, Move, Transition
from placement.lifetimes import Lifetimes, RunTimes
from placement.lodgings import Tenancy
from placement.model import (
    Command,
    Event,
    Explanation,
    JobCancelled,
    JobSubmitted,
    Node,
    NodeFenced,
    NodeJoined,
    NodeLost,
    NotFound,
    Outcome,
    Profile,
    ProfileDefined,
    Reason,
    SpeedObserved,
    WorkerExited,
    WorkerStarted,
)
from placement.model.frozen import made_often
from placement.model.hardware import without_gpus
from placement.options import PLAIN, Options
from placement.placer import Placer
from placement.policies import Measure, Policy
from placement.reports import Reports
from placement.search import Search
from placement.usual import USUAL

REVIEW_EVERY = 200
"""Prices of what is scarce are reviewed, and what grows is put in order, after so many decisions."""

MOST_KNOWN_TO_FIT = 4096
"""What fits on the bare cluster is looked up anew beyond so many kinds of jobs."""

_FIRST = frozenset({NodeJoined, NodeLost, NodeFenced, ProfileDefined})


@made_often
@dataclass(frozen=True, slots=True)
class Step:
    """What one call decided: moves of jobs, and what shall be done, both in order.

    ``changed`` are the jobs whose records are no longer what they were, ``run_times`` what was learnt anew.
    """

    transitions: tuple[Transition, ...]
    commands: tuple[Command, ...]
    changed: frozenset[str] = frozenset()
    run_times: tuple[RunTimes, ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that is needed to go on deciding; a node comes with whether it is available."""

    nodes: tuple[tuple[Node, bool], ...]
    profiles: tuple[Profile, ...]
    records: tuple[JobRecord, ...]
    events: int = 0
    decisions: int = 0
    price_levels: tuple[int, ...] = ()
    run_times: tuple[RunTimes, ...] = ()


class Scheduler:
    """Decides for one cluster by one policy."""

    def __init__(self, policy: Policy, belief: InterferenceModel, options: Options = PLAIN) -> None:
        self.policy = policy
        self.belief = belief
        mix = options.mix or (USUAL if policy.placement.weighs is not Measure.NOTHING else ())
        usable = policy.placement.counts_usable
        self.cluster = Cluster(mix, belief, usable=usable)
        self.events = 0
        self._search = Search(self.cluster, policy.placement, belief, options)
        bare = Options(compiled=options.compiled, exact=True)
        self._bare = Search(Cluster(mix, usable=usable), policy.placement, NoInterference(), bare)
        self._fits_bare: dict[tuple[Demand, int], bool] = {}
        # Gangs whose workers are drawn or choose each other may fit in one try and not in another.
        self._gangs_vary = policy.placement.noise or policy.placement.judges_company
        self._lifetimes = Lifetimes(on=policy.placement.weighs_lifetimes)
        self._ledger = Ledger()
        self._attempts = Attempts(self._ledger)
        self._placer = Placer(self._ledger, self._attempts, policy, self._search)
        self._reports = Reports(self._ledger, self._attempts, self._placer)
        self._impatient: list[JobRecord] = []
        self._stepped_s = 0.0
        self._rejections = 0

    # -- the one way in ------------------------------------------------------------------------------------

    def step(self, events: Sequence[Event], now_s: float) -> Step:
        """Apply all events, then decide once.

        Nodes and profiles come first, so that the order of events of the same moment does not matter.
        """
        self.events += len(events)
        self._stepped_s = now_s
        before = self.decisions
        for event in events:
            if type(event) in _FIRST:
                self._apply_nodes(events)
                break
        fences = [event for event in events if type(event) is NodeFenced]
        for event in events:
            if not fences or type(event) is not NodeFenced:
                self._apply(event, now_s)
        for fence in fences:  # last: whoever ended on the node in this very moment has ended
            self._apply(fence, now_s)
        self._reports.enforce_time_limits(now_s)
        if self._placer.trials.on:
            self._reports.end_trials(now_s)
        self._placer.decide(now_s, self._reject)
        if self._impatient:
            self._turn_away(now_s)
        page = self._ledger.close_page()
        ended = [self.record(transition.job_id) for transition in page[0] if transition.after in ENDED]
        for record in ended:
            self._search.left(record.job)
        step = Step(*page, self._lifetimes.learn(ended))
        if self.decisions != before and self.decisions // REVIEW_EVERY != before // REVIEW_EVERY:
            self._search.tidy()
            self._search.review_prices()
        return step

    def next_deadline_s(self) -> float | None:
        """When the next time limit or trial of a running job ends, None without any; step again then."""
        limit_s = self._attempts.next_deadline_s()
        if not self._placer.trials.on or (trial_s := self._placer.trials.due_s()) is None:
            return limit_s
        return trial_s if limit_s is None else min(limit_s, trial_s)

    def _apply(self, event: Event, now_s: float) -> None:
        match event:
            case WorkerStarted():
                self._reports.worker_started(event, now_s)
            case WorkerExited():
                self._reports.worker_exited(event, now_s)
            case JobSubmitted():
                self._submit(event, now_s)
            case JobCancelled():
                self._reports.cancel(event.job_id, now_s)
            case SpeedObserved():
                self._placer.trials.observed(event, now_s)
            case NodeFenced():
                self._reports.fenced(event.node_id, now_s)
            case NodeJoined() | NodeLost() | ProfileDefined():
                pass

    def _apply_nodes(self, events: Sequence[Event]) -> None:
        known = {node.node_id: node for node in self.cluster.members}
        joined = {event.node.node_id: event.node for event in events if isinstance(event, NodeJoined)}
        for event in events:
            if isinstance(event, NodeJoined):
                self.cluster.set_up(event.node.node_id, up=True)
            elif isinstance(event, NodeLost | NodeFenced):
                self.cluster.set_up(event.node_id, up=False)
            elif isinstance(event, ProfileDefined):
                self._define(event.profile)
        if any(known.get(node_id) != node for node_id, node in joined.items()):
            # A GPU is where it was seen last.
            seen = {gpu.uuid for node in joined.values() for gpu in node.gpus}
            members = {node.node_id: without_gpus(node, seen) for node in self.cluster.announced} | joined
            self._fits_bare.clear()
            for search in (self._search, self._bare):
                search.cluster.set_nodes(members.values())
        self._placer.nodes_changed()
        self._search.catch_up()  # now, not at the first look: what a snapshot keeps is of its own nodes

    def _define(self, profile: Profile) -> None:
        if self._ledger.profiles.get(profile.name) != profile:
            self._ledger.profiles[profile.name] = profile
            self._search.forget()
            self._bare.forget()
            self._fits_bare.clear()
            self._placer.profile_changed(profile.name)

    # -- submission ----------------------------------------------------------------------------------------

    def _submit(self, event: JobSubmitted, now_s: float) -> None:
        job = event.job
        if self._ledger.find(job.job_id) is not None:
            return
        record = JobRecord(self._lifetimes.given(job))
        self._enter(record)
        self._ledger.note(Transition(job.job_id, 0, None, JobState.QUEUED, now_s))
        if never := unserved(self.policy.placement, job.request):
            self._end_rejected(record, now_s, never)
            return
        if self.cluster.members and not self._could_ever_fit(record):
            self._reject(record, now_s, self._bare)
            return
        if refusal := self._placer.planned.refusal(job):
            self._end_rejected(record, now_s, refusal)
            return
        self._placer.queue(record)
        if job.immediate:
            self._impatient.append(record)

    def _enter(self, record: JobRecord) -> None:
        self._ledger.enter(record)
        self._search.entered(record.job)

    def _could_ever_fit(self, record: JobRecord) -> bool:
        """Whether the cluster could hold the job if it were empty and every node available."""
        job = record.job
        demand = self._bare.demand(job, self._ledger.profile_of(job))
        fits = self._fits_bare.get((demand, job.workers))
        if fits is None:
            fits = self._bare.workers_that_fit(demand) >= job.workers
            fits = fits and self._bare.most_workers(demand, job) == job.workers
            if job.workers == 1 or not self._gangs_vary:
                if len(self._fits_bare) >= MOST_KNOWN_TO_FIT:
                    self._fits_bare.clear()
                self._fits_bare[demand, job.workers] = fits
        return fits

    def _turn_away(self, now_s: float) -> None:
        """Reject the jobs of this step that would not wait and whose turn did not come."""
        for record in self._impatient:
            if record.state is JobState.QUEUED and record.attempt == 0:
                self._placer.line.discard(record.job.job_id)
                self._reject(record, now_s)
        self._impatient.clear()

    def _reject(self, record: JobRecord, now_s: float, search: Search | None = None) -> None:
        """End a job that gets no place: not now, or on the bare cluster never."""
        search = search or self._search
        demand = search.demand(record.job, self._ledger.profile_of(record.job))
        self._end_rejected(record, now_s, rejection(search, demand, record.job))

    def _end_rejected(self, record: JobRecord, now_s: float, why: str) -> None:
        record.failure = why
        record.ended_s = now_s
        self._rejections += 1
        self._ledger.note(record.move(Move.REJECT, now_s, why))

    # -- looking -------------------------------------------------------------------------------------------

    @property
    def decisions(self) -> int:
        """Jobs placed, pushed out or rejected so far."""
        return self._placer.decisions + self._rejections

    @property
    def price_levels(self) -> tuple[int, ...]:
        """How scarce things are that usual requests need, see :mod:`placement.prices`."""
        return self._search.prices.levels

    def record(self, job_id: str) -> JobRecord:
        """All that is known of a job.

        Raises:
            NotFound: no such job, or it has been forgotten.
        """
        record = self._ledger.find(job_id)
        if record is None:
            raise NotFound(f"no job {job_id!r} is known")
        return record

    def records(self) -> Iterator[JobRecord]:
        """Live and ended jobs in the order of submission, until they are forgotten."""
        return iter(self._ledger)

    def waiting(self) -> list[JobRecord]:
        """Queued jobs in the order of the policy."""
        return self._placer.line.ordered()

    def forget(self, job_id: str) -> None:
        """Drop the record of an ended job."""
        record = self._ledger.find(job_id)
        if record is not None and record.state in ENDED:
            self._ledger.drop(job_id)

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
        return self.cluster.is_up(node_id)

    def explain_placements(self) -> None:
        """Note from now on what rules out the other GPUs of a job that is placed; costs a look at all."""
        self._placer.explains = True

    def explain(self, job_id: str) -> Explanation:
        """Why a job waits and what would let it in, or why it was placed where it is; changes nothing."""
        record = self.record(job_id)
        if record.state is not JobState.QUEUED:
            return explain_placed(self.cluster, self.belief, record)
        demand = self._search.demand(record.job, self._ledger.profile_of(record.job))
        ahead = self.waiting().index(record) if self.policy.order.strict else 0
        explanation = explain_waiting(self._search, demand, record.job, ahead)
        if explanation.outcome is Outcome.FIT or self._placer.planned.concerns(record.job):
            return explanation
        outcome, dear = self._placer.what_it_takes(record, self._stepped_s)
        reasons = {**explanation.reasons, Reason.PRICE: dear} if dear else explanation.reasons
        return replace(explanation, outcome=outcome, reasons=reasons)

    # -- going on after a restart --------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """All that :meth:`restore` needs; the records are the live ones, not copies."""
        nodes = tuple((node, self.available(node.node_id)) for node in self.cluster.announced)
        records = tuple(record for record in self._ledger if record.state not in ENDED)
        profiles = tuple(self._ledger.profiles.values())
        counts = self.events, self.decisions
        return Snapshot(nodes, profiles, records, *counts, self.price_levels, self._lifetimes.known)

    @classmethod
    def restore(
        cls,
        policy: Policy,
        belief: InterferenceModel,
        snapshot: Snapshot,
        options: Options = PLAIN,
    ) -> Scheduler:
        """A scheduler that decides exactly as the one that the snapshot was taken of."""
        self = cls(policy, belief, options)
        for search in (self._search, self._bare):
            search.cluster.set_nodes(node for node, _up in snapshot.nodes)
        for node, up in snapshot.nodes:
            self.cluster.set_up(node.node_id, up=up)
        self._placer.planned.lay_out()
        self._ledger.profiles.update({profile.name: profile for profile in snapshot.profiles})
        records = sorted(snapshot.records, key=lambda record: record.job.sequence)
        for record in records:
            self._enter(record)
            if record.state in HOLDING:
                self._placer.resume(record)
        for record in records:
            if record.state is JobState.QUEUED:
                self._placer.line_up(record)
        self.events, self._placer.decisions = snapshot.events, snapshot.decisions
        self._search.prices.levels = snapshot.price_levels
        self._search.catch_up()
        self._lifetimes.recall(snapshot.run_times)
        return self
