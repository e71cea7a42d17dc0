"""Shapes that an agent exchanges with the manager."""

from __future__ import annotations

import enum
from typing import Annotated, Self

from pydantic import Field, model_validator

from manager.wire.fields import (
    Amount,
    Body,
    Count,
    Flag,
    GpuUuid,
    Identifier,
    Milli,
    ModelName,
    Rate,
    Seconds,
    Shape,
    Slowdown,
    Text,
)
from manager.wire.models import AssignmentView, ProfileSpec
from placement.model import ExitCause, Gpu, Node, StopCause
from placement.model.hardware import MAX_GPUS_PER_NODE

MAX_REPORTS = 10_000
MAX_EPOCH = 1 << 53

Attempt = Annotated[int, Field(strict=True, ge=1, le=1_000_000)]
Epoch = Annotated[int, Field(strict=True, ge=0, le=MAX_EPOCH)]
ExitCode = Annotated[int, Field(strict=True, ge=-255, le=255)]


class GpuReport(Body):
    """One GPU of a node."""

    uuid: GpuUuid
    model: ModelName
    memory_bytes: Annotated[int, Field(strict=True, ge=1, le=1 << 62)] | None = None


class NodeReport(Body):
    """What a node is made of, and which agent speaks for it; None means unlimited or unknown."""

    gpus: Annotated[tuple[GpuReport, ...], Field(max_length=MAX_GPUS_PER_NODE, fail_fast=True)] = ()
    cpu_milli: Amount | None = None
    ram_bytes: Amount | None = None
    rack: Identifier | None = None
    nvlink_domain: Identifier | None = None
    """Nodes with the same one are joined by NVLink."""
    simulated: Flag = False
    instance: Identifier | None = None
    """Random id of the agent: two agents with one node id are told apart by it."""
    database_id: Identifier | None = None
    """The database that the agent's journal belongs to, None before the first welcome."""
    epoch: Epoch | None = None
    """The newest epoch that the agent has seen."""

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        if len({gpu.uuid for gpu in self.gpus}) != len(self.gpus):
            raise ValueError("gpus: two GPUs have the same uuid")
        return self

    def to_node(self, node_id: str) -> Node:
        """The core's node."""
        gpus = tuple(Gpu(gpu.uuid, gpu.model, gpu.memory_bytes) for gpu in self.gpus)
        return Node(node_id, gpus, self.cpu_milli, self.ram_bytes, self.nvlink_domain, self.rack)

    @classmethod
    def of(cls, node: Node, *, simulated: bool) -> Self:
        """The shape of a core node."""
        gpus = tuple(
            GpuReport(uuid=gpu.uuid, model=gpu.model, memory_bytes=gpu.memory_bytes) for gpu in node.gpus
        )
        where = {"rack": node.rack, "nvlink_domain": node.nvlink_domain}
        amounts = {"cpu_milli": node.cpu_milli, "ram_bytes": node.ram_bytes}
        return cls(gpus=gpus, **amounts, **where, simulated=simulated)


class Welcome(Shape):
    """The manager's answer to a node: refuse commands of an epoch older than the newest seen here."""

    epoch: Count
    lease_s: Seconds
    fence_s: Seconds
    database_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{0,63}$", strict=True)] = ""
    """Random id of the manager's database: ids of jobs mean something within one database alone."""
    profiles: tuple[ProfileSpec, ...] = ()


class WorkerState(enum.Enum):
    """What an agent knows of a worker."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    EXITED = "exited"
    """Gone, but its exit report has not been accepted yet."""


class HeldWorker(Body):
    """A worker that the agent holds, from the accepted start command to the accepted exit report."""

    job_id: Identifier
    attempt: Attempt
    worker: Count
    state: WorkerState


class GpuTelemetry(Body):
    """What a GPU does now; None is not measured."""

    gpu_uuid: GpuUuid
    sm_milli: Milli | None = None
    memory_used_bytes: Amount | None = None


class Heartbeat(Body):
    """Sign of life of a node; ``epoch`` is the newest that its agent has seen, ``instance`` its id."""

    epoch: Epoch = 0
    instance: Identifier | None = None
    workers: Annotated[tuple[HeldWorker, ...], Field(max_length=100_000, fail_fast=True)] = ()
    telemetry: Annotated[tuple[GpuTelemetry, ...], Field(max_length=MAX_GPUS_PER_NODE, fail_fast=True)] = ()


class CommandKind(enum.Enum):
    """What an agent is told to do."""

    START = "start"
    STOP = "stop"


class AgentCommand(Shape):
    """One command from the outbox; ``command``, ``env`` and ``assignment`` come with a start alone.

    The environment is complete: this is the only answer that carries its values.
    """

    sequence: Count
    epoch: Count
    kind: CommandKind
    job_id: Identifier
    attempt: Attempt
    worker: Count
    workers: Count = 1
    command: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)
    workdir: str | None = None
    assignment: AssignmentView | None = None
    profile: ProfileSpec | None = None
    cause: StopCause | None = None
    grace_s: Seconds = 0.0
    name: str = ""
    tenant: str = "default"


class CommandBatch(Shape):
    """Commands in the order in which they have to be done."""

    commands: tuple[AgentCommand, ...]


class ReportKind(enum.Enum):
    """What an agent tells about a worker."""

    STARTED = "started"
    EXITED = "exited"
    PROGRESS = "progress"


class WorkerReport(Body):
    """What happened to a worker; the same ``report_id`` is taken once however often it is sent.

    ``served_s`` is work of this attempt in solo-equivalent seconds.
    """

    report_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9._:/-]{1,200}$", strict=True)]
    kind: ReportKind
    job_id: Identifier
    attempt: Attempt
    worker: Count
    cause: ExitCause | None = None
    exit_code: ExitCode | None = None
    message: Text = ""
    served_s: Seconds | None = None
    step: Count | None = None
    steps_per_s: Rate | None = None
    observed_slowdown: Slowdown | None = None
    at_s: Seconds | None = None

    @model_validator(mode="after")
    def _has_cause(self) -> Self:
        if (self.kind is ReportKind.EXITED) != (self.cause is not None):
            raise ValueError("cause: must be given with an exit report, and only there")
        return self


class ReportBatch(Body):
    """Reports in the order in which things happened."""

    reports: Annotated[tuple[WorkerReport, ...], Field(max_length=MAX_REPORTS, fail_fast=True)]


class Ack(Body):
    """All commands up to and including ``sequence`` are dealt with: carried out, or ended with a reason."""

    sequence: Count


class LogSize(Shape):
    """How many bytes of a worker's output the manager holds."""

    size: Count
