"""A seeded stream of mixed jobs and the cluster that they ask of: what ``bench/decisions.py`` decides on.

Shares, slices, whole GPUs and gangs of 200 tenants.  A stream of ``templates`` draws each request from 500
shapes, so that most have been seen before; in a ``raw`` stream the amounts are continuous and nearly every
request is new.  Either way each job carries a request object of its own, as one that a user submits does.
"""

from __future__ import annotations

import enum
import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from placement.mix import Mix, UsualRequest
from placement.model import Gpu, Isolation, Job, Mode, Node, Profile, Request

GIB = 1 << 30
MIB = 1 << 20
GPUS_PER_NODE = 8
GPU_MEMORY_GIB = 80

TENANTS = 200
TENANT_SKEW = 0.8
TEMPLATES = 500
TEMPLATE_SKEW = 0.9
"""Exponents of Zipf's law: the n-th of a list is drawn in proportion to n to minus this."""

KIND_WEIGHTS = (62, 18, 20)
"""Percent of requests for a share, for a MIG slice, for whole GPUs."""
GANG_PERCENT = 12
"""Of the requests for whole GPUs."""
ISOLATED_PERCENT = 10
"""Of the shares: no neighbours of other tenants."""
PROMISES = (None, None, 2.0, 1.5, 1.25)
WHOLE_GPUS, WHOLE_WEIGHTS = (1, 2, 4, 8), (8, 3, 2, 2)
GANG_WORKERS = (2, 4, 8, 16)
SELECTORS: tuple[tuple[str, ...], ...] = ((), ("A100",), ("H100-SXM5",))
SHARE_MODES: tuple[tuple[frozenset[Mode], int], ...] = (
    (frozenset({Mode.MPS}), 40),
    (frozenset({Mode.TIMESLICE}), 10),
    (frozenset({Mode.MPS, Mode.TIMESLICE}), 30),
    (frozenset(Mode), 20),
)
"""Modes that a share accepts, and in how many percent of the shares."""
USUAL_MILLI = (100, 250, 400, 550, 700, 900)
"""Sizes of shares that stand for all sizes where it matters what is usual."""
SLICE_NAMES = ("1g.10gb", "1g.10gb+me", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb")

PROFILES: tuple[Profile, ...] = tuple(
    Profile(f"class-{i}", sm_milli=sm_milli, dram_milli=dram_milli)
    for i, (sm_milli, dram_milli) in enumerate(
        ((40, 30), (90, 150), (160, 60), (240, 320), (330, 120), (450, 500), (600, 250), (800, 650))
    )
)
"""Eight classes of jobs, from one that idles to one that keeps the GPU busy."""

CPU_LADDER = (1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
RAM_LADDER = (4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
MEMORY_LADDER = (1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80)
SHARE_STEP_MILLI = 50
"""Shapes of templates are rounded up: cores, GiB of RAM, GiB of GPU memory, thousandths of a GPU."""


class StreamKind(enum.Enum):
    """How alike the requests of a stream are."""

    TEMPLATES = "templates"
    RAW = "raw"


class Wanted(enum.Enum):
    """What a job asks for, as the figures tell them apart."""

    SHARE = "share"
    SLICE = "slice"
    WHOLE = "whole"
    GANG = "gang"


@dataclass(frozen=True, slots=True)
class Shape:
    """A job without its tenant and its place in the stream."""

    wanted: Wanted
    request: Request
    workers: int = 1
    profile: Profile | None = None


@dataclass(frozen=True, slots=True)
class Arrival:
    """A job of the stream and the profile that it names."""

    job: Job
    profile: Profile | None
    wanted: Wanted


def build_nodes(gpus: int) -> list[Node]:
    """Nodes of eight GPUs, every other one A100 (128 cores, 1 TiB) and H100 (192 cores, 2 TiB).

    Raises:
        ValueError: no whole nodes.
    """
    if gpus <= 0 or gpus % GPUS_PER_NODE:
        raise ValueError(f"{gpus} GPUs: write a multiple of {GPUS_PER_NODE}")
    kinds = (("A100-SXM4-80GB", 128, 1024), ("H100-SXM5-80GB", 192, 2048))
    nodes = []
    for i in range(gpus // GPUS_PER_NODE):
        model, cores, ram_gib = kinds[i % 2]
        name = f"n{i:06d}"
        slots = tuple(Gpu(f"GPU-{name}-{j}", model, GPU_MEMORY_GIB * GIB) for j in range(GPUS_PER_NODE))
        nodes.append(Node(name, slots, cores * 1000, ram_gib * GIB))
    return nodes


def usual_requests() -> Mix:
    """What is usual in these streams, coarsely: for policies that weigh what could still be placed."""
    shared = frozenset({Mode.MPS, Mode.TIMESLICE})
    shares, slices, whole = KIND_WEIGHTS
    usual = [
        (
            Request(compute_milli=milli, memory_bytes=milli * GPU_MEMORY_GIB * 3 // 4000 * GIB, modes=shared),
            milli,
            shares * 1000 // len(USUAL_MILLI),
        )
        for milli in USUAL_MILLI
    ]
    usual += [
        (Request(mig_profile=name, modes=frozenset({Mode.MIG})), 200, slices * 1000 // len(SLICE_NAMES))
        for name in SLICE_NAMES
    ]
    usual += [
        (
            Request(gpus=gpus, modes=frozenset({Mode.EXCLUSIVE})),
            1000 * gpus,
            whole * 1000 * weight // sum(WHOLE_WEIGHTS),
        )
        for gpus, weight in zip(WHOLE_GPUS, WHOLE_WEIGHTS, strict=True)
    ]
    return tuple(
        UsualRequest(
            replace(request, gpu_models=selector, cpu_milli=9 * milli, ram_bytes=75 * milli // 1000 * GIB),
            weight,
        )
        for request, milli, weight in usual
        for selector in SELECTORS
    )


class Stream:
    """Jobs without end, the same for the same kind and seed."""

    def __init__(self, kind: StreamKind, seed: int, *, templates: int = TEMPLATES) -> None:
        self._random = random.Random(seed)
        self._rounded = kind is StreamKind.TEMPLATES
        self._shapes = [self._shape() for _ in range(templates)] if self._rounded else []
        self._shape_weights = _zipf(templates, TEMPLATE_SKEW)
        self._tenants = tuple(f"tenant-{i:03d}" for i in range(TENANTS))
        self._tenant_weights = _zipf(TENANTS, TENANT_SKEW)
        self._sequence = itertools.count()

    def __iter__(self) -> Iterator[Arrival]:
        while True:
            yield self.arrival()

    def arrival(self) -> Arrival:
        """The next job."""
        draw = self._random
        shape = (
            draw.choices(self._shapes, cum_weights=self._shape_weights)[0] if self._rounded else self._shape()
        )
        tenant = draw.choices(self._tenants, cum_weights=self._tenant_weights)[0]
        sequence = next(self._sequence)
        job = Job(
            job_id=f"job-{sequence:08d}",
            request=replace(shape.request),  # an object of its own: nobody may know it by its identity
            submit_s=float(sequence),
            sequence=sequence,
            tenant=tenant,
            workers=shape.workers,
            profile=None if shape.profile is None else shape.profile.name,
        )
        return Arrival(job, shape.profile, shape.wanted)

    def _shape(self) -> Shape:
        build = self._random.choices((self._share, self._slice, self._whole), KIND_WEIGHTS)[0]
        return build(self._random.choice(SELECTORS))

    def _share(self, selector: tuple[str, ...]) -> Shape:
        """A share of one GPU: 5 to 90 % of it, and of its memory about as much."""
        draw = self._random
        milli = draw.randint(SHARE_STEP_MILLI, 900)
        cpu_milli, ram_bytes = self._host(milli / 1000)
        memory = int(min(0.95, milli / 1000 * draw.uniform(0.4, 1.1)) * GPU_MEMORY_GIB * GIB)
        memory = max(memory // MIB, 512) * MIB
        if self._rounded:
            milli = -(-milli // SHARE_STEP_MILLI) * SHARE_STEP_MILLI
            memory = _rounded_up(memory, MEMORY_LADDER, GIB)
        modes, weights = zip(*SHARE_MODES, strict=True)
        # A job that uses more of the GPU than its share is slow by its own choice: no promise could be kept.
        profile = draw.choice([each for each in PROFILES if (each.sm_milli or 0) <= milli])
        request = Request(
            memory_bytes=memory,
            compute_milli=milli,
            gpu_models=selector,
            modes=draw.choices(modes, weights)[0],
            isolation=Isolation.TENANT if draw.random() * 100 < ISOLATED_PERCENT else Isolation.NONE,
            max_slowdown=draw.choice(PROMISES),
            cpu_milli=cpu_milli,
            ram_bytes=ram_bytes,
        )
        return Shape(Wanted.SHARE, request, profile=profile)

    def _slice(self, selector: tuple[str, ...]) -> Shape:
        """A MIG slice: three in four by its name, the others by what it must hold."""
        draw = self._random
        cpu_milli, ram_bytes = self._host(0.2)
        modes = frozenset({Mode.MIG})
        if draw.random() < 0.75:
            name = draw.choice(SLICE_NAMES)
            request = Request(
                mig_profile=name, modes=modes, gpu_models=selector, cpu_milli=cpu_milli, ram_bytes=ram_bytes
            )
            return Shape(Wanted.SLICE, request)
        memory = int(draw.uniform(4, 39) * GIB) // MIB * MIB
        if self._rounded:
            memory = _rounded_up(memory, MEMORY_LADDER[:-3], GIB)
        request = Request(
            memory_bytes=memory, modes=modes, gpu_models=selector, cpu_milli=cpu_milli, ram_bytes=ram_bytes
        )
        return Shape(Wanted.SLICE, request)

    def _whole(self, selector: tuple[str, ...]) -> Shape:
        """One to eight whole GPUs, for one worker or for each of a gang."""
        draw = self._random
        gpus = draw.choices(WHOLE_GPUS, WHOLE_WEIGHTS)[0]
        cpu_milli, ram_bytes = self._host(float(gpus))
        request = Request(
            gpus=gpus,
            modes=frozenset({Mode.EXCLUSIVE}),
            gpu_models=selector,
            cpu_milli=cpu_milli,
            ram_bytes=ram_bytes,
        )
        if draw.random() * 100 >= GANG_PERCENT:
            return Shape(Wanted.WHOLE, request)
        return Shape(Wanted.GANG, request, workers=draw.choice(GANG_WORKERS))

    def _host(self, gpus: float) -> tuple[int, int]:
        """CPU in thousandths of a core and RAM in bytes beside so many GPUs."""
        draw = self._random
        cpu_milli = max(500, int(gpus * draw.uniform(4, 15) * 1000))
        ram_bytes = max(1024, int(gpus * draw.uniform(30, 125) * 1024)) * MIB
        if self._rounded:
            cpu_milli = _rounded_up(cpu_milli, CPU_LADDER, 1000)
            ram_bytes = _rounded_up(ram_bytes, RAM_LADDER, GIB)
        return cpu_milli, ram_bytes


def _rounded_up(amount: int, ladder: Sequence[int], unit: int) -> int:
    """The first step of a ladder that is enough, else the last."""
    return next((step * unit for step in ladder if step * unit >= amount), ladder[-1] * unit)


def _zipf(count: int, skew: float) -> list[float]:
    return list(itertools.accumulate(1 / n**skew for n in range(1, count + 1)))
