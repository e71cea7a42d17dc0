"""Pack and revert: jobs share a GPU on trial and stay together if they do no less than taking turns would."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from placement.model import StateError


@dataclass(frozen=True, slots=True)
class TrialJob:
    """A job in a trial; ``kind`` names what runs in it (its profile, say), None if nobody knows.

    A pair of kinds that failed is never tried again, a pair of jobs without kinds not while both live.
    """

    job_id: str
    gpus: int = 1
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class Packed:
    """A job has begun to run on the GPUs of another."""

    newcomer: TrialJob
    host: TrialJob
    at_s: float


@dataclass(frozen=True, slots=True)
class Measured:
    """A job's step rate relative to its rate alone, from the last measurement (or the packing) until now."""

    job_id: str
    rate: float
    at_s: float


@dataclass(frozen=True, slots=True)
class Left:
    """A job shares no more: it has ended, or it ``lives`` and was moved by somebody else."""

    job_id: str
    at_s: float
    lives: bool = False


@dataclass(frozen=True, slots=True)
class Elapsed:
    """Time has passed."""

    at_s: float


TrialEvent = Packed | Measured | Left | Elapsed


@dataclass(frozen=True, slots=True)
class Keep:
    """The trial has succeeded: the pair stays together."""

    newcomer: str
    host: str
    rate_sum: float


@dataclass(frozen=True, slots=True)
class Revert:
    """The pair does too little together: the newcomer must leave; ``rate_sum`` None: nothing was measured."""

    newcomer: str
    host: str
    rate_sum: float | None


TrialDecision = Keep | Revert


@dataclass(frozen=True, slots=True)
class TrialRules:
    """How long a trial lasts, what sum of rates it needs, and how many periods without figures are enough.

    Gandiva (OSDI'18) keeps a pair whose sum of rates improves on taking turns, which is 1; the version in
    Gavel (OSDI'20) asks for 1.0 or more, again and again as long as the pair lasts.
    """

    period_s: float = 60.0
    least_sum: float = 1.0
    silent_periods: int = 3


PairKey = tuple[str, str, str]
"""What is remembered of a pair that failed: ``kind`` or ``job``, and the two names in alphabetical order."""


@dataclass(slots=True)
class _Trial:
    newcomer: TrialJob
    host: TrialJob
    since_s: float
    kept: bool = False
    silent: int = 0
    measured_to_s: dict[str, float] = field(default_factory=dict)
    done_s: dict[str, float] = field(default_factory=dict)
    """Seconds of work alone that each job has done in this period, and up to when that is known."""

    def rate_sum(self) -> float | None:
        """Sum of the mean rates of this period, None if one of the two was not measured."""
        rates = [
            self.done_s[job] / (self.measured_to_s[job] - self.since_s)
            for job in (self.newcomer.job_id, self.host.job_id)
            if self.measured_to_s.get(job, self.since_s) > self.since_s
        ]
        return sum(rates) if len(rates) == 2 else None

    def begin(self, now_s: float) -> None:
        self.since_s, self.silent = now_s, 0
        self.measured_to_s.clear()
        self.done_s.clear()


class PackTrials:
    """Who shares with whom on trial, who has passed, and which pairs are not to be tried again.

    Events in, decisions out.  It knows no clock: :meth:`due_s` says when it is to be told the time.
    A pair that has passed goes on being measured, and is reverted when a later period falls short.
    """

    def __init__(self, rules: TrialRules | None = None, bad: Iterable[PairKey] = ()) -> None:
        self._rules = rules or TrialRules()
        self._bad = set(bad)
        self._trials: dict[str, _Trial] = {}

    def bad_pairs(self) -> tuple[PairKey, ...]:
        """Everything that is remembered, in order: give it to the next one after a restart."""
        return tuple(sorted(self._bad))

    def due_s(self) -> float | None:
        """When the next trial ends, None if none runs."""
        ends = [t.since_s + (1 + t.silent) * self._rules.period_s for t in self._trials.values()]
        return min(ends, default=None)

    def may_try(self, newcomer: TrialJob, host: TrialJob) -> bool:
        """Whether these two can share on trial: free, on equally many GPUs, not known to be bad."""
        apart = newcomer.job_id != host.job_id
        free = newcomer.job_id not in self._trials and host.job_id not in self._trials
        return apart and free and newcomer.gpus == host.gpus and _key(newcomer, host) not in self._bad

    def step(self, event: TrialEvent) -> tuple[TrialDecision, ...]:
        """What follows from an event.

        Raises:
            StateError: a job was packed that shares already, or whose pair is known to be bad.
        """
        match event:
            case Packed(newcomer, host, at_s):
                if not self.may_try(newcomer, host):
                    raise StateError(f"{newcomer.job_id!r} and {host.job_id!r} cannot be packed on trial")
                trial = _Trial(newcomer, host, at_s)
                self._trials[newcomer.job_id] = self._trials[host.job_id] = trial
            case Measured(job_id, rate, at_s):
                self._measure(job_id, rate, at_s)
            case Left(job_id, _, lives):
                self._end(job_id)
                if not lives:
                    self._bad = {key for key in self._bad if key[0] == "kind" or job_id not in key[1:]}
            case Elapsed(at_s):
                return self._judge(at_s)
        return ()

    def _measure(self, job_id: str, rate: float, at_s: float) -> None:
        trial = self._trials.get(job_id)
        if trial is None:
            return
        known_to_s = trial.measured_to_s.get(job_id, trial.since_s)
        if at_s > known_to_s:
            trial.done_s[job_id] = trial.done_s.get(job_id, 0.0) + rate * (at_s - known_to_s)
            trial.measured_to_s[job_id] = at_s

    def _end(self, job_id: str) -> None:
        trial = self._trials.get(job_id)
        if trial is not None:
            del self._trials[trial.newcomer.job_id], self._trials[trial.host.job_id]

    def _judge(self, now_s: float) -> tuple[TrialDecision, ...]:
        decisions: list[TrialDecision] = []
        for job_id, trial in list(self._trials.items()):
            if job_id != trial.newcomer.job_id:
                continue
            periods = int((now_s - trial.since_s) / self._rules.period_s + 1e-9)
            if periods <= trial.silent:
                continue
            total = trial.rate_sum()
            if total is None and periods < self._rules.silent_periods:
                trial.silent = periods
                continue
            decisions += self._decide(trial, total, now_s)
        return tuple(decisions)

    def _decide(self, trial: _Trial, total: float | None, now_s: float) -> list[TrialDecision]:
        newcomer, host = trial.newcomer.job_id, trial.host.job_id
        if total is not None and total >= self._rules.least_sum:
            trial.begin(now_s)
            first, trial.kept = not trial.kept, True
            return [Keep(newcomer, host, total)] if first else []
        if total is None and trial.kept:
            trial.begin(now_s)
            return []
        self._end(newcomer)
        if total is not None:
            self._bad.add(_key(trial.newcomer, trial.host))
        return [Revert(newcomer, host, total)]


def _key(one: TrialJob, other: TrialJob) -> PairKey:
    if one.kind is not None and other.kind is not None:
        first, second = sorted((one.kind, other.kind))
        return "kind", first, second
    first, second = sorted((one.job_id, other.job_id))
    return "job", first, second
