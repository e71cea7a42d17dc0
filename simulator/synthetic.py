"""A seeded generator of workloads in our own CSV: arrivals, heavy-tailed durations, gangs, fractions."""

from __future__ import annotations

import csv
import enum
import gzip
import io
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from placement.model import InvalidAmount, JobKind, OperationFailed, Profile
from simulator.profiles import SHIPPED, load_profiles

HEADER = (
    "job_id",
    "submit_s",
    "duration_s",
    "gpus",
    "tenant",
    "workers",
    "compute_milli",
    "memory_bytes",
    "max_slowdown",
    "kind",
    "profile",
)
_DAY_S = 86_400
_HOUR_S = 3_600
_COMPUTE_STEP_MILLI = 50
_MAX_JOBS = 10_000_000


class Arrivals(enum.Enum):
    """How submissions spread over time."""

    POISSON = "poisson"
    """The same rate at every hour."""
    DIURNAL = "diurnal"
    """A Poisson process whose rate swings over 24 hours, quietest at second 0."""


@dataclass(frozen=True, slots=True)
class SyntheticSpec:
    """The shape of a workload; fractions are of jobs and lie in 0..1.

    Durations are log-normal around ``median_s`` with ``sigma`` (in natural logarithms), cut at ``longest_s``.
    A gang is 2, 4, 8.. up to ``largest_gang`` workers of one GPU each; other jobs share a GPU with
    probability ``shared_fraction``.  ``swing`` is how far a diurnal rate departs from its mean.

    Raises:
        InvalidAmount: a field is out of range.
    """

    jobs: int = 1000
    seed: int = 0
    arrivals: Arrivals = Arrivals.POISSON
    jobs_per_hour: float = 40.0
    swing: float = 0.8
    median_s: float = 1200.0
    sigma: float = 1.6
    longest_s: float = 30 * _DAY_S
    tenants: int = 5
    gang_fraction: float = 0.05
    largest_gang: int = 8
    shared_fraction: float = 0.6
    promise_fraction: float = 0.3

    def __post_init__(self) -> None:
        _within("jobs", self.jobs, 1, _MAX_JOBS)
        _within("tenants", self.tenants, 1, 10_000)
        _within("largest gang", self.largest_gang, 2, 1024)
        _within("jobs per hour", self.jobs_per_hour, 1e-6, 1e9)
        _within("median duration", self.median_s, 1, 1e9)
        _within("sigma", self.sigma, 0, 10)
        _within("longest duration", self.longest_s, 1, 1e12)
        for name in ("swing", "gang_fraction", "shared_fraction", "promise_fraction"):
            _within(name.replace("_", " "), getattr(self, name), 0, 1)


def _within(what: str, value: float, low: float, high: float) -> None:
    if not (math.isfinite(value) and low <= value <= high):
        raise InvalidAmount(f"{what}: {value} must be from {low:g} to {high:g}")


def generate(spec: SyntheticSpec) -> Iterator[tuple[str, ...]]:
    """One line of fields per job, in the order of submission; the same for equal specs on every machine."""
    draw = random.Random(spec.seed)  # the standard library promises the same stream in every version
    profiles = load_profiles(SHIPPED)
    moments = _moments(spec, draw)
    weights = [1 / (rank + 1) for rank in range(spec.tenants)]
    for number in range(spec.jobs):
        submit_s = round(next(moments))
        duration_s = min(round(draw.lognormvariate(math.log(spec.median_s), spec.sigma)), int(spec.longest_s))
        tenant = f"tenant-{draw.choices(range(spec.tenants), weights)[0]}"
        shape = _shape(spec, draw, profiles)
        yield (f"job-{number:06d}", str(submit_s), str(max(duration_s, 1)), shape[0], tenant, *shape[1:])


def _moments(spec: SyntheticSpec, draw: random.Random) -> Iterator[float]:
    """Submission times in seconds; a swinging rate is drawn by thinning a process of the highest rate."""
    swing = spec.swing if spec.arrivals is Arrivals.DIURNAL else 0.0
    highest_per_s = spec.jobs_per_hour / _HOUR_S * (1 + swing)
    now_s = 0.0
    while True:
        now_s += draw.expovariate(highest_per_s)
        rate = 1 - swing * math.cos(2 * math.pi * now_s / _DAY_S)
        if draw.random() * (1 + swing) <= rate:
            yield now_s


def _shape(spec: SyntheticSpec, draw: random.Random, profiles: Sequence[Profile]) -> tuple[str, ...]:
    """Everything of a line that follows from what kind of job it is: gpus, workers .. profile."""
    profile = draw.choice(profiles)
    kind = JobKind.TRAINING
    if profile.name.endswith("-inference"):
        kind = JobKind.INFERENCE
    elif profile.name == "notebook":
        kind = JobKind.INTERACTIVE
    if draw.random() < spec.gang_fraction:
        workers = 2 ** draw.randint(1, spec.largest_gang.bit_length() - 1)
        return "1", str(workers), "", "", "", JobKind.TRAINING.value, profile.name
    if draw.random() >= spec.shared_fraction:
        gpus = draw.choices((1, 2, 4, 8), (80, 10, 6, 4))[0]
        return str(gpus), "1", "", "", "", kind.value, profile.name
    steps = -(-(profile.sm_milli or 1000) // _COMPUTE_STEP_MILLI)
    promise = draw.choice(("1.2", "1.5", "2")) if draw.random() < spec.promise_fraction else ""
    compute = str(min(steps * _COMPUTE_STEP_MILLI, 1000))
    return "1", "1", compute, str(profile.memory_bytes or ""), promise, kind.value, profile.name


def write(spec: SyntheticSpec, path: Path) -> None:
    """Write a workload; gzip if the name ends in ``.gz``.  Equal specs give equal bytes.

    Raises:
        OperationFailed: the file cannot be written.
    """
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(HEADER)
    lines.writerows(generate(spec))
    content = text.getvalue().encode()
    if path.suffix == ".gz":
        content = gzip.compress(content, mtime=0)
    try:
        path.write_bytes(content)
    except OSError as error:
        raise OperationFailed(f"{path}: cannot be written: {error.strerror or error}") from error
