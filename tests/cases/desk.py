"""A scheduler with a clock and a pen: events go in by short names, decisions come out as short lines."""

from __future__ import annotations

from dataclasses import dataclass, field

from placement.interference import model_named
from placement.lifecycle import JobState
from placement.model import (
    Event,
    ExitCause,
    Job,
    JobCancelled,
    JobSubmitted,
    Mode,
    Node,
    NodeJoined,
    Reason,
    Request,
    Share,
    StartWorker,
    WorkerExited,
    WorkerStarted,
    node_from_short_form,
)
from placement.options import Options
from placement.policies import policy_named
from placement.scheduler import Scheduler

EXCLUSIVE, MIG, MPS, TIMESLICE = (
    frozenset({mode}) for mode in (Mode.EXCLUSIVE, Mode.MIG, Mode.MPS, Mode.TIMESLICE)
)
WHOLE = Request(modes=EXCLUSIVE)
GIB = 1 << 30


def node(node_id: str, gpus: str | None, cpu_milli: int | None = None, ram_bytes: int | None = None) -> Node:
    """A node from ``2xV100-SXM2-32GB``, or without GPUs for None."""
    held = node_from_short_form(gpus, node_id).gpus if gpus else ()
    return Node(node_id, held, cpu_milli, ram_bytes)


def whole(gpus: int, **fields) -> Request:
    return Request(gpus=gpus, modes=EXCLUSIVE, **fields)


def mig(profile: str, **fields) -> Request:
    return Request(modes=MIG, mig_profile=profile, **fields)


def turn(compute_milli: int, **fields) -> Request:
    return Request(compute_milli=compute_milli, modes=TIMESLICE, **fields)


def mps(compute_milli: int, **fields) -> Request:
    return Request(compute_milli=compute_milli, modes=MPS, **fields)


def exited(job_id: str, code: int = 0, *, attempt: int = 1, worker: int = 0, **fields) -> WorkerExited:
    return WorkerExited(job_id, attempt, worker, ExitCause.EXITED, code, **fields)


def stopped(job_id: str, *, attempt: int = 1, worker: int = 0, **fields) -> WorkerExited:
    return WorkerExited(job_id, attempt, worker, ExitCause.STOPPED, **fields)


def began(job_id: str, *, attempt: int = 1, worker: int = 0) -> WorkerStarted:
    return WorkerStarted(job_id, attempt, worker)


@dataclass
class Desk:
    """One scheduler; every call of :meth:`tell` is one step, a second after the last."""

    policy: str
    nodes: tuple[Node, ...]
    belief: str = "none"
    seed: int = 0
    compiled: bool = False
    now_s: float = 0.0
    submitted: int = 0
    scheduler: Scheduler = field(init=False)

    def __post_init__(self) -> None:
        self.scheduler = Scheduler(
            policy_named(self.policy),
            model_named(self.belief),
            Options(seed=self.seed, compiled=self.compiled),
        )
        self.tell(*[NodeJoined(member) for member in self.nodes])

    def job(self, job_id: str, request: Request = WHOLE, **fields) -> JobSubmitted:
        self.submitted += 1
        return JobSubmitted(Job(job_id, request, self.now_s, self.submitted, **fields))

    def submit(self, job_id: str, request: Request = WHOLE, **fields) -> list[str]:
        return self.tell(self.job(job_id, request, **fields))

    def tell(self, *events: Event, at_s: float | None = None) -> list[str]:
        """One step; its orders as ``start job.worker node gpu,gpu`` and ``stop job.worker cause``."""
        self.now_s = self.now_s + 1 if at_s is None else at_s
        step = self.scheduler.step(events, self.now_s)
        return [_short(command) for command in step.commands]

    def state(self, job_id: str) -> JobState:
        return self.scheduler.record(job_id).state

    def states(self) -> str:
        """All jobs in the order of submission: ``a running, b queued``."""
        return ", ".join(f"{r.job.job_id} {r.state.value}" for r in self.scheduler.records())

    def holds(self, job_id: str) -> str:
        """What a job holds, worker by worker: ``n-0:mps:300 n-1:1g.10gb@6``; the node if no GPU."""
        held = self.scheduler.record(job_id).assignments
        return " ".join(_share(share) for a in held for share in a.shares) or " ".join(
            a.node_id for a in held
        )

    def leave_all(self) -> None:
        """Cancel everybody, and everybody leaves."""
        self.tell(*[JobCancelled(record.job.job_id) for record in self.scheduler.records()])
        for record in list(self.scheduler.records()):
            for worker in range(record.job.workers):
                self.tell(stopped(record.job.job_id, attempt=record.attempt, worker=worker))

    def waiting(self) -> list[str]:
        return [record.job.job_id for record in self.scheduler.waiting()]

    def reasons(self, job_id: str) -> dict[Reason, int]:
        return dict(self.scheduler.explain(job_id).reasons)


def _share(share: Share) -> str:
    slot = share.gpu_uuid.removeprefix("GPU-")
    cut = "" if share.mig_profile is None else f":{share.mig_profile}@{share.mig_start}"
    if share.mode is Mode.MIG:
        return f"{slot}{cut}"
    return f"{slot}:{share.mode.value}:{share.compute_milli}{cut}"


def _short(command) -> str:
    if isinstance(command, StartWorker):
        held = command.assignment
        slots = ",".join(share.gpu_uuid.removeprefix("GPU-") for share in held.shares)
        return f"start {command.job_id}.{held.worker} {slots or held.node_id}"
    return f"stop {command.job_id}.{command.worker} {command.cause.value}"
