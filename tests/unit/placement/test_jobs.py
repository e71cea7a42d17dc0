"""Requests, jobs and profiles: what is accepted and what is refused, field by field."""

from __future__ import annotations

import math

import pytest

from placement.model import (
    ANY_MODE,
    InvalidAmount,
    InvalidSpec,
    Isolation,
    Job,
    JobKind,
    Mode,
    Profile,
    Request,
)

MAX_BYTES = 1 << 50
NAN, INF = math.nan, math.inf

# field: (accepted values, refused values)
REQUEST_FIELDS = {
    "gpus": ([0, 1, 1024], [-1, 1025, 1.0, True, NAN, None, "1"]),
    "memory_bytes": ([None, 1, MAX_BYTES], [0, -1, MAX_BYTES + 1, 1.5, NAN, INF, True]),
    "compute_milli": ([None, 1, 1000], [0, -1, 1001, 1300, 0.3, NAN, True]),
    "max_slowdown": ([None, 1, 1.0, 1.2, 1e9], [0.99, 0, -1.0, NAN, INF, -INF]),
    "cpu_milli": ([0, 1, MAX_BYTES], [-1, MAX_BYTES + 1, 0.5, NAN, None, True]),
    "ram_bytes": ([0, 1, MAX_BYTES], [-1, MAX_BYTES + 1, 0.5, NAN, None, True]),
}
JOB_FIELDS = {
    "workers": ([1, 100_000], [0, -1, 100_001, 1.0, NAN, True, None]),
    "retries": ([0, 1000], [-1, 1001, 0.5, NAN, True]),
    "priority": ([-1_000_000, 0, 1_000_000], [-1_000_001, 1_000_001, 0.5, NAN]),
    "submit_s": ([0, 0.5, 1e12], [-0.5, NAN, INF]),
    "time_limit_s": ([None, 0, 0.5, 1e12], [-1.0, NAN, INF]),
    "duration_s": ([None, 0, 0.5, 1e12], [-1.0, NAN, INF]),
    "grace_s": ([0, 5.0], [-1.0, NAN, INF]),
}
CHANNELS = ("sm_milli", "dram_milli", "l2_milli", "pcie_milli")
PROFILE_FIELDS = {
    **{channel: ([None, 0, 1, 1000], [-1, 1001, 0.5, NAN, INF, True]) for channel in CHANNELS},
    "memory_bytes": ([None, 1, MAX_BYTES], [0, -1, MAX_BYTES + 1, 1.5, NAN, INF, True]),
    "steps_per_s": ([{}, {"*": 0.1}, {"A": 1, "B": 2.5}], [{"A": 0}, {"A": -1}, {"A": NAN}, {"*": INF}]),
}


def rows(table: dict, which: int) -> list:
    return [(field, value) for field, columns in table.items() for value in columns[which]]


def job(**fields) -> Job:
    return Job(**{"job_id": "job", "request": Request(), "submit_s": 0.0, "sequence": 1, **fields})


@pytest.mark.parametrize(("field", "value"), rows(REQUEST_FIELDS, 0))
def test_a_request_accepts(field, value):
    assert getattr(Request(**{field: value}), field) == value


@pytest.mark.parametrize(("field", "value"), rows(REQUEST_FIELDS, 1))
def test_a_request_refuses(field, value):
    with pytest.raises(InvalidAmount, match=field.removesuffix("_bytes" if "mem" in field else "_milli")):
        Request(**{field: value})


@pytest.mark.parametrize(("field", "value"), rows(JOB_FIELDS, 0))
def test_a_job_accepts(field, value):
    assert getattr(job(**{field: value}), field) == value


@pytest.mark.parametrize(("field", "value"), rows(JOB_FIELDS, 1))
def test_a_job_refuses(field, value):
    with pytest.raises(InvalidAmount, match=field):
        job(**{field: value})


@pytest.mark.parametrize(("field", "value"), rows(PROFILE_FIELDS, 0))
def test_a_profile_accepts(field, value):
    assert getattr(Profile("bert", **{field: value}), field) == value


@pytest.mark.parametrize(("field", "value"), rows(PROFILE_FIELDS, 1))
def test_a_profile_refuses(field, value):
    with pytest.raises(InvalidSpec, match=f"'bert': {field}"):
        Profile("bert", **{field: value})


@pytest.mark.parametrize(
    ("modes", "isolation", "mig_profile", "complaint"),
    [
        ({Mode.MIG}, Isolation.NONE, "1g.10gb", None),
        (ANY_MODE, Isolation.NONE, "1g.10gb", None),
        ({Mode.MPS}, Isolation.NONE, "1g.10gb", "mig_profile"),
        ({Mode.EXCLUSIVE}, Isolation.HARDWARE, "1g.10gb", "mig_profile"),
        ({Mode.MIG}, Isolation.HARDWARE, None, None),
        ({Mode.EXCLUSIVE}, Isolation.HARDWARE, None, None),
        ({Mode.EXCLUSIVE, Mode.MPS}, Isolation.HARDWARE, None, None),
        ({Mode.MPS}, Isolation.HARDWARE, None, "isolation"),
        ({Mode.TIMESLICE}, Isolation.HARDWARE, None, "isolation"),
        ({Mode.MPS, Mode.TIMESLICE}, Isolation.HARDWARE, None, "isolation"),
        ({Mode.MPS}, Isolation.TENANT, None, None),
        (set(), Isolation.NONE, None, "mode"),
        (set(), Isolation.HARDWARE, None, "mode"),
    ],
)
def test_fields_that_contradict_each_other(modes, isolation, mig_profile, complaint):
    def build() -> Request:
        return Request(modes=frozenset(modes), isolation=isolation, mig_profile=mig_profile)

    if complaint is None:
        assert build().modes == modes
    else:
        with pytest.raises(InvalidSpec, match=f"^{complaint}:"):
            build()


def test_what_a_job_is_by_default():
    built = job()
    assert built.workers == 1
    assert (built.kind, built.priority, built.preemptible) == (JobKind.TRAINING, 0, True)
    assert (built.retries, built.time_limit_s, built.duration_s, built.profile) == (0, None, None, None)
    assert (built.grace_s, built.immediate, built.tenant) == (5.0, False, "default")
    assert built.request == Request(gpus=1, modes=ANY_MODE, isolation=Isolation.NONE)
    assert (built.request.memory_bytes, built.request.compute_milli, built.request.max_slowdown) == (
        None,
    ) * 3


@pytest.mark.parametrize(
    ("steps_per_s", "model", "rate"),
    [
        ({}, "A100", None),
        ({"A100": 3.0}, "A100", 3.0),
        ({"A100": 3.0}, "T4", None),
        ({"A100": 3.0, "*": 1.0}, "A100", 3.0),
        ({"A100": 3.0, "*": 1.0}, "T4", 1.0),
        ({"*": 1.0}, "", 1.0),
    ],
)
def test_the_solo_rate_of_a_profile(steps_per_s, model, rate):
    assert Profile("bert", steps_per_s).solo_rate(model) == rate
