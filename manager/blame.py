"""Finds what the scheduler cannot stand, by trying without it.

A bug that one job sets off must cost that job and nobody else.  The trials are what-ifs on fresh images of
the store; nothing of them is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from manager.store import CoreImage, Steps
from placement.lifecycle import JobState
from placement.model import Event
from placement.scheduler import Scheduler

SUSPECTS = 200
"""Waiting jobs that are tried, the latest first: one that waits for long has been looked at many times."""


@dataclass(frozen=True, slots=True)
class Blame:
    """One investigation at one moment; ``build`` makes a scheduler of an image."""

    steps: Steps
    build: Callable[[CoreImage], Scheduler]
    now_s: float

    def works(self, events: Sequence[Event] = (), without: str | None = None) -> bool:
        """Whether a step with these events succeeds on the state of the store, without that waiting job.

        Raises:
            OperationFailed: the store refuses.
        """
        image = self.steps.load()
        if without is not None:
            records = tuple(record for record in image.records if record.job.job_id != without)
            image = replace(image, records=records)
        try:
            self.build(image).step(events, self.now_s)
        except MemoryError:
            raise
        except Exception:
            return False
        return True

    def culprit(self, events: Sequence[Event] = ()) -> str | None:
        """The waiting job without which a step with these events succeeds, None if there is no such one."""
        waiting = [record.job for record in self.steps.load().records if record.state is JobState.QUEUED]
        waiting.sort(key=lambda job: job.sequence, reverse=True)
        for job in waiting[:SUSPECTS]:
            if self.works(events, without=job.job_id):
                return job.job_id
        return None
