"""What the agent needs of the GPUs of its node, real or simulated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from placement.model import Node, Profile, Share


class WorkerKey(NamedTuple):
    """One worker of one attempt of a job."""

    job_id: str
    attempt: int
    worker: int


@dataclass(frozen=True, slots=True)
class Tenant:
    """A worker that runs now: what it holds, and its profile if it is known."""

    key: WorkerKey
    shares: tuple[Share, ...]
    profile: Profile | None = None


@dataclass(frozen=True, slots=True)
class Telemetry:
    """What a GPU does now; None is not measured."""

    gpu_uuid: str
    sm_milli: int | None = None
    memory_used_bytes: int | None = None


class Devices(Protocol):
    """The GPUs of one node."""

    @property
    def simulated(self) -> bool:
        """Whether the GPUs exist in the imagination only."""

    def node(self, node_id: str) -> Node:
        """What the node is made of."""

    def telemetry(self, tenants: Sequence[Tenant]) -> tuple[Telemetry, ...]:
        """One entry a GPU; what cannot be measured is None."""

    def speeds(self, tenants: Sequence[Tenant]) -> Mapping[WorkerKey, float]:
        """How fast each worker may go (1 is alone); workers that nobody paces are left out."""

    def ensure_mig(self, gpu_uuid: str, profile: str, start: int) -> str:
        """The UUID of the MIG instance at that place, which is made if it is not there.

        Raises:
            OperationFailed: the device refuses, or another instance is in the way.
        """
