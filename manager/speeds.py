"""How fast jobs run between two reports, for policies that part pairs which do too little together."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

from manager.wire.agent_models import ReportKind, WorkerReport
from placement.model import SpeedObserved


@dataclass(slots=True)
class Speeds:
    """Remembers the last step of each worker; it is reported again soon, so it is not stored.

    A report's own slowdown is a mean since the job began and would hardly show that a neighbour has come.
    First workers alone are followed: jobs of several are not put on trial.  Unless ``wanted``, nothing is.
    """

    wanted: bool = False
    _last: dict[tuple[str, int], tuple[int, float]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def events_of(self, reports: Iterable[WorkerReport]) -> list[SpeedObserved]:
        """What is new for the core in these reports."""
        if not self.wanted:
            return []
        with self._lock:
            return [event for report in reports if (event := self._event_of(report)) is not None]

    def _event_of(self, report: WorkerReport) -> SpeedObserved | None:
        key = report.job_id, report.attempt
        if report.kind is ReportKind.EXITED:
            self._last.pop(key, None)
        if report.kind is not ReportKind.PROGRESS or report.worker > 0:
            return None
        if report.step is None or report.at_s is None:
            return None
        before, self._last[key] = self._last.get(key), (report.step, report.at_s)
        solo_rate = (report.observed_slowdown or 0.0) * (report.steps_per_s or 0.0)
        if before is None or report.step <= before[0] or report.at_s <= before[1] or not solo_rate:
            return None
        rate = (report.step - before[0]) / (report.at_s - before[1])
        return SpeedObserved(report.job_id, report.attempt, solo_rate / rate)
