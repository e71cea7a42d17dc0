"""What a request means on one GPU model: request and profile on the left, acceptable shares on the right."""

from __future__ import annotations

import pytest

from placement.model import Isolation, Mode, Profile, Request
from placement.partition import MODE_ORDER, geometry_of, needs_of

GIB = 1 << 30
A100, V100 = ("A100-SXM4-80GB", 80 * GIB), ("V100-SXM2-32GB", 32 * GIB)
ANY, X, MIG, MPS, TS = (
    frozenset(Mode),
    frozenset({Mode.EXCLUSIVE}),
    frozenset({Mode.MIG}),
    frozenset({Mode.MPS}),
    frozenset({Mode.TIMESLICE}),
)
NONE: dict = {}


def shares(request: Request, gpu: tuple[str, int | None], profile: Profile | None = None) -> dict[str, str]:
    """``{"mps": "300 12G"}``: compute in thousandths, memory in GiB (``-`` is not accounted), MIG profile."""
    model, memory_bytes = gpu
    found = {}
    for mode, need in needs_of(request, profile, model, memory_bytes).items():
        assert need.mode is mode
        memory = "-" if need.memory_bytes is None else f"{need.memory_bytes / GIB:.4g}G"
        geometry = geometry_of(model)
        cut = "" if need.mig_profile is None or geometry is None else geometry.profiles[need.mig_profile].name
        found[mode.value] = f"{need.compute_milli} {memory} {cut}".strip()
    return found


def whole(memory: str) -> dict[str, str]:
    return {"exclusive": f"1000 {memory}"}


def mps(text: str) -> dict[str, str]:
    return {"mps": text}


def mig(text: str) -> dict[str, str]:
    return {"mig": text}


