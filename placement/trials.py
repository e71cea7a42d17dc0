"""Jobs that share a GPU on trial: who they are, how fast they run, and who has to leave again."""

from __future__ import annotations

from placement.ledger import Ledger
from placement.lifecycle import JobRecord, JobState
from placement.model import Job, Mode, SpeedObserved
from placement.planning.trial import Elapsed, Left, Measured, Packed, PackTrials, Revert, TrialJob
from placement.search import Search

_SHARING = frozenset({Mode.MPS, Mode.TIMESLICE})
_RUNS = (JobState.STARTING, JobState.RUNNING)


class Trials:
    """Tells the rules of trials what happens in the cluster; if not ``on``, nothing is on trial.

    What happens often is told only to those that are on.
    """

    def __init__(self, search: Search, ledger: Ledger, *, on: bool) -> None:
        self._search = search
        self._ledger = ledger
        self.on = on
        self._trials = PackTrials()
        self._rates: dict[str, float] = {}
        self._resumed: list[JobRecord] = []

    def due_s(self) -> float | None:
        """When the next trial ends, None if none runs."""
        return self._trials.due_s() if self.on else None

    def resumed(self, record: JobRecord) -> None:
        """A job ran already when the scheduler was stopped: its trial begins anew with the next step."""
        if self.on and record.state in _RUNS:
            self._resumed.append(record)

    def began(self, record: JobRecord, now_s: float) -> None:
        """A job runs; if it has one neighbour, the two are on trial from now on."""
        if not self.on:
            return
        newcomer = _trial_job(record.job)
        shares = [share for held in record.assignments for share in held.shares]
        if newcomer is None or len(shares) != 1 or shares[0].mode not in _SHARING:
            return
        residents = self._search.cluster.resident_jobs(shares[0].gpu_uuid)
        others = [holder.job_id for holder, _share in residents if holder.job_id != record.job.job_id]
        other = self._ledger.find(others[0]) if len(others) == 1 else None
        host = _trial_job(other.job) if other is not None and other.state in _RUNS else None
        if host is not None and self._trials.may_try(newcomer, host):
            self._trials.step(Packed(newcomer, host, now_s))

    def left(self, job_id: str, now_s: float) -> None:
        """A job no longer holds its share."""
        if self.on:
            self._trials.step(Left(job_id, now_s, lives=True))
            self._rates.pop(job_id, None)

    def observed(self, event: SpeedObserved, now_s: float) -> None:
        """A job runs at another speed from now on; what it has done until now went at the old one."""
        record = self._ledger.find(event.job_id)
        if not self.on or record is None or record.attempt != event.attempt or record.state not in _RUNS:
            return
        self._measure(event.job_id, now_s)
        self._rates.pop(event.job_id, None)
        if event.slowdown is not None:
            self._rates[event.job_id] = 1 / event.slowdown

    def failed(self, now_s: float) -> list[JobRecord]:
        """Jobs that have to leave, since their trial has ended badly; whom they met is remembered."""
        if not self.on:
            return []
        for record in sorted(self._resumed, key=lambda record: record.placed_s or 0.0, reverse=True):
            self.began(record, now_s)  # the later of two is the newcomer
        self._resumed.clear()
        due_s = self._trials.due_s()
        if due_s is None or due_s > now_s:
            return []
        for job_id in self._rates:
            self._measure(job_id, now_s)
        decisions = self._trials.step(Elapsed(now_s))
        leaving = [self._ledger.find(each.newcomer) for each in decisions if isinstance(each, Revert)]
        if leaving:
            bad = frozenset((first, second) for _what, first, second in self._trials.bad_pairs())
            self._search.placement.keep_apart(bad)
            self._search.forget()  # whom a job may join is another question now
        return [record for record in leaving if record is not None and record.state in _RUNS]

    def _measure(self, job_id: str, now_s: float) -> None:
        rate = self._rates.get(job_id)
        if rate is not None:
            self._trials.step(Measured(job_id, rate, now_s))


def _trial_job(job: Job) -> TrialJob | None:
    """A job as the rules see it, None for one that they do not pack."""
    if job.workers != 1 or job.request.gpus != 1 or job.profile is None:
        return None
    return TrialJob(job.job_id, 1, job.profile)
