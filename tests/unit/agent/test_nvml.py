"""Real GPUs, with the driver's library replaced by functions that answer for it."""

from __future__ import annotations

import threading
from ctypes import Structure
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from agent.devices import Telemetry
from agent.nvml import NvmlDevices
from placement.model import Gpu, OperationFailed

GIB = 1 << 30


def refuse(code: int = pynvml.NVML_ERROR_NOT_SUPPORTED) -> Any:
    def refusing(*_: object) -> None:
        raise pynvml.NVMLError(code)

    return refusing


class Driver:
    """Two GPUs; the instances of the first are kept in a dictionary by memory slice."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        self.instances: dict[int, int] = {}
        self.created: list[int] = []
        self.set(
            nvmlInit=lambda: None,
            nvmlDeviceGetCount=lambda: 2,
            nvmlDeviceGetHandleByIndex=lambda index: index,
            nvmlDeviceGetUUID=self.uuid,
            nvmlDeviceGetName=lambda handle: "NVIDIA A100-SXM4-80GB",
            nvmlDeviceGetMemoryInfo=lambda handle: SimpleNamespace(total=80 * GIB, used=handle * GIB),
            nvmlDeviceGetUtilizationRates=lambda handle: SimpleNamespace(gpu=37),
            nvmlDeviceGetMigMode=lambda handle: (1, 1),
            nvmlDeviceGetGpuInstanceProfileInfoV=self.profile,
            nvmlDeviceGetGpuInstances=self.list_instances,
            nvmlDeviceGetGpuInstancePossiblePlacements=self.placements,
            nvmlDeviceCreateGpuInstanceWithPlacement=self.create,
            nvmlGpuInstanceGetInfo=self.info,
            nvmlGpuInstanceGetComputeInstanceProfileInfo=lambda *_: SimpleNamespace(id=0),
            nvmlGpuInstanceGetComputeInstances=self.list_compute,
            nvmlGpuInstanceCreateComputeInstance=lambda *_: None,
            nvmlDeviceGetMaxMigDeviceCount=lambda handle: 7,
            nvmlDeviceGetMigDeviceHandleByIndex=self.device,
            nvmlDeviceGetGpuInstanceId=lambda device: device[1],
            c_nvmlGpuInstance_t=Instance,
        )

    def set(self, **functions: Any) -> None:
        for name, function in functions.items():
            self._patch.setattr(pynvml, name, function)

    def uuid(self, handle: Any) -> str:
        return f"MIG-{handle[1]}" if isinstance(handle, tuple) else f"GPU-{handle}"

    def profile(self, handle: int, index: int) -> Any:
        if index != 2:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return SimpleNamespace(id=19, name=b"MIG 1g.10gb", sliceCount=1)

    def list_instances(self, handle: int, profile: int, found: Any, count: Any) -> None:
        for slot, (start, identity) in enumerate(self.instances.items()):
            found[slot].start, found[slot].identity = start, identity
        count._obj.value = len(self.instances)

    def placements(self, handle: int, profile: int, found: Any, count: Any) -> None:
        for start in range(7):
            found[start].start, found[start].size = start, 1
        count._obj.value = 7

    def create(self, handle: int, profile: int, placement: Any) -> Any:
        start = placement._obj.start
        self.created.append(start)
        self.instances[start] = 100 + start
        return SimpleNamespace(start=start, identity=100 + start)

    def info(self, instance: Any) -> Any:
        return SimpleNamespace(id=instance.identity, placement=SimpleNamespace(start=instance.start))

    def list_compute(self, instance: Any, profile: int, found: Any, count: Any) -> None:
        count._obj.value = 0

    def device(self, handle: int, index: int) -> tuple[str, int]:
        if index >= len(self.instances):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return "mig", list(self.instances.values())[index]


class Instance(Structure):
    from ctypes import c_int

    _fields_ = (("start", c_int), ("identity", c_int))


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    return Driver(monkeypatch)


@pytest.mark.parametrize(
    "code",
    [
        pynvml.NVML_ERROR_LIBRARY_NOT_FOUND,
        pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
        pynvml.NVML_ERROR_NO_PERMISSION,
        pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH,
    ],
)
def test_without_a_driver_the_node_has_cpus_only(driver: Driver, code: int) -> None:
    driver.set(nvmlInit=refuse(code))
    devices = NvmlDevices()
    node = devices.node("n")
    assert node.gpus == ()
    assert node.cpu_milli is not None
    assert node.cpu_milli >= 1000
    assert node.ram_bytes is not None
    assert devices.telemetry([]) == ()


def test_gpus_are_reported_by_uuid_and_model(driver: Driver) -> None:
    assert NvmlDevices().node("n").gpus == (
        Gpu("GPU-0", "A100-SXM4-80GB", 80 * GIB),
        Gpu("GPU-1", "A100-SXM4-80GB", 80 * GIB),
    )


def test_a_gpu_that_fell_off_the_bus_is_left_out(driver: Driver) -> None:
    def handle(index: int) -> int:
        if index == 0:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)
        return index

    driver.set(nvmlDeviceGetHandleByIndex=handle)
    assert [gpu.uuid for gpu in NvmlDevices().node("n").gpus] == ["GPU-1"]


def test_what_a_gpu_cannot_tell_is_unknown(driver: Driver) -> None:
    driver.set(
        nvmlDeviceGetUtilizationRates=refuse(), nvmlDeviceGetMemoryInfo=refuse(), nvmlDeviceGetName=refuse()
    )
    devices = NvmlDevices()
    assert devices.node("n").gpus[0] == Gpu("GPU-0", "unknown", None)
    assert devices.telemetry([])[0] == Telemetry("GPU-0", None, None)


def test_use_is_measured(driver: Driver) -> None:
    assert NvmlDevices().telemetry([]) == (Telemetry("GPU-0", 370, 0), Telemetry("GPU-1", 370, GIB))


def test_a_stuck_gpu_holds_up_no_other(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.nvml.TELEMETRY_TIMEOUT_S", 0.2)
    free = threading.Event()
    calls = []

    def rates(handle: int) -> Any:
        if handle == 0:
            calls.append(handle)
            free.wait(20)
        return SimpleNamespace(gpu=50)

    driver.set(nvmlDeviceGetUtilizationRates=rates)
    devices = NvmlDevices()
    for _ in range(2):
        stuck, other = devices.telemetry([])
        assert stuck == Telemetry("GPU-0", None, None)
        assert other.sm_milli == 500
    assert calls == [0]  # it is not asked again while it does not answer
    free.set()
    monkeypatch.setattr("agent.nvml.TELEMETRY_TIMEOUT_S", 20.0)
    assert devices.telemetry([])[0].sm_milli == 500


def test_nobody_is_paced(driver: Driver) -> None:
    assert NvmlDevices().speeds([]) == {}


def test_a_mig_instance_is_made_once(driver: Driver) -> None:
    devices = NvmlDevices()
    assert devices.ensure_mig("GPU-0", "1g.10gb", 3) == "MIG-103"
    assert devices.ensure_mig("GPU-0", "1g.10gb", 3) == "MIG-103"
    assert devices.ensure_mig("GPU-0", "1g.10gb", 0) == "MIG-100"
    assert driver.created == [3, 0]


@pytest.mark.parametrize(
    ("uuid", "profile", "start", "functions", "reason"),
    [
        ("GPU-9", "1g.10gb", 0, {}, "no GPU GPU-9"),
        ("GPU-0", "9g.10gb", 0, {}, "no MIG profile 9g.10gb"),
        ("GPU-0", "1g.10gb", 7, {}, "cannot begin at memory slice 7"),
        ("GPU-0", "1g.10gb", 0, {"nvmlDeviceGetMigMode": lambda h: (0, 0)}, "MIG is off"),
        (
            "GPU-0",
            "1g.10gb",
            0,
            {"nvmlDeviceCreateGpuInstanceWithPlacement": refuse(pynvml.NVML_ERROR_INSUFFICIENT_RESOURCES)},
            "GPU-0: 1g.10gb at 0",
        ),
        ("GPU-0", "1g.10gb", 0, {"nvmlDeviceGetMigMode": refuse()}, "GPU-0: 1g.10gb at 0"),
    ],
)
def test_a_refusal_says_why(
    driver: Driver, *, uuid: str, profile: str, start: int, functions: dict[str, Any], reason: str
) -> None:
    driver.set(**functions)
    with pytest.raises(OperationFailed, match=reason):
        NvmlDevices().ensure_mig(uuid, profile, start)
