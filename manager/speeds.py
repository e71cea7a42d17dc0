"""How fast jobs run between two reports, for policies that part pairs which do too little together."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field

from manager.wire.agent_models import ReportKind, WorkerReport
from placement.model import SpeedObserved

MOST_FOLLOWED = 1 << 16
"""Of so many jobs, at most, the last step is remembered."""


@dataclass(slots=True)
class Speeds:
    """Remembers the last step of each worker; it is reported again soon, so it is not stored.

    A report's own slowdown is a mean since the job began and would hardly show that a neighbour has come.
    First workers alone are followed: jobs of several are not put on trial.  Unless ``wanted``, nothing is.
    Of a job the latest attempt counts; whoever was lost with its node reports no end, so the number of jobs
    is bounded, and those of which nothing was heard for longest are forgotten first.
    """

    wanted: bool = False
    _last: dict[str, tuple[int, int, float]] = field(default_factory=dict)
    """By job: attempt, step, and when that was reported."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def events_of(self, reports: Iterable[WorkerReport]) -> list[SpeedObserved]:
        """What is new for the core in these reports."""
        if not self.wanted:
            return []
        with self._lock:
            return [event for report in reports if (event := self._event_of(report)) is not None]

    def _event_of(self, report: WorkerReport) -> SpeedObserved | None:
        before = self._last.get(report.job_id)
        if before is not None and report.attempt < before[0]:
            return None
        if report.kind is ReportKind.EXITED:
            self._last.pop(report.job_id, None)
        if report.kind is not ReportKind.PROGRESS or report.worker > 0:
            return None
        if report.step is None or report.at_s is None:
            return None
        self._remember(report.job_id, (report.attempt, report.step, report.at_s))
        solo_rate = (report.observed_slowdown or 0.0) * (report.steps_per_s or 0.0)
        if before is None or before[0] != report.attempt or not solo_rate:
            return None
        steps, seconds = report.step - before[1], report.at_s - before[2]
        if steps <= 0 or seconds <= 0:
            return None
        return SpeedObserved(report.job_id, report.attempt, solo_rate * seconds / steps)

    def _remember(self, job_id: str, last: tuple[int, int, float]) -> None:
        self._last.pop(job_id, None)
        self._last[job_id] = last
        if len(self._last) > MOST_FOLLOWED:
            del self._last[next(iter(self._last))]
