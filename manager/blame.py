"""Finds what the scheduler cannot stand, by trying without it.

A bug that one job sets off must cost that job and nobody else.  The trials are what-ifs on copies of one
image of the store; nothing of them is kept.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields, replace

from manager.store import CoreImage
from placement.lifecycle import JobRecord, JobState
from placement.model import Event
from placement.scheduler import Scheduler

MOST_CULPRITS = 3
"""If more waiting jobs than that had to go, the bug is not theirs."""


@dataclass(frozen=True, slots=True)
class Blame:
    """One investigation at one moment; ``build`` makes a scheduler of an image and may change its records."""

    image: CoreImage
    build: Callable[[CoreImage], Scheduler]
    now_s: float

    def works(self, events: Sequence[Event] = (), without: Collection[str] = ()) -> bool:
        """Whether a step with these events succeeds on the image, without those waiting jobs."""
        kept = tuple(_copy(each) for each in self.image.records if each.job.job_id not in without)
        try:
            self.build(replace(self.image, records=kept)).step(events, self.now_s)
        except MemoryError:
            raise
        except Exception:
            return False
        return True

    def culprits(self, events: Sequence[Event] = ()) -> tuple[str, ...]:
        """The few waiting jobs without which a step with these events succeeds, none if there are no such."""
        waiting = [each.job for each in self.image.records if each.state is JobState.QUEUED]
        waiting.sort(key=lambda job: job.sequence, reverse=True)
        suspects = [job.job_id for job in waiting]
        found: list[str] = []
        while suspects and len(found) < MOST_CULPRITS:
            last = self._first_that_matters(events, suspects, found)
            if last is None:
                break
            found.append(suspects.pop(last))
            if self.works(events, found):
                return tuple(found)
        return ()

    def _first_that_matters(
        self, events: Sequence[Event], suspects: Sequence[str], gone: Sequence[str]
    ) -> int | None:
        """Of jobs that are taken away one after the other, the one with which the step begins to succeed."""
        fails, works = 0, len(suspects)
        if not self.works(events, {*gone, *suspects}):
            return None
        while works - fails > 1:
            middle = (fails + works) // 2
            if self.works(events, {*gone, *suspects[:middle]}):
                works = middle
            else:
                fails = middle
        return works - 1


def _copy(record: JobRecord) -> JobRecord:
    """A record of its own; what it holds is shared where it cannot change."""
    copied = copy.copy(record)
    for field in fields(copied):
        value = getattr(copied, field.name)
        if isinstance(value, set | dict | list):
            setattr(copied, field.name, copy.copy(value))
    return copied
