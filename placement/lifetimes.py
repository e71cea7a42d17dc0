"""How long jobs last, in coarse classes: as they say, or as the latest ended jobs of the same origin did.

Lifetimes a factor of ten apart are told apart and no others, as in LAVA (Ling et al., "LAVA: Lifetime-Aware
VM Allocation with Learned Distributions and Adaptation to Mispredictions", MLSys 2025).  A class instead of
seconds lets jobs that ask for the same go on sharing what was compiled and scored for them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace

from placement.lifecycle import JobRecord
from placement.model import Job, JobKind, Lifetime

LIMITS_S = (3_600.0, 36_000.0, 360_000.0)
"""The classes below the last end here, in seconds."""

RECENT = 64
"""So many run times of an origin are remembered, the latest."""

FEWEST = 8
"""With fewer nothing is estimated."""

SURE_TENTHS = 9
"""So many tenths of the jobs of an origin ended within the lifetime that is estimated for the next one."""


@dataclass(frozen=True, slots=True)
class RunTimes:
    """How long the latest jobs of a tenant and of a kind held their shares, the latest last."""

    tenant: str
    kind: JobKind
    lifetimes: tuple[Lifetime, ...]


def lifetime_of(run_s: float) -> Lifetime:
    """The class of a run time in seconds."""
    return Lifetime(bisect_right(LIMITS_S, run_s) + 1)


def estimate(lifetimes: tuple[Lifetime, ...]) -> Lifetime:
    """The least class within which nearly all of these ended; unknown if they are too few."""
    count = len(lifetimes)
    if count < FEWEST:
        return Lifetime.UNKNOWN
    return sorted(lifetimes)[-(-count * SURE_TENTHS // 10) - 1]


class Lifetimes:
    """Gives jobs their lifetime when they enter, and learns from those that ended.

    A job keeps what it was given: what is decided about it depends on its record alone.  What ends in a step
    counts from the next step on, in the order of arrival, so that the order of events does not matter.
    """

    def __init__(self, *, on: bool) -> None:
        self._on = on
        self._known: dict[tuple[str, str], RunTimes] = {}

    @property
    def known(self) -> tuple[RunTimes, ...]:
        """All that a restart has to know."""
        return tuple(self._known.values())

    def recall(self, known: Iterable[RunTimes]) -> None:
        """Go on with what was known before."""
        self._known.update({(each.tenant, each.kind.value): each for each in known})

    def given(self, job: Job) -> Job:
        """The job with its lifetime, if lifetimes are weighed."""
        if not self._on:
            return job
        if job.duration_s is not None:
            return replace(job, lifetime=lifetime_of(job.duration_s))
        known = self._known.get((job.tenant, job.kind.value))
        return job if known is None else replace(job, lifetime=estimate(known.lifetimes))

    def learn(self, ended: Iterable[JobRecord]) -> tuple[RunTimes, ...]:
        """Remember how long these jobs ran that have just ended; gives what is known anew."""
        if not self._on:
            return ()
        changed: dict[tuple[str, str], RunTimes] = {}
        for record in sorted(ended, key=lambda record: record.job.sequence):
            if not record.attempt:  # it never ran
                continue
            job = record.job
            origin = job.tenant, job.kind.value
            before = self._known[origin].lifetimes if origin in self._known else ()
            lifetimes = (*before, lifetime_of(record.held_s))[-RECENT:]
            self._known[origin] = changed[origin] = RunTimes(job.tenant, job.kind, lifetimes)
        return tuple(changed.values())
