"""What the manager is told of a worker; everything follows from its folder, so it can be told again."""

from __future__ import annotations

import time

from agent import attempt
from agent.attempt import EndCause, Exit
from agent.executor import Worker
from agent.progress_file import Progress, read_progress
from manager.wire.agent_models import ReportKind, WorkerReport
from manager.wire.fields import MAX_TEXT, MAX_TIME_S
from placement.model import ExitCause, Profile

MOST_RATE = 1e15
MOST_SLOWDOWN = 1e9


def started_report(worker: Worker) -> WorkerReport | None:
    """That it runs; None before it does, or when that was told."""
    started = None if worker.started_sent else attempt.read_started(worker.folder)
    if started is None:
        return None
    return _report(worker, ReportKind.STARTED, "started", at_s=started.at_s)


def progress_report(worker: Worker, profile: Profile | None, gpu_model: str | None) -> WorkerReport | None:
    """How far it is; None if that is not known or was told."""
    progress = read_progress(worker.folder / attempt.PROGRESS)
    if progress is None or progress.step == worker.sent_step:
        return None
    progress = _timed(worker, progress)
    return _report(
        worker,
        ReportKind.PROGRESS,
        f"progress/{progress.step}",
        step=progress.step,
        steps_per_s=_within(progress.steps_per_s, MOST_RATE),
        observed_slowdown=_within(observed_slowdown(progress, profile, gpu_model), MOST_SLOWDOWN),
        at_s=time.time(),
    )


def _timed(worker: Worker, progress: Progress) -> Progress:
    """With the rate since this agent looked first, where the program itself reports no times."""
    now_s = time.monotonic()
    if progress.steps_per_s is not None:
        return progress
    if worker.first_seen is None or progress.step < worker.first_seen[0]:
        worker.first_seen = (progress.step, now_s)
    steps, seconds = progress.step - worker.first_seen[0], now_s - worker.first_seen[1]
    return Progress(progress.step, steps / seconds) if steps > 0 and seconds > 0 else progress


def exit_report(worker: Worker, end: Exit, profile: Profile | None, gpu_model: str | None) -> WorkerReport:
    """How it ended."""
    served_s = end.served_s
    if served_s is None and end.cause is not EndCause.LAUNCH_FAILED:
        served_s = _served_s(read_progress(worker.folder / attempt.PROGRESS), profile, gpu_model)
    return _report(
        worker,
        ReportKind.EXITED,
        "exited",
        cause=ExitCause(end.cause.value),
        exit_code=end.exit_code,
        message="; ".join(filter(None, (end.message, worker.output_lost))).replace("\0", " ")[:MAX_TEXT],
        served_s=_within(served_s, MAX_TIME_S),
        at_s=end.at_s,
    )


def bare_exit_report(report: WorkerReport) -> WorkerReport:
    """An exit report reduced to what decides about the job: cause and exit code."""
    kept = {"report_id", "kind", "job_id", "attempt", "worker", "cause", "exit_code"}
    return WorkerReport.model_validate(report.model_dump(include=kept))


def observed_slowdown(progress: Progress, profile: Profile | None, gpu_model: str | None) -> float | None:
    """Solo rate over observed rate; None if either is unknown."""
    solo = None if profile is None or gpu_model is None else profile.solo_rate(gpu_model)
    if solo is None or not progress.steps_per_s:
        return None
    return solo / progress.steps_per_s


def _served_s(progress: Progress | None, profile: Profile | None, gpu_model: str | None) -> float | None:
    solo = None if profile is None or gpu_model is None else profile.solo_rate(gpu_model)
    return None if solo is None or progress is None else progress.step / solo


def _within(value: float | None, most: float) -> float | None:
    """The value if the wire takes it: a program may write anything into its progress file."""
    return value if value is not None and 0 <= value <= most else None


def _report(worker: Worker, kind: ReportKind, name: str, **facts: object) -> WorkerReport:
    key = worker.key
    return WorkerReport.model_validate(
        {
            "report_id": f"{key.job_id}/{key.attempt}/{key.worker}/{name}",
            "kind": kind,
            "job_id": key.job_id,
            "attempt": key.attempt,
            "worker": key.worker,
            **facts,
        }
    )
