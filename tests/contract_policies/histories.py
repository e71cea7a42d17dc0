"""Seeded random clusters and histories for every policy, in the words of the property tests."""

from __future__ import annotations

import random

from placement.model import Isolation, Mode, Request
from tests.property.world import GIB, Happen, Submit, World

MODELS = ("A100-SXM4-80GB", "H100-SXM5-80GB", "V100-SXM2-32GB")
OPTIONS = {"hived": ":red=1x1xA100-SXM4-80GB:red=1x1xH100-SXM5-80GB:blue=1x1xA100-SXM4-80GB"}
"""What stands behind the names of policies that are nothing without it."""

Turn = list[Submit | Happen]
Shape = list[tuple[str, int, int | None]]


def shape_of(rng: random.Random) -> Shape:
    """Two to four small nodes; the first two are those that the tenants of hived have cells on."""
    rest = [
        (rng.choice(MODELS), rng.randint(0, 2), rng.choice([None, 8000])) for _ in range(rng.randint(0, 2))
    ]
    return [(MODELS[0], 2, rng.choice([None, 8000])), (MODELS[1], 1, None), *rest]


def request_of(rng: random.Random, promises: bool) -> Request:
    modes = frozenset(mode for mode in Mode if rng.random() < 0.7) or frozenset({Mode.EXCLUSIVE})
    isolation = rng.choice([Isolation.NONE] * 4 + [Isolation.TENANT, Isolation.HARDWARE])
    if isolation is Isolation.HARDWARE:
        modes |= {Mode.EXCLUSIVE}
    return Request(
        gpus=rng.choice([0, 1, 1, 1, 1, 1, 1, 2]),
        memory_bytes=rng.choice([None, 4 * GIB, 9 * GIB, 30 * GIB]),
        compute_milli=rng.choice([None, 100, 250, 330, 500, 500, 1000]),
        gpu_models=rng.choice([(), (), (), ("A100",), ("V100-SXM2-32GB", "H100")]),
        modes=modes,
        isolation=isolation,
        max_slowdown=rng.choice([None, None, None, 1.2, 1.6]) if promises else None,
        cpu_milli=rng.choice([0, 500, 3000]),
    )


def submit_of(rng: random.Random, promises: bool) -> Submit:
    return Submit(
        request=request_of(rng, promises),
        workers=rng.choice([1, 1, 1, 1, 2]),
        tenant=rng.choice(["red", "blue"]),
        priority=rng.choice([0, 0, 0, 5]),
        duration_s=rng.choice([None, 5.0, 50.0, 500.0]),
        profile=rng.choice([None, "light", "light", "heavy", "vague"]),
        immediate=False,
        preemptible=rng.random() < 0.8,
    )


def history_of(rng: random.Random, turns: int, promises: bool) -> list[Turn]:
    """More comes than leaves, so that the cluster is full after some turns."""
    what = ["end", "end", "end", "fail", "leave", "leave", "leave", "cancel", "lose", "fence", "return"]
    return [
        [
            submit_of(rng, promises) if rng.random() < 0.7 else Happen(rng.choice(what), rng.randint(0, 99))
            for _ in range(rng.randint(1, 4))
        ]
        for _ in range(turns)
    ]


def play(world: World, history: list[Turn]) -> World:
    """Let it happen and look for what must never be after every step."""
    for turn in history:
        world.now_s += 1
        world.step(world.events_of(turn))
        world.check()
    return world


def world_of(
    policy: str, seed: int, *, compiled: bool = False, promises: bool = True
) -> tuple[World, list[Turn]]:
    """A world for a policy and what will happen in it; the same for all policies."""
    rng = random.Random(seed)
    shape = shape_of(rng)
    return World.new(shape, policy, compiled=compiled), history_of(rng, 14, promises)
