"""Shapes that users exchange with the manager."""

from __future__ import annotations

import base64
from typing import Annotated, Self

from pydantic import Field, model_validator

from manager.wire.fields import (
    Amount,
    Argument,
    Body,
    Count,
    Flag,
    GpuUuid,
    Identifier,
    Milli,
    ModelName,
    Rate,
    Shape,
    Text,
    VariableName,
    at_most,
)
from placement.lifecycle import JobState
from placement.model import (
    Devices,
    InvalidSpec,
    Isolation,
    Job,
    JobKind,
    Level,
    Mode,
    Profile,
    Request,
    Share,
    Together,
)

MAX_COMMAND_CHARS = 1 << 20
MASK = "***"
"""What answers show instead of the value of a job's environment variable."""


class TogetherSpec(Body):
    """What the workers of a gang shall have in common, and whether they must."""

    level: Level
    required: Flag = False


class RequestSpec(Body):
    """What one worker asks for; the fields are those of :class:`placement.model.Request`."""

    gpus: Annotated[int, Field(strict=True, ge=0, le=1024)] = 1
    memory_bytes: Annotated[int, Field(strict=True, ge=1, le=1 << 62)] | None = None
    compute_milli: Annotated[int, Field(strict=True, ge=1, le=1000)] | None = None
    gpu_models: Annotated[tuple[ModelName, ...], Field(max_length=64, fail_fast=True)] = ()
    modes: Annotated[tuple[Mode, ...], Field(max_length=16, fail_fast=True)] = ()
    """Modes that are accepted; none means any."""
    mig_profile: ModelName | None = None
    isolation: Isolation = Isolation.NONE
    max_slowdown: Annotated[float, Field(strict=True, ge=1, le=1e6, allow_inf_nan=False)] | None = None
    cpu_milli: Amount = 0
    ram_bytes: Amount = 0
    devices: Devices = Devices.DISTINCT
    """Whether several shares of a worker are on different GPUs, or all on the same."""
    together: TogetherSpec | None = None

    def to_request(self) -> Request:
        """The core's request.

        Raises:
            InvalidInput: two fields contradict each other.
        """
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        fields["modes"] = frozenset(self.modes or Mode)
        if self.together is not None:
            fields["together"] = Together(self.together.level, self.together.required)
        return Request(**fields)

    @classmethod
    def of(cls, request: Request) -> Self:
        """The shape of a core request."""
        fields = {name: getattr(request, name) for name in cls.model_fields}
        fields["gpu_models"] = request.gpu_models
        fields["modes"] = tuple(sorted(request.modes, key=lambda mode: mode.value))
        wish = request.together
        if wish is not None:
            fields["together"] = TogetherSpec(level=wish.level, required=wish.required)
        return cls(**fields)


class JobSpec(Body):
    """A submission."""

    name: Text = ""
    tenant: Identifier = "default"
    command: Annotated[tuple[Argument, ...], Field(min_length=1, max_length=10_000, fail_fast=True)]
    env: Annotated[dict[VariableName, Argument], at_most(1000)] = Field(default_factory=dict)
    workdir: Text | None = None
    workers: Annotated[int, Field(strict=True, ge=1, le=100_000)] = 1
    kind: JobKind = JobKind.TRAINING
    priority: Annotated[int, Field(strict=True, ge=-1_000_000, le=1_000_000)] = 0
    preemptible: Flag = True
    retries: Annotated[int, Field(strict=True, ge=0, le=1000)] = 0
    time_limit_s: Annotated[float, Field(strict=True, gt=0, le=1e9, allow_inf_nan=False)] | None = None
    duration_s: Annotated[float, Field(strict=True, ge=0, le=1e9, allow_inf_nan=False)] | None = None
    """Solo run time that the policies may know; most users do not."""
    profile: Identifier | None = None
    grace_s: Annotated[float, Field(strict=True, ge=0, le=86_400, allow_inf_nan=False)] = 5.0
    request: RequestSpec = RequestSpec()

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if not self.command[0]:
            raise ValueError("command: the program's name is empty")
        size = sum(map(len, self.command)) + sum(len(k) + len(v) for k, v in self.env.items())
        if size > MAX_COMMAND_CHARS:
            raise ValueError(
                f"command and env together have {size} characters; at most {MAX_COMMAND_CHARS} fit"
            )
        return self

    def to_job(self, job_id: str, submit_s: float, sequence: int) -> Job:
        """The core's job.

        Raises:
            InvalidInput: two fields contradict each other.
        """
        return Job(
            job_id=job_id,
            request=self.request.to_request(),
            submit_s=submit_s,
            sequence=sequence,
            name=self.name,
            tenant=self.tenant,
            workers=self.workers,
            kind=self.kind,
            priority=self.priority,
            preemptible=self.preemptible,
            retries=self.retries,
            time_limit_s=self.time_limit_s,
            duration_s=self.duration_s,
            profile=self.profile,
            grace_s=self.grace_s,
        )


class ShareView(Shape):
    """One share that a worker holds; the fields are those of :class:`placement.model.Share`."""

    gpu_uuid: GpuUuid
    mode: Mode
    compute_milli: Milli
    memory_bytes: Amount | None = None
    mig_profile: ModelName | None = None
    mig_start: Count | None = None
    gpu_model: ModelName | None = None
    """The GPU's model, None if its node has been forgotten."""

    def to_share(self) -> Share:
        """The core's share."""
        return Share(**self.model_dump(exclude={"gpu_model"}))


