"""Real GPUs through NVML; the only importer of pynvml.  Without a driver the node has CPUs only."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as StuckError
from ctypes import byref, c_uint
from typing import Any, TypeVar

import pynvml

from agent.devices import Telemetry, Tenant, WorkerKey
from agent.gpu_names import model_of
from placement.model import Gpu, Node, OperationFailed

_LOG = logging.getLogger(__name__)
TELEMETRY_TIMEOUT_S = 1.0
MOST_INSTANCES = 16
T = TypeVar("T")


class _Refused(Exception):
    """A slice cannot be made, for a reason that NVML does not know."""


class NvmlDevices:
    """The GPUs that the driver shows; each is asked in a thread of its own: a stuck one holds up no other."""

    simulated = False

    def __init__(self) -> None:
        self._handles = _handles()
        self._askers = {uuid: ThreadPoolExecutor(1, f"nvml-{uuid[:12]}") for uuid in self._handles}
        self._pending: dict[str, Future[Telemetry]] = {}

    def node(self, node_id: str) -> Node:
        """The GPUs with their memory, the CPUs and the RAM of this machine."""
        gpus = tuple(_gpu(uuid, handle) for uuid, handle in self._handles.items())
        return Node(node_id, gpus, (os.cpu_count() or 1) * 1000, _ram_bytes())

    def telemetry(self, tenants: Sequence[Tenant]) -> tuple[Telemetry, ...]:
        """Use of each GPU; one that does not answer in time is unknown."""
        for uuid, handle in self._handles.items():
            if uuid not in self._pending:
                self._pending[uuid] = self._askers[uuid].submit(_measure, uuid, handle)
        deadline_s = time.monotonic() + TELEMETRY_TIMEOUT_S
        return tuple(self._collect(uuid, deadline_s) for uuid in self._handles)

    def _collect(self, uuid: str, deadline_s: float) -> Telemetry:
        try:
            measured = self._pending[uuid].result(max(0.0, deadline_s - time.monotonic()))
        except StuckError:
            return Telemetry(uuid)  # still pending: it is not asked again until it answers
        del self._pending[uuid]
        return measured

    def speeds(self, tenants: Sequence[Tenant]) -> Mapping[WorkerKey, float]:
        """Nobody paces work on a real GPU."""
        return {}

    def ensure_mig(self, gpu_uuid: str, profile: str, start: int) -> str:
        """The MIG instance of that profile at that memory slice, made if it is not there.

        Raises:
            OperationFailed: no such GPU or profile, MIG is off, or the place is taken.
        """
        handle = self._handles.get(gpu_uuid)
        if handle is None:
            raise OperationFailed(f"cannot partition: no GPU {gpu_uuid} on this node")
        try:
            return _ensure_mig(handle, profile, start)
        except (pynvml.NVMLError, _Refused) as error:
            raise OperationFailed(f"cannot partition: {gpu_uuid}: {profile} at {start}: {error}") from error


def _handles() -> dict[str, Any]:
    try:
        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
    except pynvml.NVMLError as error:
        _LOG.info("no GPUs: %s; this node offers CPUs only", error)
        return {}
    handles = {}
    for index in range(count):
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            handles[_text(pynvml.nvmlDeviceGetUUID(handle))] = handle
        except pynvml.NVMLError as error:
            _LOG.warning("GPU %d is left out: %s", index, error)
    return handles


def _gpu(uuid: str, handle: Any) -> Gpu:
    memory = _asked(lambda: int(pynvml.nvmlDeviceGetMemoryInfo(handle).total))
    name = _asked(lambda: _text(pynvml.nvmlDeviceGetName(handle)))
    return Gpu(uuid, model_of(name or "unknown", memory), memory)


def _measure(uuid: str, handle: Any) -> Telemetry:
    # How long kernels ran at all bounds from above how busy the SMs were; NVML offers no better to all GPUs.
    busy_milli = _asked(lambda: int(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu) * 10)
    used_bytes = _asked(lambda: int(pynvml.nvmlDeviceGetMemoryInfo(handle).used))
    return Telemetry(uuid, busy_milli, used_bytes)


def _ensure_mig(handle: Any, name: str, start: int) -> str:
    mode, _ = pynvml.nvmlDeviceGetMigMode(handle)
    if mode != pynvml.NVML_DEVICE_MIG_ENABLE:
        raise _Refused("MIG is off on this GPU; turn it on with nvidia-smi -mig 1")
    info = _profile_info(handle, name)
    instance = _instance_at(handle, info.id, start)
    if instance is None:
        placement = _placement_at(handle, info.id, start)
        instance = pynvml.nvmlDeviceCreateGpuInstanceWithPlacement(handle, info.id, byref(placement))
    whole = pynvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(
        instance, _whole_compute_profile(name), pynvml.NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED
    )
    if not _compute_instances(instance, whole.id):
        pynvml.nvmlGpuInstanceCreateComputeInstance(instance, whole.id)
    return _mig_uuid(handle, pynvml.nvmlGpuInstanceGetInfo(instance).id)


def _profile_info(handle: Any, name: str) -> Any:
    for index in range(pynvml.NVML_GPU_INSTANCE_PROFILE_COUNT):
        try:
            info = pynvml.nvmlDeviceGetGpuInstanceProfileInfoV(handle, index)
        except pynvml.NVMLError:
            continue  # this model has no such profile
        if _text(info.name).removeprefix("MIG ") == name:
            return info
    raise _Refused(f"this GPU has no MIG profile {name}")


def _instance_at(handle: Any, profile_id: int, start: int) -> Any | None:
    found = _listed(
        pynvml.c_nvmlGpuInstance_t,
        lambda list_, count: pynvml.nvmlDeviceGetGpuInstances(handle, profile_id, list_, count),
    )
    for instance in found:
        if pynvml.nvmlGpuInstanceGetInfo(instance).placement.start == start:
            return instance
    return None


def _placement_at(handle: Any, profile_id: int, start: int) -> Any:
    possible = _listed(
        pynvml.c_nvmlGpuInstancePlacement_t,
        lambda list_, count: pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(
            handle, profile_id, list_, count
        ),
    )
    for placement in possible:
        if placement.start == start:
            return placement
    raise _Refused(f"that profile cannot begin at memory slice {start}")


def _compute_instances(instance: Any, profile_id: int) -> list[Any]:
    return _listed(
        pynvml.c_nvmlComputeInstance_t,
        lambda list_, count: pynvml.nvmlGpuInstanceGetComputeInstances(instance, profile_id, list_, count),
    )


def _listed(kind: Any, ask: Callable[[Any, Any], object]) -> list[Any]:
    found, count = (kind * MOST_INSTANCES)(), c_uint(MOST_INSTANCES)
    ask(found, byref(count))
    return list(found)[: count.value]


def _whole_compute_profile(name: str) -> int:
    slices = int(name.partition("g.")[0])
    profile: int = getattr(pynvml, f"NVML_COMPUTE_INSTANCE_PROFILE_{slices}_SLICE")
    return profile


def _mig_uuid(handle: Any, instance_id: int) -> str:
    for index in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        try:
            device = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
        except pynvml.NVMLError:
            continue  # no instance under this index
        if pynvml.nvmlDeviceGetGpuInstanceId(device) == instance_id:
            return _text(pynvml.nvmlDeviceGetUUID(device))
    raise _Refused(f"the driver shows no device for MIG instance {instance_id}")


def _asked(ask: Callable[[], T]) -> T | None:
    try:
        return ask()
    except pynvml.NVMLError:
        return None


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _ram_bytes() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return None
