"""Who is accounted for places on which others still sit: they start when those have left."""

from __future__ import annotations

from collections.abc import Iterable

from placement.ledger import Ledger
from placement.lifecycle import JobRecord
from placement.model import Assignment
from placement.vacating import Vacating


class Claims:
    """Jobs that wait for others to leave, and those others.

    Attributes:
        due: somebody has left, or arrived where its place was kept, since the last claims were taken.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._vacating = Vacating()
        self._waiting: dict[str, JobRecord] = {}
        self.due = False

    def waits(self, record: JobRecord, assignments: tuple[Assignment, ...]) -> bool:
        """Whether somebody still sits on what a job is to get."""
        return self._vacating.anybody and bool(self._sitting_on(record, assignments))

    def add(self, record: JobRecord) -> None:
        """A job claims the places it is accounted for."""
        record.waits_for = self._sitting_on(record, record.assignments)
        self._waiting[record.job.job_id] = record

    def resume(self, record: JobRecord) -> None:
        """A claim of before the restart; for whom it waits is known."""
        self._waiting[record.job.job_id] = record

    def drop(self, record: JobRecord) -> None:
        """A job claims nothing any more."""
        record.waits_for = set()
        self._waiting.pop(record.job.job_id, None)

    def leaving(self, record: JobRecord, sitting: Iterable[Assignment]) -> None:
        """A job has been told to leave these places."""
        self._vacating.add(record.job.job_id, sitting)

    def left(self, record: JobRecord) -> None:
        """A job has left the places it was to leave."""
        self._vacating.remove(record.job.job_id, record.vacating)
        record.vacating = ()
        self.due = True
        for other in self._waiting.values():
            if record.job.job_id in other.waits_for:
                other.waits_for.discard(record.job.job_id)
                self._ledger.touch(other.job.job_id)

    def ready(self) -> list[JobRecord]:
        """Those who wait for nobody any more, in the order of submission."""
        ready = [claim for claim in self._waiting.values() if not claim.waits_for]
        return sorted(ready, key=lambda claim: claim.job.sequence)

    def take_ready(self) -> list[JobRecord]:
        """The same; they are no claims any more."""
        self.due = False
        ready = self.ready()
        for record in ready:
            del self._waiting[record.job.job_id]
        return ready

    def _sitting_on(self, record: JobRecord, assignments: tuple[Assignment, ...]) -> set[str]:
        request = record.job.request
        node_matters = bool(request.cpu_milli or request.ram_bytes)
        return self._vacating.sitting_on(assignments, node_matters=node_matters)
