"""One seeded workload that uses every kind of share, for the live loop and for the simulator."""

from __future__ import annotations

import random
from collections.abc import Sequence

from placement.model import Devices, Isolation, Level, Mode, Node, Profile, Request, Together
from placement.model.hardware import node_from_short_form
from placement.trace import TraceRow

GIB = 1 << 30
PROFILES = (
    Profile("vision", {"*": 10.0}, sm_milli=600, dram_milli=300, memory_bytes=8 * GIB),
    Profile("language", {"*": 2.0}, sm_milli=900, dram_milli=700, memory_bytes=30 * GIB),
    Profile("tabular", {"*": 50.0}, sm_milli=150, dram_milli=100, memory_bytes=2 * GIB),
)


_TURNS_IN_SLICES = frozenset({Mode.MIG, Mode.TIMESLICE})


def cluster() -> tuple[Node, ...]:
    """Three nodes of two kinds."""
    forms = ("4xA100-SXM4-80GB", "4xA100-SXM4-80GB", "2xH100-SXM5-80GB")
    return tuple(node_from_short_form(form, f"node-{number:04d}") for number, form in enumerate(forms))


def rows(seed: int, count: int) -> list[TraceRow]:
    """Jobs named as the manager will name them, in the order of submission."""
    draw = random.Random(seed)
    now_s, found = 0.0, []
    for number in range(1, count + 1):
        now_s += draw.choice((0.0, 0.0, 0.5, 1.0, 2.0, 5.0))
        request, workers = _shape(draw)
        found.append(
            TraceRow(
                job_id=f"job-{number}",
                submit_s=now_s,
                request=request,
                duration_s=float(draw.choice((0, 1, 3, 10, 10, 30, 60))),
                workers=workers,
                tenant=draw.choice(("blue", "green", "red")),
                profile=draw.choice((None, *(profile.name for profile in PROFILES))),
            )
        )
    return found


def _shape(draw: random.Random) -> tuple[Request, int]:
    shapes: Sequence[tuple[Request, int]] = (
        (Request(gpus=1, modes=frozenset({Mode.EXCLUSIVE})), 1),
        (Request(gpus=2), 1),
        (Request(gpus=4, gpu_models=("A100",)), 1),
        (Request(gpus=1, memory_bytes=4 * GIB, compute_milli=200), 1),
        (Request(gpus=1, memory_bytes=10 * GIB, compute_milli=300, modes=frozenset({Mode.MPS})), 1),
        (Request(gpus=1, memory_bytes=9 * GIB, modes=frozenset({Mode.TIMESLICE})), 2),
        (Request(gpus=1, modes=frozenset({Mode.MIG}), mig_profile="2g.20gb"), 1),
        (Request(gpus=1, memory_bytes=5 * GIB, compute_milli=250, max_slowdown=1.4), 1),
        (Request(gpus=1, memory_bytes=5 * GIB, compute_milli=400, isolation=Isolation.TENANT), 1),
        (Request(gpus=1, compute_milli=500, memory_bytes=20 * GIB), 6),
        (Request(gpus=0, cpu_milli=2000, ram_bytes=GIB), 1),
        (Request(gpus=9), 1),
        (Request(gpus=2, compute_milli=200, memory_bytes=4 * GIB, devices=Devices.SAME), 1),
        (Request(gpus=1, together=Together(Level.NODE, required=True)), 3),
        (Request(gpus=4, compute_milli=70, devices=Devices.SAME, modes=frozenset({Mode.MIG, Mode.MPS})), 1),
        (Request(gpus=2, compute_milli=70, devices=Devices.SAME, modes=_TURNS_IN_SLICES), 1),
        (Request(gpus=1, max_slowdown=3.0, modes=frozenset({Mode.MIG})), 1),
    )
    weights = (4, 3, 1, 6, 4, 3, 3, 4, 3, 1, 2, 0.3, 3, 2, 3, 2, 3)
    return draw.choices(shapes, weights)[0]