class AssignmentView(Shape):
    """Where one worker runs and what it holds there."""

    worker: Count
    node_id: Identifier
    shares: tuple[ShareView, ...] = ()


class ProfileSpec(Body):
    """What is known of a job on a GPU; None is unknown.

    ``steps_per_s`` maps a GPU model, or ``*`` for any, to the solo step rate there.
    """

    name: Identifier
    steps_per_s: Annotated[dict[Text, Rate], at_most(256)] = Field(default_factory=dict)
    sm_milli: Milli | None = None
    dram_milli: Milli | None = None
    l2_milli: Milli | None = None
    pcie_milli: Milli | None = None
    memory_bytes: Amount | None = None

    def to_profile(self) -> Profile:
        """The core's profile.

        Raises:
            InvalidSpec: a rate is not above 0.
        """
        return Profile(**self.model_dump())

    @classmethod
    def of(cls, profile: Profile) -> Self:
        """The shape of a core profile."""
        fields = {name: getattr(profile, name) for name in cls.model_fields}
        fields["steps_per_s"] = dict(profile.steps_per_s)
        return cls(**fields)


class JobView(Shape):
    """A job as users see it; times are unix seconds, unknown values are None, env values are masked."""

    job_id: Identifier
    name: str
    tenant: str
    state: JobState
    attempt: int
    command: tuple[str, ...]
    env: dict[str, str]
    workdir: str | None
    request: RequestSpec
    workers: int
    kind: JobKind
    priority: int
    preemptible: bool
    retries: int
    time_limit_s: float | None
    profile: str | None
    submit_s: float
    first_placed_s: float | None = None
    placed_s: float | None = None
    ended_s: float | None = None
    exit_code: int | None = None
    failure: str = ""
    preemptions: int = 0
    moves: int = 0
    retries_used: int = 0
    assignments: tuple[AssignmentView, ...] = ()
    """Where it runs; for an ended job where its last attempt ran."""
    neighbours: tuple[str, ...] = ()
    """Jobs that shared a GPU with it at any time."""
    predicted_slowdown: float | None = None
    predicted_upper: float | None = None
    observed_slowdown: float | None = None
    step: int | None = None
    steps_per_s: float | None = None
    position: int | None = None
    """Place in the queue, from 0; None when it does not wait."""
    note: str = ""


class JobEvent(Shape):
    """One move of a job's life."""

    sequence: int
    job_id: str
    attempt: int
    before: JobState | None
    after: JobState
    at_s: float
    note: str = ""


class ExplanationView(Shape):
    """Why a job waits or was placed where it is; reasons are counted."""

    job_id: str
    outcome: str
    """no-fit, preempt, repartition or fit."""
    reasons: dict[str, int]
    candidates: int | None
    """How many nodes could have held it; None if only some were looked at."""
    predicted_slowdown: float | None
    predicted_upper: float | None
    note: str = ""
    neighbours: tuple[str, ...] = ()
    """Jobs that hold shares of its GPUs now, by submission."""


class LogChunk(Shape):
    """A part of a worker's output."""

    text_base64: str
    attempt: int
    next_offset: int
    complete: bool
    """Nothing will be added any more, and this chunk reaches the end."""

    @property
    def data(self) -> bytes:
        """The bytes."""
        return base64.b64decode(self.text_base64)


class GpuTenancy(Shape):
    """One share on a GPU and who holds it."""

    job_id: str
    tenant: str
    worker: int
    state: JobState
    share: ShareView


class GpuView(Shape):
    """One GPU with its shares; telemetry is None until its agent measured it."""

    uuid: str
    model: str
    node_id: str
    slot: int
    memory_bytes: int | None
    available: bool
    sm_milli: int | None = None
    memory_used_bytes: int | None = None
    tenancies: tuple[GpuTenancy, ...] = ()


class NodeView(Shape):
    """One node; ``last_seen_s`` is when its agent was last in contact, in unix seconds.

    It is None as long as this manager knows the node from its database alone.
    """

    node_id: str
    state: str
    """up, lost (its jobs may still run) or fenced (nothing runs there any more)."""
    simulated: bool
    cpu_milli: int | None
    ram_bytes: int | None
    gpus: tuple[str, ...]
    """The models, by slot."""
    workers: int
    """Workers that are placed there."""
    last_seen_s: float | None = None
    rack: str | None = None
    nvlink_domain: str | None = None
    """Nodes with the same one are joined by NVLink; None is unknown, as for the rack."""


class InfoView(Shape):
    """What this manager is; ``epoch`` counts its starts."""

    version: str
    policy: str
    belief: str
    epoch: int
    started_s: float
    now_s: float
    database: str


class ErrorBody(Shape):
    """The body of every answer that is not a success: one line."""

    error: str


def check_profile_name(path_name: str, spec: ProfileSpec) -> None:
    """Refuse a profile whose name differs from the one in the address.

    Raises:
        InvalidSpec: they differ.
    """
    if path_name != spec.name:
        raise InvalidSpec(
            f"profile: the address says {path_name!r}, the body says {spec.name!r}; make them equal"
        )
