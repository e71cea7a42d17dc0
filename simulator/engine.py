"""The simulated world around the decision core: arrivals, progress under slowdown, completions.

A job costs a handful of heap events.  All that happens at one time reaches the core in one step, and only
the residents of a touched GPU are looked at again.
"""

from __future__ import annotations

import gc
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from simpy.events import Event as Tick

from placement.decision_log import lines
from placement.engine import compile_kernels
from placement.interference import InterferenceModel
from placement.lifecycle import ENDED, JobRecord, JobState
from placement.model import (
    Event,
    ExitCause,
    JobSubmitted,
    Mode,
    NodeJoined,
    Profile,
    ProfileDefined,
    SpeedObserved,
    StartWorker,
    StopCause,
    StopWorker,
    WorkerExited,
    WorkerStarted,
)
from placement.options import Options
from placement.partition import DEFAULT_COSTS, TransitionCosts
from placement.policies import policy_named
from placement.report import JobOutcome, Measured, Metrics, RunCounters, metrics_of, outcome_of
from placement.scheduler import Scheduler, Step
from placement.trace import TraceRow
from simulator.clock import ARRIVAL, NORMAL, Environment
from simulator.cluster_spec import ClusterSpec
from simulator.contention import Contention, Running

Progress = Callable[[int, int], None]
"""Told how many of how many jobs have ended."""

_PROGRESS_STEPS = 200
_COUNTED = re.compile(r" \([0-9]+\)|; ")
_EXCLUSIVE, _EXITED = Mode.EXCLUSIVE, ExitCause.EXITED  # attributes of an enum are slower to read


@dataclass(frozen=True, slots=True)
class SimulationOptions:
    """Everything that shapes a run besides the trace and the cluster.

    ``truth`` makes jobs slow, ``belief`` is what the policy thinks of it.  ``load_s`` is the time already
    spent on reading the trace; ``compiled`` allows the kernels of the extra ``fast``, which decide alike;
    ``tell`` gets a line before they are compiled, which takes long.
    ``costs`` is what a move takes: the place is free after drain, destroying and creating, and the job that
    was moved does nothing until it has restored its state.  By default 30 s in all, as in MISO's simulator.
    A preempted job loses nothing but its place.
    """

    policy: str
    truth: InterferenceModel
    belief: InterferenceModel
    seed: int = 0
    profiles: Sequence[Profile] = ()
    known_durations: bool = False
    keep_decision_log: bool = False
    load_s: float = 0.0
    compiled: bool = True
    progress: Progress | None = None
    tell: Callable[[str], None] = lambda _line: None
    costs: TransitionCosts = DEFAULT_COSTS


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """What came of a run; outcomes stand in the order of submission, ``rejections`` counts jobs by reason."""

    metrics: Metrics
    outcomes: list[JobOutcome]
    decision_log: list[str]
    rejections: Mapping[str, int] = field(default_factory=dict)
    compile_s: float = 0.0


def simulate(rows: Sequence[TraceRow], cluster: ClusterSpec, options: SimulationOptions) -> SimulationResult:
    """Replay a workload on a cluster.

    Raises:
        UnknownName, InvalidSpec: the policy does not exist.
    """
    loading_s = time.perf_counter()
    world = _World(rows, cluster, options)
    loaded_s = time.perf_counter()
    if options.compiled:
        compile_kernels(world.scheduler.policy.placement, options.tell)
    begun_s = time.perf_counter()
    with calm_collector():
        world.run()
    wall_s = time.perf_counter() - begun_s
    outcomes = world.outcomes()
    counters = RunCounters(
        events=world.scheduler.events,
        decisions=world.scheduler.decisions,
        load_s=options.load_s + loaded_s - loading_s,
        wall_s=wall_s,
    )
    metrics = metrics_of(outcomes, cluster.gpu_count * 1000, counters, world.env.now)
    return SimulationResult(metrics, outcomes, world.decision_log, world.rejections, begun_s - loaded_s)


@contextmanager
def calm_collector() -> Iterator[None]:
    """Keep the garbage collector from walking the whole trace again and again."""
    thresholds = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 1000)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()


