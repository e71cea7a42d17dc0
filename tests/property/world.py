"""Random worlds: small clusters, mixed requests, and everything that may happen to them in any order."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from placement.decision_log import lines
from placement.interference import AdditiveInterference
from placement.lifecycle import JobState
from placement.model import (
    Devices,
    Event,
    ExitCause,
    Gpu,
    Isolation,
    Job,
    JobCancelled,
    JobSubmitted,
    Level,
    Mode,
    Node,
    NodeFenced,
    NodeJoined,
    NodeLost,
    Profile,
    ProfileDefined,
    Request,
    StopWorker,
    Together,
    WorkerExited,
    WorkerStarted,
)
from placement.options import Options
from placement.policies import policy_named
from placement.scheduler import Scheduler
from tests.property.checker import Auditor

GIB = 1 << 30
Shape = tuple[str, int, int | None, str | None, str | None] | tuple[str, int, int | None]
"""A node: GPU model and count, CPU in thousandths; rack and NVLink domain, unless neither is known."""
PROFILES = (
    Profile("light", sm_milli=200, dram_milli=100),
    Profile("heavy", sm_milli=900, dram_milli=700),
    Profile("vague"),
)


def _request(isolation: Isolation, modes: frozenset[Mode], **rest: Any) -> Request:
    """Hardware isolation without a mode that gives it is refused, so such a request gets one.

    So is a choice of devices or of company that means nothing: it is left out.
    """
    if isolation is Isolation.HARDWARE and not modes & {Mode.EXCLUSIVE, Mode.MIG}:
        modes |= {Mode.EXCLUSIVE}
    if rest["devices"] is Devices.SAME:
        shared = modes & {Mode.MIG} if isolation is Isolation.HARDWARE else modes - {Mode.EXCLUSIVE}
        if rest["gpus"] < 2 or not shared or (rest["compute_milli"] or 0) * rest["gpus"] > 1000:
            rest["devices"] = Devices.DISTINCT
    if rest["gpus"] == 0:
        rest["together"] = None
    return Request(isolation=isolation, modes=modes, **rest)


requests = st.builds(
    _request,
    gpus=st.sampled_from([0, 1, 1, 1, 1, 2, 3]),
    memory_bytes=st.sampled_from([None, 4 * GIB, 9 * GIB, 30 * GIB, 70 * GIB]),
    compute_milli=st.sampled_from([None, 100, 250, 330, 500, 1000]),
    gpu_models=st.sampled_from([(), (), ("A100",), ("V100-SXM2-32GB", "H100")]),
    modes=st.frozensets(st.sampled_from(Mode), min_size=1),
    isolation=st.sampled_from([Isolation.NONE, Isolation.NONE, Isolation.TENANT, Isolation.HARDWARE]),
    max_slowdown=st.sampled_from([None, None, 1.0, 1.2, 1.6]),
    cpu_milli=st.sampled_from([0, 500, 3000]),
    ram_bytes=st.sampled_from([0, GIB]),
    devices=st.sampled_from(Devices),
    together=st.one_of(st.none(), st.none(), st.builds(Together, st.sampled_from(Level), st.booleans())),
)

nodes = st.lists(
    st.tuples(
        st.sampled_from(["A100-SXM4-80GB", "H100-SXM5-80GB", "V100-SXM2-32GB"]),
        st.integers(0, 4),
        st.sampled_from([None, 8000]),
        st.sampled_from([None, "rack-1", "rack-2"]),
        st.sampled_from([None, None, "link-1"]),
    ),
    min_size=1,
    max_size=4,
)


@dataclass(frozen=True)
class Submit:
    request: Request
    workers: int
    tenant: str
    priority: int
    duration_s: float | None
    profile: str | None
    immediate: bool
    preemptible: bool


@dataclass(frozen=True)
class Happen:
    """``what`` happens to the one that ``which`` picks among those it can happen to."""

    what: str
    which: int


submits = st.builds(
    Submit,
    request=requests,
    workers=st.sampled_from([1, 1, 1, 2, 3]),
    tenant=st.sampled_from(["red", "blue"]),
    priority=st.sampled_from([0, 0, 0, 5]),
    duration_s=st.sampled_from([None, 5.0, 50.0, 500.0]),
    profile=st.sampled_from([None, "light", "heavy", "vague"]),
    immediate=st.sampled_from([False, False, False, True]),
    preemptible=st.sampled_from([True, True, False]),
)
happenings = st.builds(
    Happen,
    what=st.sampled_from(
        ["end", "end", "end", "fail", "leave", "leave", "cancel", "lose", "fence", "return"]
    ),
    which=st.integers(0, 99),
)
histories = st.lists(
    st.lists(st.one_of(submits, happenings), min_size=1, max_size=4), min_size=1, max_size=14
)


def cluster_of(shape: Sequence[Shape]) -> dict[str, Node]:
    built = {}
    for i, (model, count, cpu_milli, *place) in enumerate(shape):
        memory = 32 * GIB if model.startswith("V100") else 80 * GIB
        gpus = tuple(Gpu(f"GPU-{i}-{j}", model, memory) for j in range(count))
        ram_bytes = None if cpu_milli is None else 16 * GIB
        rack, domain = place or (None, None)
        built[f"node-{i}"] = Node(f"node-{i}", gpus, cpu_milli, ram_bytes, domain, rack)
    return built


@dataclass
class World:
    """One scheduler, the processes it ordered, and an auditor at its side."""

    nodes: dict[str, Node]
    scheduler: Scheduler
    auditor: Auditor
    now_s: float = 0.0
    submitted: int = 0
    down: set[str] = field(default_factory=set)
    leaving: set[tuple[str, int]] = field(default_factory=set)
    log: list[str] = field(default_factory=list)

    @classmethod
    def new(cls, shape: Sequence[Shape], policy: str, *, compiled: bool = False, sight: int = 64) -> World:
        built = cluster_of(shape)
        belief = AdditiveInterference()
        options = Options(seed=7, compiled=compiled, sight=sight, own_sight=sight)
        scheduler = Scheduler(policy_named(policy), belief, options)
        world = cls(built, scheduler, Auditor(built, {p.name: p for p in PROFILES}, belief))
        world.step(
            [ProfileDefined(profile) for profile in PROFILES] + [NodeJoined(n) for n in built.values()]
        )
        return world

    def step(self, events: Sequence[Event]) -> None:
        before = {record.job.job_id: copy.deepcopy(record) for record in self.scheduler.records()}
        step = self.scheduler.step(events, self.now_s)
        for record in self.scheduler.records():
            unlike = record != before.get(record.job.job_id)
            assert not unlike or record.job.job_id in step.changed, f"{record} has changed unseen"
        self.log += lines(step, self.now_s)
        self.auditor.obey(step.commands)
        for command in step.commands:
            if isinstance(command, StopWorker) and (command.job_id, command.worker) in self.auditor.running:
                self.leaving.add((command.job_id, command.worker))

    def events_of(self, turn: Sequence[Submit | Happen]) -> list[Event]:
        """What this turn means now; each process and each node is named at most once."""
        events: list[Event] = []
        busy: set[tuple[str, int]] = set()
        for item in turn:
            if isinstance(item, Submit):
                events.append(JobSubmitted(self._job(item)))
            else:
                events += self._happening(item, busy)
        return events

    def _job(self, item: Submit) -> Job:
        self.submitted += 1
        job = Job(
            job_id=f"job-{self.submitted}",
            request=item.request,
            submit_s=self.now_s,
            sequence=self.submitted,
            tenant=item.tenant,
            workers=item.workers,
            priority=item.priority,
            preemptible=item.preemptible,
            duration_s=item.duration_s,
            profile=item.profile,
            immediate=item.immediate,
            retries=1,
        )
        self.auditor.jobs[job.job_id] = job
        return job

    def _happening(self, item: Happen, busy: set[tuple[str, int]]) -> list[Event]:
        if item.what in ("lose", "return", "fence"):
            return self._to_node(item, busy)
        if item.what == "cancel":
            waiting = sorted(self.auditor.jobs)
            return [JobCancelled(waiting[item.which % len(waiting)])] if waiting else []
        pool = self.leaving if item.what == "leave" else set(self.auditor.running)
        free = sorted(pool - busy)
        if not free:
            return []
        job_id, worker = free[item.which % len(free)]
        busy.add((job_id, worker))
        cause = ExitCause.STOPPED if item.what == "leave" else ExitCause.EXITED
        return self._exit(job_id, worker, cause, 1 if item.what == "fail" else 0)

    def _exit(self, job_id: str, worker: int, cause: ExitCause, code: int) -> list[Event]:
        attempt = self.scheduler.record(job_id).attempt
        event = WorkerExited(
            job_id, attempt, worker, cause, code if cause is ExitCause.EXITED else None, served_s=1.0
        )
        self.auditor.report(event)
        self.leaving.discard((job_id, worker))
        return [WorkerStarted(job_id, attempt, worker), event] if cause is ExitCause.EXITED else [event]

    def _to_node(self, item: Happen, busy: set[tuple[str, int]]) -> list[Event]:
        node_id = sorted(self.nodes)[item.which % len(self.nodes)]
        if item.what == "return":
            self.down.discard(node_id)
            return [NodeJoined(self.nodes[node_id])]
        if ("node", hash(node_id)) in busy:
            return []
        self.down.add(node_id)
        if item.what == "lose":
            return [NodeLost(node_id)]
        here = [key for key, place in self.auditor.running.items() if place.node_id == node_id]
        if any(key in busy for key in here):
            return [NodeLost(node_id)]
        for key in here:
            busy.add(key)
            del self.auditor.running[key]
            self.leaving.discard(key)
        return [NodeLost(node_id), NodeFenced(node_id)]

    def check(self) -> None:
        """What must hold after every step."""
        assert self.auditor.complaints() == []
        waiting = [record.job.job_id for record in self.scheduler.waiting()]
        assert len(waiting) == len(set(waiting))
        for record in self.scheduler.records():
            queued = record.state is JobState.QUEUED
            assert queued == (record.job.job_id in waiting)
            assert not (queued and record.assignments), f"{record.job.job_id} is both waiting and placed"
            if (
                not self.scheduler.policy.order.preemptive
            ):  # else it may have lost its place before it started
                assert not (record.job.immediate and queued and record.attempt == 0)

    def empty(self) -> None:
        """Let everything end and everybody leave."""
        self.now_s += 1
        self.step([JobCancelled(job_id) for job_id in sorted(self.auditor.jobs)])
        while self.auditor.running:
            self.now_s += 1
            events: list[Event] = []
            for job_id, worker in sorted(self.auditor.running):
                events += self._exit(job_id, worker, ExitCause.STOPPED, 0)
            self.step(events)
            self.check()
