"""GPUs that exist in the imagination only: what runs on them is slowed down by a model of interference."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Self

from agent.devices import Telemetry, Tenant, WorkerKey
from placement.interference import InterferenceModel, measured_alone, model_named, predictions_of
from placement.model import WHOLE_GPU_MILLI, Node, OperationFailed, Share
from placement.model.hardware import node_from_short_form
from placement.partition.geometry import geometry_of


class SimulatedDevices:
    """A node of simulated GPUs; the truth model says what neighbours really do to each other."""

    simulated = True

    def __init__(self, node: Node, truth: InterferenceModel) -> None:
        self._node = node
        self._truth = truth
        self._models = {gpu.uuid: gpu.model for gpu in node.gpus}

    @classmethod
    def named(cls, short_form: str, node_id: str, truth: str) -> Self:
        """A node from its short form, such as ``4xA100-SXM4-80GB``, and a truth model by name.

        Raises:
            InvalidInput: either is not known.
        """
        return cls(node_from_short_form(short_form, node_id), model_named(truth))

    def node(self, node_id: str) -> Node:
        """The node as it was described."""
        return self._node

    def telemetry(self, tenants: Sequence[Tenant]) -> tuple[Telemetry, ...]:
        """Use follows from who is there: their pressure at the speed that they really get."""
        speeds, residents = self.speeds(tenants), _by_gpu(tenants)
        return tuple(
            Telemetry(
                uuid,
                _total(
                    [_sm_milli(share, tenant, speeds[tenant.key]) for tenant, share in residents[uuid]], 1000
                ),
                _total([_memory_bytes(share, tenant) for tenant, share in residents[uuid]], None),
            )
            for uuid in self._models
        )

    def speeds(self, tenants: Sequence[Tenant]) -> Mapping[WorkerKey, float]:
        """1/slowdown of each worker; its slowest GPU counts, one of unknown slowdown does not.

        Alone in a slice it is as fast as its profile says, as in the simulator.
        """
        slowdown = {tenant.key: 1.0 for tenant in tenants}
        for uuid, held in _by_gpu(tenants).items():
            if uuid not in self._models:
                continue
            model, known = self._models[uuid], [(tenant.profile, share) for tenant, share in held]
            predictions = predictions_of(self._truth, model, known)
            for (tenant, share), prediction in zip(held, predictions, strict=True):
                measured = measured_alone(model, (tenant.profile, share))
                factor = prediction.slowdown if measured is None else measured
                slowdown[tenant.key] = max(slowdown[tenant.key], factor or 1.0)
        return {key: 1 / factor for key, factor in slowdown.items()}

    def ensure_mig(self, gpu_uuid: str, profile: str, start: int) -> str:
        """A name that follows from the place.

        Raises:
            OperationFailed: this GPU model has no such slice.
        """
        model = self._models.get(gpu_uuid)
        geometry = None if model is None else geometry_of(model)
        if geometry is None:
            raise OperationFailed(f"cannot partition: {gpu_uuid} ({model}) has no MIG")
        known = {p.name: p for p in geometry.profiles}
        if profile not in known or start not in known[profile].starts:
            raise OperationFailed(f"cannot partition: {gpu_uuid} ({model}) has no slice {profile} at {start}")
        digest = hashlib.sha256(f"{gpu_uuid}/{profile}/{start}".encode()).hexdigest()
        return f"MIG-{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}"


def _by_gpu(tenants: Sequence[Tenant]) -> dict[str, list[tuple[Tenant, Share]]]:
    held: dict[str, list[tuple[Tenant, Share]]] = defaultdict(list)
    for tenant in sorted(tenants, key=lambda t: t.key):
        for share in tenant.shares:
            held[share.gpu_uuid].append((tenant, share))
    return held


def _total(parts: list[int | None], most: int | None) -> int | None:
    if any(part is None for part in parts):
        return None
    total = sum(part for part in parts if part is not None)
    return total if most is None else min(most, total)


def _sm_milli(share: Share, tenant: Tenant, speed: float) -> int | None:
    if tenant.profile is None or tenant.profile.sm_milli is None:
        return None
    return round(min(tenant.profile.sm_milli, share.compute_milli, WHOLE_GPU_MILLI) * speed)


def _memory_bytes(share: Share, tenant: Tenant) -> int | None:
    if tenant.profile is not None and tenant.profile.memory_bytes is not None:
        return tenant.profile.memory_bytes
    return share.memory_bytes