class _World:
    def __init__(self, rows: Sequence[TraceRow], cluster: ClusterSpec, options: SimulationOptions) -> None:
        policy = policy_named(options.policy)
        policy.placement.check(cluster.nodes)
        self._tells_speeds = policy.placement.trials
        self.env = Environment()
        core = Options(seed=options.seed, compiled=options.compiled)
        self.scheduler = Scheduler(policy, options.belief, core)
        self.decision_log: list[str] = []
        self.rejections: Counter[str] = Counter()
        self._keep_log = options.keep_decision_log
        self._progress = options.progress
        self._costs = options.costs
        known = options.known_durations or policy.knows_durations
        self._rows = {row.job_id: row for row in rows}
        ordered = sorted(rows, key=lambda row: row.submit_s)
        self._sequence = {row.job_id: number for number, row in enumerate(ordered)}
        self._outcomes: list[JobOutcome | None] = [None] * len(ordered)
        runnable = [row for row in ordered if row.duration_by_model_s is None or row.duration_by_model_s]
        for row in ordered:
            if row.duration_by_model_s is not None and not row.duration_by_model_s:
                self._outcomes[self._sequence[row.job_id]] = _never_runnable(row)
        self._arrivals = [
            JobSubmitted(row.to_job(self._sequence[row.job_id], duration_known=known)) for row in runnable
        ]
        self._next_arrival = 0
        self._gpu_models = {gpu.uuid: gpu.model for node in cluster.nodes for gpu in node.gpus}
        self._profiles = {profile.name: profile for profile in options.profiles}
        self._contention = Contention(options.truth, self._gpu_models)
        self._running: dict[str, Running] = {}
        self._fresh: dict[Running, None] = {}
        self._batch: list[Event] = []
        self._wake_s: float | None = None
        self._due = False
        self._ended = 0
        self._progress_every = max(len(ordered) // _PROGRESS_STEPS, 1)
        setting: list[Event] = [NodeJoined(node) for node in cluster.nodes]
        setting += [ProfileDefined(profile) for profile in options.profiles]
        self._note(self.scheduler.step(setting, 0.0))

    def run(self) -> None:
        """Let everything happen."""
        env = self.env
        if self._arrivals:
            env.at(self._arrivals[0].job.submit_s, ARRIVAL, self._arrive)
        while env.advance():
            if self._batch or self._due:
                self._decide()

    # What happens in the world.

    def _arrive(self, tick: Tick) -> None:
        now_s, arrivals = self.env.now, self._arrivals
        number, count = self._next_arrival, len(arrivals)
        while number < count and arrivals[number].job.submit_s <= now_s:
            self._batch.append(arrivals[number])
            number += 1
        self._next_arrival = number
        if number < count:
            self.env.at(arrivals[number].job.submit_s, ARRIVAL, self._arrive)

    def _complete(self, run: Running, tick: Tick) -> None:
        if run.completion is not tick:
            return
        run.settle(self.env.now)
        run.served_s += run.remaining_s or 0.0
        run.remaining_s, run.completion = 0.0, None
        self._contention.leave(run)
        served_s = run.served_s - run.attempt_from_s
        for worker in run.workers:
            self._batch.append(WorkerExited(run.job_id, run.attempt, worker, _EXITED, 0, "", served_s))

    # What the core decides.

    def _decide(self) -> None:
        """Nothing more happens now: the core hears of all of it at once."""
        now_s = self.env.now
        self._due = False
        while True:
            events, self._batch = self._batch, []
            step = self.scheduler.step(events, now_s)
            self._note(step)
            if step.commands:
                self._obey(step.commands, now_s)
            if not self._batch and (self._fresh or self._contention.disturbed):
                self._reschedule(now_s)
            if not self._batch:  # else there are speeds to tell
                break
        self._wake()

    def _note(self, step: Step) -> None:
        if self._keep_log:
            self.decision_log += lines(step, self.env.now)
        for transition in step.transitions:
            if transition.after in ENDED:
                self._end(transition.job_id)

    def _obey(self, commands: Sequence[StartWorker | StopWorker], now_s: float) -> None:
        starts: dict[str, list[StartWorker]] = {}
        for command in commands:
            if isinstance(command, StartWorker):
                starts.setdefault(command.job_id, []).append(command)
                continue
            if command.job_id in starts:
                self._start(command.job_id, starts.pop(command.job_id), now_s)
            self._stop(command, now_s)
        for job_id, workers in starts.items():
            self._start(job_id, workers, now_s)

    def _start(self, job_id: str, workers: Sequence[StartWorker], now_s: float) -> None:
        row = self._rows[job_id]
        run = self._running.get(job_id)
        if run is None:
            run = self._running[job_id] = Running(job_id)
        shares = [share for command in workers for share in command.assignment.shares]
        solo_s = row.duration_s
        if row.duration_by_model_s is not None:
            times_s = [row.solo_s(self._gpu_models[share.gpu_uuid]) for share in shares]
            solo_s = max((time_s for time_s in times_s if time_s is not None), default=None)
        if run.attempt == 0:
            run.remaining_s = solo_s
        elif solo_s != run.solo_s and solo_s is not None and run.solo_s and run.remaining_s is not None:
            # The rest of the work, in seconds of the GPU model where it goes on.
            run.remaining_s *= solo_s / run.solo_s
        run.solo_s, run.since_s, run.slowdown = solo_s, now_s, 1.0
        run.attempt, run.attempt_from_s = workers[0].attempt, run.served_s
        run.gpu_milli = sum([share.compute_milli for share in shares])
        run.workers = [command.assignment.worker for command in workers]
        for share in shares:
            if share.mode is not _EXCLUSIVE:
                profile = self._profiles.get(row.profile) if row.profile is not None else None
                self._contention.enter(run, share, profile)
        self._batch += [WorkerStarted(job_id, run.attempt, worker) for worker in run.workers]
        self._fresh[run] = None

    def _stop(self, command: StopWorker, now_s: float) -> None:
        """A worker obeys at once, one that is moved in due time; the first of a gang ends the work of all."""
        run = self._running[command.job_id]
        run.settle(now_s)
        run.completion = None
        self._fresh.pop(run, None)  # placed and put back in one moment: it does no work
        self._contention.leave(run)
        served_s = run.served_s - run.attempt_from_s
        gone = WorkerExited(
            command.job_id, command.attempt, command.worker, ExitCause.STOPPED, None, "", served_s
        )
        run.idle_s = 0.0
        if command.cause is not StopCause.MOVED:
            self._batch.append(gone)
            return
        costs = self._costs
        run.idle_s = costs.restore_s
        takes_s = costs.drain_s + costs.destroy_s + costs.create_s
        if takes_s:
            self.env.at(now_s + takes_s, NORMAL, lambda _tick: self._batch.append(gone))
        else:
            self._batch.append(gone)

    def _reschedule(self, now_s: float) -> None:
        """New jobs, and those whose neighbours changed, get the time at which they will be done."""
        pending, self._fresh = self._fresh, {}
        for run, slowdowns in self._contention.changed().items() if self._contention.disturbed else ():
            # The work done until now went at the old speed.
            run.settle(now_s)
            run.slowdowns.update(slowdowns)
            slowdown = max((known for known in run.slowdowns.values() if known is not None), default=1.0)
            if slowdown != run.slowdown:
                run.slowdown = slowdown
                pending[run] = None
            if self._tells_speeds and run.slowdowns:
                told = None if None in run.slowdowns.values() else slowdown
                self._batch.append(SpeedObserved(run.job_id, run.attempt, told))
        for run in pending:
            if run.remaining_s is not None:
                left_s = run.remaining_s if run.slowdown == 1.0 else run.remaining_s * run.slowdown
                done_s = now_s + (run.idle_s + left_s if run.idle_s else left_s)
                run.completion = self.env.at(done_s, NORMAL, partial(self._complete, run))

    def _wake(self) -> None:
        """Come back when the core says that a time limit is reached, even if nothing happens."""
        wake_s = self.scheduler.next_deadline_s()
        if wake_s is not None and wake_s != self._wake_s:
            self._wake_s = wake_s
            self.env.at(max(wake_s, self.env.now), NORMAL, self._alarm)

    def _alarm(self, tick: Tick) -> None:
        if self._wake_s is not None and self._wake_s <= self.env.now:
            self._wake_s, self._due = None, True

    # What came of it.

    def _end(self, job_id: str) -> None:
        number = self._sequence[job_id]
        record = self.scheduler.record(job_id)
        if record.state is JobState.REJECTED:
            self.rejections[_main_reason(record.failure)] += 1
        self._outcomes[number] = self._outcome(record, self._running.pop(job_id, None))
        self.scheduler.forget(job_id)
        self._ended += 1
        if self._progress is not None and self._ended % self._progress_every == 0:
            self._progress(self._ended, len(self._outcomes))

    def _outcome(self, record: JobRecord, run: Running | None) -> JobOutcome:
        measured = Measured()
        if run is not None:
            measured = Measured(run.gpu_milli, run.served_s, run.observed_slowdown)
        return outcome_of(record, measured, self.env.now)

    def outcomes(self) -> list[JobOutcome]:
        """One outcome per row, also of jobs that still run or wait when nothing more will happen."""
        now_s = self.env.now
        for record in list(self.scheduler.records()):
            run = self._running.get(record.job.job_id)
            if run is not None and record.state is JobState.RUNNING:
                run.settle(now_s)
            self._outcomes[self._sequence[record.job.job_id]] = self._outcome(record, run)
        return [outcome for outcome in self._outcomes if outcome is not None]


def _main_reason(failure: str) -> str:
    """What rules out most GPUs, without how many: jobs of one kind are rejected in the same words."""
    return _COUNTED.split(failure, maxsplit=1)[0]


def _never_runnable(row: TraceRow) -> JobOutcome:
    """A job whose trace knows no GPU model that could run it."""
    return JobOutcome(
        job_id=row.job_id,
        tenant=row.tenant,
        state=JobState.REJECTED,
        submit_s=row.submit_s,
        first_placed_s=None,
        ended_s=row.submit_s,
        gpu_milli=0,
        held_s=0.0,
        served_s=None,
        slowdown=None,
        max_slowdown=row.request.max_slowdown,
        preemptions=0,
    )
