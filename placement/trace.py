"""The row of a trace: one definition for recorded, synthetic and live workloads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from placement.model import Job, JobKind, Request, UnknownName, model_matches


@dataclass(frozen=True, slots=True)
class TraceRow:
    """One job of a trace, in the order of submission.

    ``duration_s`` is the solo run time, None for a job that never ends; ``duration_by_model_s`` overrides
    it per GPU model where the trace knows (a model that is missing there cannot run the job).
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
        """Solo run time on that GPU model in seconds, None if the job never ends.

        What the trace knows of a family counts for its members: ``v100`` for ``V100-SXM2-32GB``.

        Raises:
            UnknownName: the trace does not know how long the job takes there.
        """
        known = self.duration_by_model_s
        if known is None:
            return self.duration_s
        if gpu_model in known:
            return known[gpu_model]
        for name, duration_s in known.items():
            if model_matches(name, gpu_model):
                return duration_s
        raise UnknownName(f"job {self.job_id}: the trace has no duration on {gpu_model!r}")

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
