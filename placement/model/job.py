"""What a user asks for: a Job of equal workers, each with one Request."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from placement.model.amounts import MAX_BYTES, WHOLE_GPU_MILLI, format_milli, is_finite
from placement.model.errors import InvalidAmount, InvalidSpec

MAX_WORKERS = 100_000
MAX_GPUS_PER_WORKER = 1024


class Mode(enum.Enum):
    """How a share of a GPU is held."""

    __hash__ = object.__hash__  # members are unique objects; the default hashes the name in Python

    EXCLUSIVE = "exclusive"
    MIG = "mig"
    MPS = "mps"
    TIMESLICE = "timeslice"


class Isolation(enum.Enum):
    """Who may be a neighbour: anyone, the same tenant, or nobody on the same silicon."""

    __hash__ = object.__hash__  # members are unique objects; the default hashes the name in Python

    NONE = "none"
    TENANT = "tenant"
    HARDWARE = "hardware"


class JobKind(enum.Enum):
    """What the job is for; policies may treat kinds differently."""

    TRAINING = "training"
    INFERENCE = "inference"
    REALTIME = "realtime"
    INTERACTIVE = "interactive"


class Lifetime(enum.IntEnum):
    """How long a job holds its shares, roughly."""

    UNKNOWN = 0
    BELOW_1_H = 1
    BELOW_10_H = 2
    BELOW_100_H = 3
    LONGER = 4


ANY_MODE = frozenset(Mode)


class Devices(enum.Enum):
    """Where several shares of one worker go: each to another GPU of the node, or all to the same."""

    __hash__ = object.__hash__  # members are unique objects; the default hashes the name in Python

    DISTINCT = "distinct"
    SAME = "same"


class Level(enum.Enum):
    """What the workers of a gang may have in common: a place, tightest first, or the model of their GPUs."""

    __hash__ = object.__hash__  # members are unique objects; the default hashes the name in Python

    NODE = "node"
    NVLINK = "nvlink"
    RACK = "rack"
    GPU_TYPE = "gpu-type"


@dataclass(frozen=True, slots=True)
class Together:
    """The wish that all workers of a gang share one domain of a level; ``required``: or do not start."""

    level: Level
    required: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """What one worker needs; amounts are per share of a GPU, CPU and RAM per worker.

    ``gpus`` counts shares: whole GPUs, or shares that ``devices`` puts on as many GPUs or on one.
    ``memory_bytes`` None means unknown: it then constrains nothing.  ``compute_milli`` None means auto:
    :func:`placement.partition.needs.needs_of` derives it from the profile or the memory, else a whole GPU.

    Raises:
        InvalidAmount, InvalidSpec: a field is out of range or two fields contradict each other.
    """

    gpus: int = 1
    memory_bytes: int | None = None
    compute_milli: int | None = None
    gpu_models: tuple[str, ...] = ()
    modes: frozenset[Mode] = ANY_MODE
    mig_profile: str | None = None
    isolation: Isolation = Isolation.NONE
    max_slowdown: float | None = None
    cpu_milli: int = 0
    ram_bytes: int = 0
    devices: Devices = Devices.DISTINCT
    together: Together | None = None

    @property
    def gpus_apart(self) -> int:
        """On how many different GPUs the shares of one worker lie."""
        return 1 if self.devices is Devices.SAME else self.gpus

    @property
    def shares_per_gpu(self) -> int:
        """How many shares one worker holds of each of its GPUs."""
        return self.gpus if self.devices is Devices.SAME else 1

    def __post_init__(self) -> None:
        _within("gpus", self.gpus, 0, MAX_GPUS_PER_WORKER)
        _within("cpu_milli", self.cpu_milli, 0, MAX_BYTES)
        _within("ram_bytes", self.ram_bytes, 0, MAX_BYTES)
        if self.memory_bytes is not None:
            _within("memory", self.memory_bytes, 1, MAX_BYTES)
        if self.compute_milli is not None:
            _within("compute", self.compute_milli, 1, WHOLE_GPU_MILLI)
        if self.max_slowdown is not None and not (is_finite(self.max_slowdown) and self.max_slowdown >= 1):
            raise InvalidAmount(f"max_slowdown: {self.max_slowdown} must be a number of at least 1")
        if not self.modes:
            raise InvalidSpec("mode: at least one mode must be accepted")
        if self.isolation is Isolation.HARDWARE and not self.modes & {Mode.EXCLUSIVE, Mode.MIG}:
            raise InvalidSpec("isolation: hardware needs mode exclusive or mig, and neither is accepted")
        if self.mig_profile is not None and Mode.MIG not in self.modes:
            raise InvalidSpec(f"mig_profile: {self.mig_profile!r} asks for MIG, but mode does not accept mig")
        if self.devices is Devices.SAME:
            self._check_one_gpu()
        if self.together is not None and not self.gpus and self.together.level in _ABOUT_GPUS:
            raise InvalidSpec(
                f"together: {self.together.level.value} is about GPUs, and the workers ask for none"
            )

    def _check_one_gpu(self) -> None:
        """Several shares of one GPU must be shares, several, and no more than the GPU.

        Raises:
            InvalidAmount, InvalidSpec: they are not.
        """
        if self.gpus < 2:
            raise InvalidSpec("devices: same puts several shares on one GPU; ask for at least 2 with gpus")
        if self.modes <= {Mode.EXCLUSIVE}:
            raise InvalidSpec("devices: same shares a GPU, but mode accepts exclusive alone")
        if self.isolation is Isolation.HARDWARE and Mode.MIG not in self.modes:
            raise InvalidSpec("devices: same with isolation hardware needs mode mig, and it is not accepted")
        if self.compute_milli is not None and self.compute_milli * self.gpus > WHOLE_GPU_MILLI:
            raise InvalidAmount(
                f"devices: {self.gpus} shares of {format_milli(self.compute_milli)} "
                "are more than the same GPU has"
            )


_ABOUT_GPUS = frozenset({Level.NVLINK, Level.GPU_TYPE})


@dataclass(frozen=True, slots=True)
class Job:
    """One submission; ``workers`` start together or not at all.

    ``submit_s`` is in the manager's (or the simulator's) seconds; ``sequence`` is the order of arrival and
    breaks every tie.  ``duration_s`` is what the policies may know of the solo run time, None if unknown.
    ``immediate`` jobs are decided once, on arrival: placed or rejected, never queued.  ``lifetime`` is what
    the scheduler takes it for, given by :mod:`placement.lifetimes` on arrival.
    """

    job_id: str
    request: Request
    submit_s: float
    sequence: int
    name: str = ""
    tenant: str = "default"
    workers: int = 1
    kind: JobKind = JobKind.TRAINING
    priority: int = 0
    preemptible: bool = True
    retries: int = 0
    time_limit_s: float | None = None
    duration_s: float | None = None
    profile: str | None = None
    grace_s: float = 5.0
    immediate: bool = False
    lifetime: Lifetime = Lifetime.UNKNOWN

    def __post_init__(self) -> None:
        _within("workers", self.workers, 1, MAX_WORKERS)
        _within("retries", self.retries, 0, 1000)
        _within("priority", self.priority, -1_000_000, 1_000_000)
        for field in ("time_limit_s", "duration_s", "grace_s", "submit_s"):
            value = getattr(self, field)
            if value is not None and not (is_finite(value) and value >= 0):
                raise InvalidAmount(f"{field}: {value} must be a finite number of at least 0")


def _within(what: str, value: int, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise InvalidAmount(f"{what}: {value} must be a whole number from {low} to {high}")
