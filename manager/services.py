"""What the routes work with."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

from manager.clock import Clock
from manager.dispatch import Bell
from manager.leases import Leases
from manager.logs import LogStore
from manager.loop import CoreSettings, Loop
from manager.reconcile import Reconciler
from manager.speeds import Speeds
from manager.store import Store
from manager.wire.agent_models import GpuTelemetry


class Telemetry:
    """The latest measurement of each GPU; it is measured again soon, so it is not stored."""

    def __init__(self) -> None:
        self._latest: dict[str, GpuTelemetry] = {}
        self._lock = threading.Lock()

    def update(self, measured: Iterable[GpuTelemetry]) -> None:
        """Take new measurements."""
        with self._lock:
            self._latest.update({each.gpu_uuid: each for each in measured})

    def get(self, gpu_uuid: str) -> GpuTelemetry | None:
        """The latest measurement, None if there was none since this manager started."""
        with self._lock:
            return self._latest.get(gpu_uuid)


@dataclass(frozen=True, slots=True)
class Services:
    """One running manager, as the routes see it."""

    store: Store
    loop: Loop
    leases: Leases
    clock: Clock
    logs: LogStore
    bell: Bell
    reconciler: Reconciler
    core: CoreSettings
    started_s: float
    token: str = field(repr=False)
    telemetry: Telemetry = field(default_factory=Telemetry)
    speeds: Speeds = field(default_factory=Speeds)

    @property
    def epoch(self) -> int:
        """The number under which this manager leads."""
        return self.store.steps.epoch

    @property
    def database_id(self) -> str:
        """The random id of the database, the same for all its managers."""
        return self.store.steps.database_id
