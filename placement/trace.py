"""The row of a trace: one definition for recorded, synthetic and live workloads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from placement.model import Job, JobKind, Request


@dataclass(frozen=True, slots=True)
class TraceRow:
    """One job of a trace, in the order of submission.

    ``duration_s`` is the solo run time, None for a job that never ends; ``duration_by_model_s`` overrides
    it per
    GPU model where the trace knows (a model that is missing there cannot run the job).
    """

    job_id: str
    submit_s: float
    request: Request
    duration_s: float | None
    duration_by_model_s: Mapping[str, float] | None = None
    workers: int = 1
    tenant: str = "default"
    kind: JobKind = JobKind.TRAINING
    profile: str | None = None
    immediate: bool = False

    def solo_s(self, gpu_model: str) -> float | None:
        """Solo run time on that GPU model in seconds, None if the job never ends."""
        if self.duration_by_model_s is None:
            return self.duration_s
        return self.duration_by_model_s[gpu_model]

    def to_job(self, sequence: int, *, duration_known: bool) -> Job:
        """The job that is submitted; its duration is told to the policies only if ``duration_known``."""
        return Job(
            job_id=self.job_id,
            request=self.request,
            submit_s=self.submit_s,
            sequence=sequence,
            tenant=self.tenant,
            workers=self.workers,
            kind=self.kind,
            duration_s=self.duration_s if duration_known else None,
            profile=self.profile,
            immediate=self.immediate,
        )
