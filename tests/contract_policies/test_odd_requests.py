"""Odd but valid requests: every placement answers each of them, and no event makes a step raise."""

from __future__ import annotations

import itertools

import pytest

from placement.lifecycle import JobState
from placement.model import (
    Devices,
    InvalidAmount,
    InvalidSpec,
    Isolation,
    JobKind,
    Level,
    Mode,
    Profile,
    ProfileDefined,
    Request,
    Together,
)
from placement.policies import PLACEMENTS
from tests.cases.desk import GIB, Desk, node
from tests.contract_policies.histories import OPTIONS

NODES = (
    node("a", "4xA100-SXM4-80GB"),
    node("b", "2xH100-SXM5-80GB"),
    node("v", "2xV100-SXM2-32GB", cpu_milli=8000),
)
MODE_SETS = [
    frozenset(some) for count in range(1, len(Mode) + 1) for some in itertools.combinations(Mode, count)
]
SLICES = ("1g.10gb", "7g.80gb", "1g.5gb", "no-such-slice")
KINDS = (JobKind.TRAINING, JobKind.INFERENCE)


def requests() -> list[Request]:
    """All combinations that a request accepts."""
    fields = [
        {"modes": modes, "isolation": isolation, **rest}
        for modes in MODE_SETS
        for isolation in Isolation
        for rest in (
            {},
            {"gpus": 2},
            {"gpus": 2, "devices": Devices.SAME},
            {"gpus": 2, "compute_milli": 400, "devices": Devices.SAME},
            {"gpus": 7, "compute_milli": 100, "memory_bytes": 9 * GIB, "devices": Devices.SAME},
            {"compute_milli": 1, "max_slowdown": 1.0},
            {"compute_milli": 300, "max_slowdown": 1e300},
            {"memory_bytes": 60 * GIB},
            {"gpus": 0},
        )
    ]
    fields += [
        {"modes": modes, "mig_profile": name, "gpus": gpus, "devices": devices}
        for modes in MODE_SETS
        for name in SLICES
        for gpus, devices in ((1, Devices.DISTINCT), (2, Devices.DISTINCT), (2, Devices.SAME))
    ]
    fields += [
        {"modes": modes, "together": Together(level, required=required), "gpus": gpus}
        for modes in (MODE_SETS[0], MODE_SETS[-1], frozenset({Mode.MPS, Mode.EXCLUSIVE}))
        for level in Level
        for required in (False, True)
        for gpus in (0, 1, 3)
    ]
    found = []
    for each in fields:
        try:
            found.append(Request(**each))
        except (InvalidSpec, InvalidAmount):
            continue
    return found


REQUESTS = requests()


def test_the_table_has_all_kinds():
    assert len(REQUESTS) > 300
    assert (
        Request(gpus=2, compute_milli=400, modes=frozenset({Mode.MPS, Mode.EXCLUSIVE}), devices=Devices.SAME)
        in REQUESTS
    )


@pytest.mark.timeout(180)
@pytest.mark.parametrize("name", sorted(PLACEMENTS))
def test_every_odd_request_is_answered(name):
    """It is placed, waits with an explanation, or is rejected with a reason; two more come at once."""
    desk = Desk(f"backfill+{name}{OPTIONS.get(name, '')}", NODES, belief="additive", compiled=False)
    desk.tell(ProfileDefined(Profile("light", sm_milli=200, memory_bytes=2 * GIB)))
    for number, request in enumerate(REQUESTS):
        about = {
            "kind": KINDS[number % 2],
            "profile": (None, "light")[number % 5 % 2],
            "workers": 1 + number % 3,
            "tenant": ("red", "blue", "green")[number % 3],
            "preemptible": number % 4 > 0,
        }
        desk.tell(
            desk.job(f"{number}", request, **about),
            desk.job(f"{number}-alone", request, kind=KINDS[number % 2 - 1]),
        )
        for record in list(desk.scheduler.records())[-2:]:
            told = desk.scheduler.explain(record.job.job_id)
            if record.state is JobState.REJECTED:
                assert record.failure, request
            elif record.state is JobState.QUEUED:
                assert told.note or told.reasons, request
        if number % 5 == 4:  # else the cluster is full, and all that follow wait
            desk.leave_all()