STATED = [
    # request, GPU, shares
    (Request(), A100, whole("80G")),
    (Request(compute_milli=1000), A100, whole("80G")),
    (Request(modes=X), V100, whole("32G")),
    (Request(modes=X, compute_milli=100, memory_bytes=GIB), V100, whole("32G")),
    (Request(modes=MPS), V100, mps("1000 -")),
    (Request(modes=MPS, compute_milli=300), V100, mps("300 -")),
    (Request(modes=MPS, compute_milli=301), V100, mps("301 -")),
    (Request(modes=MPS, compute_milli=300, memory_bytes=4 * GIB), V100, mps("300 4G")),
    (Request(modes=TS, compute_milli=500, memory_bytes=32 * GIB), V100, {"timeslice": "500 32G"}),
    (
        Request(compute_milli=500, memory_bytes=4 * GIB),
        V100,
        {"mps": "500 4G", "timeslice": "500 4G", "exclusive": "1000 32G"},
    ),
    (
        Request(compute_milli=500, memory_bytes=4 * GIB),
        A100,
        {"mps": "500 4G", "timeslice": "500 4G", "mig": "571 39.25G 4g.40gb", "exclusive": "1000 80G"},
    ),
]
AUTOMATIC = [
    # memory as a part of the GPU's, rounded up to steps of 5 %
    (Request(modes=MPS, memory_bytes=16 * GIB), V100, None, mps("500 16G")),
    (Request(modes=MPS, memory_bytes=8 * GIB), V100, None, mps("250 8G")),
    (Request(modes=MPS, memory_bytes=8 * GIB + 1), V100, None, mps("300 8G")),
    (Request(modes=MPS, memory_bytes=1), V100, None, mps("50 9.313e-10G")),
    (Request(modes=MPS, memory_bytes=32 * GIB), V100, None, mps("1000 32G")),
    (Request(modes=MPS, memory_bytes=16 * GIB), ("T4", None), None, mps("1000 16G")),
    # the profile's use of the SMs comes first, and its memory where none is stated
    (Request(modes=MPS), V100, Profile("p", sm_milli=410), mps("450 -")),
    (Request(modes=MPS), V100, Profile("p", sm_milli=450), mps("450 -")),
    (Request(modes=MPS), V100, Profile("p", sm_milli=0), mps("50 -")),
    (Request(modes=MPS), V100, Profile("p", sm_milli=1000), mps("1000 -")),
    (Request(modes=MPS), V100, Profile("p"), mps("1000 -")),
    (Request(modes=MPS), V100, Profile("p", memory_bytes=8 * GIB), mps("250 8G")),
    (Request(modes=MPS, memory_bytes=16 * GIB), V100, Profile("p", memory_bytes=8 * GIB), mps("500 16G")),
    (Request(modes=MPS, memory_bytes=16 * GIB), V100, Profile("p", sm_milli=100), mps("100 16G")),
    # what is stated comes before the profile
    (Request(modes=MPS, compute_milli=300), V100, Profile("p", sm_milli=900), mps("300 -")),
    # a whole GPU is taken whole wherever that is accepted
    (Request(), V100, Profile("p", sm_milli=960), whole("32G")),
]
SLICES = [
    (Request(modes=MIG), A100, mig("1000 78.5G 7g.80gb")),
    (Request(modes=MIG, memory_bytes=9 * GIB), A100, mig("142 9.619G 1g.10gb")),
    (Request(modes=MIG, compute_milli=1), A100, mig("142 9.619G 1g.10gb")),
    (Request(modes=MIG, compute_milli=142), A100, mig("142 9.619G 1g.10gb")),
    (Request(modes=MIG, compute_milli=143), A100, mig("285 19.5G 2g.20gb")),
    (Request(modes=MIG, compute_milli=286), A100, mig("428 39.25G 3g.40gb")),
    (Request(modes=MIG, compute_milli=429), A100, mig("571 39.25G 4g.40gb")),
    (Request(modes=MIG, compute_milli=572), A100, mig("1000 78.5G 7g.80gb")),
    (Request(modes=MIG, compute_milli=100, memory_bytes=10 * GIB), A100, mig("142 19.5G 1g.20gb")),
    (Request(modes=MIG, compute_milli=200, memory_bytes=10 * GIB), A100, mig("285 19.5G 2g.20gb")),
    (Request(modes=MIG, compute_milli=100, memory_bytes=20 * GIB), A100, mig("428 39.25G 3g.40gb")),
    (Request(modes=MIG, compute_milli=100, memory_bytes=40 * GIB), A100, mig("1000 78.5G 7g.80gb")),
    (Request(modes=MIG, compute_milli=100, memory_bytes=79 * GIB), A100, NONE),
    # a named slice is taken as it is, or not at all
    (Request(modes=MIG, mig_profile="1g.10gb"), A100, mig("142 9.619G 1g.10gb")),
    (Request(modes=MIG, mig_profile="1g.10gb+me"), A100, mig("142 9.619G 1g.10gb+me")),
    (Request(mig_profile="3g.40gb"), A100, mig("428 39.25G 3g.40gb")),
    (Request(mig_profile="3g.40gb", compute_milli=428), A100, mig("428 39.25G 3g.40gb")),
    (Request(mig_profile="3g.40gb", compute_milli=429), A100, NONE),
    (Request(mig_profile="1g.10gb", memory_bytes=9 * GIB), A100, mig("142 9.619G 1g.10gb")),
    (Request(mig_profile="1g.10gb", memory_bytes=10 * GIB), A100, NONE),
    (Request(mig_profile="9g.99gb"), A100, NONE),
    (Request(mig_profile="1g.10gb"), ("H100-SXM5-80GB", 80 * GIB), mig("142 9.75G 1g.10gb")),
    (Request(mig_profile="1g.10gb"), V100, NONE),
    (Request(modes=MIG), V100, NONE),
]
RULED_OUT = [
    # GPU models
    (Request(gpu_models=("A100",)), A100, whole("80G")),
    (Request(gpu_models=("a100-sxm4",)), A100, whole("80G")),
    (Request(gpu_models=("A100",)), V100, NONE),
    (Request(gpu_models=("A100", "V100")), V100, whole("32G")),
    # memory that no such GPU has
    (Request(memory_bytes=32 * GIB, compute_milli=100, modes=MPS), V100, mps("100 32G")),
    (Request(memory_bytes=32 * GIB + 1, compute_milli=100, modes=MPS), V100, NONE),
    (Request(memory_bytes=32 * GIB + 1), V100, NONE),
    (Request(memory_bytes=900 * GIB), ("T4", None), {"exclusive": "1000 -"}),
    # isolation by hardware
    (Request(isolation=Isolation.HARDWARE, compute_milli=300), V100, whole("32G")),
    (
        Request(isolation=Isolation.HARDWARE, compute_milli=300),
        A100,
        {"mig": "428 39.25G 3g.40gb", "exclusive": "1000 80G"},
    ),
    (
        Request(isolation=Isolation.TENANT, compute_milli=300, modes=MPS | TS),
        V100,
        {"mps": "300 -", "timeslice": "300 -"},
    ),
]


@pytest.mark.parametrize(("request_", "gpu", "expected"), STATED + SLICES + RULED_OUT)
def test_what_a_request_means_on_a_gpu(request_, gpu, expected):
    assert shares(request_, gpu) == expected


@pytest.mark.parametrize(("request_", "gpu", "profile", "expected"), AUTOMATIC)
def test_automatic_compute(request_, gpu, profile, expected):
    assert shares(request_, gpu, profile) == expected


def test_a_profile_that_needs_more_memory_than_the_gpu_has_rules_it_out():
    assert shares(Request(), V100, Profile("p", memory_bytes=33 * GIB)) == {}


def test_shares_come_before_slices_and_slices_before_a_whole_gpu():
    assert MODE_ORDER == (Mode.MPS, Mode.TIMESLICE, Mode.MIG, Mode.EXCLUSIVE)
