"""GPU names, simulated GPUs, and shares made to exist on them."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.devices import Telemetry, Tenant, WorkerKey
from agent.gpu_names import model_of
from agent.partitioner import Partitioner
from agent.simulated import SimulatedDevices
from placement.model import InvalidSpec, Mode, OperationFailed, Profile, Share, UnknownName
from placement.model.hardware import KNOWN_GPU_MEMORY_BYTES

GIB = 1 << 30
BUSY = Profile("busy", {"*": 100.0}, sm_milli=800, dram_milli=500, memory_bytes=10 * GIB)
LIGHT = Profile("light", {"*": 100.0}, sm_milli=200, dram_milli=100, memory_bytes=5 * GIB)


@pytest.mark.parametrize(
    ("name", "memory_gib", "model"),
    [
        ("NVIDIA A100-SXM4-80GB", 80, "A100-SXM4-80GB"),
        ("NVIDIA A100-SXM4-40GB", 40, "A100-SXM4-40GB"),
        ("NVIDIA A100 80GB PCIe", 80, "A100-PCIE-80GB"),
        ("NVIDIA A100-PCIE-40GB", 40, "A100-PCIE-40GB"),
        ("NVIDIA H100 80GB HBM3", 80, "H100-SXM5-80GB"),
        ("NVIDIA H100 PCIe", 80, "H100-PCIE-80GB"),
        ("NVIDIA H100 NVL", 94, "H100-NVL-94GB"),
        ("NVIDIA H200", 141, "H200-SXM5-141GB"),
        ("NVIDIA B200", 180, "B200-180GB"),
        ("NVIDIA GH200 480GB", 96, "GH200-96GB"),
        ("Tesla V100-SXM2-32GB", 32, "V100-SXM2-32GB"),
        ("Tesla T4", 15, "T4-16GB"),
        ("NVIDIA L40S", 45, "L40S-48GB"),
        ("NVIDIA GeForce RTX 4090", 24, "RTX4090-24GB"),
        ("NVIDIA GeForce RTX 3080", 10, "RTX-3080-10GB"),
        ("NVIDIA Quantum/9 (rev. 2)", None, "Quantum-9-rev.-2"),
        ("", None, "unknown"),
    ],
)
def test_gpus_are_named_alike_whatever_the_driver_says(name: str, memory_gib: int | None, model: str) -> None:
    assert model_of(name, None if memory_gib is None else memory_gib * GIB) == model


def test_every_name_in_the_list_is_one_that_the_core_knows() -> None:
    from agent.gpu_names import _KNOWN

    assert set(_KNOWN.values()) <= set(KNOWN_GPU_MEMORY_BYTES)


def tenant(job: str, mode: Mode, profile: Profile | None, slot: int = 0, compute_milli: int = 1000) -> Tenant:
    share = Share(f"GPU-n-{slot}", mode, compute_milli, 8 * GIB)
    return Tenant(WorkerKey(job, 1, 0), (share,), profile)


@pytest.fixture
def devices() -> SimulatedDevices:
    return SimulatedDevices.named("2xA100-SXM4-80GB", "n", "additive")


def test_alone_a_job_runs_at_full_speed(devices: SimulatedDevices) -> None:
    alone = tenant("a", Mode.EXCLUSIVE, BUSY)
    assert devices.speeds([alone]) == {alone.key: 1.0}


def test_neighbours_slow_each_other_and_only_each_other(devices: SimulatedDevices) -> None:
    pair = [tenant("a", Mode.TIMESLICE, BUSY), tenant("b", Mode.TIMESLICE, LIGHT)]
    apart = tenant("c", Mode.TIMESLICE, BUSY, slot=1)
    speeds = devices.speeds([*pair, apart])
    assert speeds[apart.key] == 1.0
    assert speeds[pair[0].key] == pytest.approx(1 / (1 + 1.12 * 0.2))
    assert speeds[pair[1].key] == pytest.approx(1 / (1 + 1.12 * 0.8))


def test_those_in_a_slice_slow_each_other_and_nobody_beside_it(devices: SimulatedDevices) -> None:
    shares = (Share("GPU-n-0", Mode.TIMESLICE, 214, 8 * GIB, "3g.40gb", 4),) * 2
    inside = Tenant(WorkerKey("inside", 1, 0), shares, LIGHT)
    beside = Tenant(WorkerKey("b", 1, 0), (Share("GPU-n-0", Mode.MIG, 428, 8 * GIB, "3g.40gb", 0),), LIGHT)
    speeds = devices.speeds([inside, beside])
    assert (speeds[inside.key], speeds[beside.key]) == (pytest.approx(1 / (1 + 1.12 * 0.467)), 1.0)


def test_the_slowest_gpu_of_a_worker_counts(devices: SimulatedDevices) -> None:
    shares = (Share("GPU-n-0", Mode.TIMESLICE, 1000), Share("GPU-n-1", Mode.TIMESLICE, 1000))
    wide = Tenant(WorkerKey("wide", 1, 0), shares, BUSY)
    speeds = devices.speeds([wide, tenant("b", Mode.TIMESLICE, BUSY, slot=1)])
    assert speeds[wide.key] == pytest.approx(1 / (1 + 1.12 * 0.8))


def test_in_a_slice_a_job_is_as_fast_as_measured(devices: SimulatedDevices) -> None:
    model = "A100-SXM4-80GB"
    profile = Profile("sliced", {model: 30, f"{model}/3g.40gb": 20, f"{model}/1g.10gb": 10}, sm_milli=900)
    shares = [
        Share("GPU-n-0", Mode.MIG, 428, None, "3g.40gb", 0),
        Share("GPU-n-0", Mode.MIG, 142, None, "1g.10gb", 6),
    ]
    jobs = [Tenant(WorkerKey(f"job-{i}", 1, 0), (share,), profile) for i, share in enumerate(shares)]
    assert list(devices.speeds(jobs).values()) == pytest.approx([2 / 3, 1 / 3])


def test_several_shares_of_a_slice_slow_each_other_and_nobody_else(devices: SimulatedDevices) -> None:
    share = Share("GPU-n-0", Mode.TIMESLICE, 214, None, "3g.40gb", 4)
    pair = Tenant(WorkerKey("pair", 1, 0), (share, share), LIGHT)
    beside = Tenant(WorkerKey("beside", 1, 0), (Share("GPU-n-0", Mode.MIG, 428, None, "3g.40gb", 0),), LIGHT)
    speeds = devices.speeds([pair, beside])
    assert speeds[beside.key] == 1.0
    assert speeds[pair.key] == pytest.approx(1 / (1 + 1.12 * 0.467))


def test_without_a_profile_nobody_is_slowed_and_use_is_unknown(devices: SimulatedDevices) -> None:
    pair = [tenant("a", Mode.TIMESLICE, None), tenant("b", Mode.TIMESLICE, BUSY)]
    assert set(devices.speeds(pair).values()) == {1.0}
    assert devices.telemetry(pair) == (
        Telemetry("GPU-n-0", None, 18 * GIB),
        Telemetry("GPU-n-1", 0, 0),
    )


def test_use_follows_from_the_speed_that_tenants_really_get(devices: SimulatedDevices) -> None:
    pair = [tenant("a", Mode.TIMESLICE, BUSY), tenant("b", Mode.TIMESLICE, LIGHT)]
    speeds = devices.speeds(pair)
    expected = round(800 * speeds[pair[0].key]) + round(200 * speeds[pair[1].key])
    assert devices.telemetry(pair)[0] == Telemetry("GPU-n-0", expected, 15 * GIB)


@pytest.mark.parametrize(
    ("short_form", "truth", "error"),
    [
        ("four A100", "additive", InvalidSpec),
        ("0xA100-SXM4-80GB", "additive", InvalidSpec),
        ("2xNOSUCH-1GB", "additive", UnknownName),
        ("2xA100-SXM4-80GB", "no-such-model", UnknownName),
    ],
)
def test_unknown_nodes_and_models_are_refused(short_form: str, truth: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        SimulatedDevices.named(short_form, "n", truth)


def mig(profile: str | None, start: int | None) -> Share:
    return Share("GPU-n-0", Mode.MIG, 142, 9 * GIB, profile, start)


def test_mig_instances_are_known_by_their_place(devices: SimulatedDevices, tmp_path: Path) -> None:
    partitioner = Partitioner(devices, tmp_path)
    first, again, other = (partitioner.ensure([mig("1g.10gb", start)]).visible for start in (0, 0, 1))
    assert first == again != other
    assert first[0].startswith("MIG-")


@pytest.mark.parametrize(
    ("share", "reason"),
    [
        (mig("1g.10gb", 7), "has no slice 1g.10gb at 7"),
        (mig("9g.1gb", 0), "has no slice 9g.1gb"),
        (mig(None, 0), "MIG without profile"),
        (Share("GPU-elsewhere", Mode.MIG, 142, None, "1g.10gb", 0), "has no MIG"),
    ],
)
def test_a_slice_that_cannot_be_is_refused(
    devices: SimulatedDevices, tmp_path: Path, share: Share, reason: str
) -> None:
    with pytest.raises(OperationFailed, match=reason):
        Partitioner(devices, tmp_path).ensure([share])


def test_mps_shares_come_with_the_folders_of_their_daemon(devices: SimulatedDevices, tmp_path: Path) -> None:
    prepared = Partitioner(devices, tmp_path).ensure([Share("GPU-n-0", Mode.MPS, 300, 10 * GIB)])
    assert prepared.visible == ("GPU-n-0",)
    assert prepared.mps is not None
    assert prepared.mps.pipe.is_dir()
    assert prepared.mps.log.is_dir()
    assert prepared.mps.pipe.stat().st_mode & 0o077 == 0
    # A Unix socket lies in there, whose whole name may have 107 bytes.
    assert len(str(prepared.mps.pipe)) - len(str(tmp_path)) < 30
