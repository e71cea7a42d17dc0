"""Jobs for a cluster that is killed: each shows by itself whether it ran once, and what it printed.

Every worker leaves a mark when it runs and one for each line that it printed, so a job that ran twice, ended
twice, ended with another status or lost a line is seen.  A job that was moved runs once more for each move,
and for nothing else.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from manager.wire.client import Client
from manager.wire.models import JobEvent, JobSpec, JobView, RequestSpec
from placement.lifecycle import ENDED, JobState
from placement.model import Mode

ENDLESS = 5000
"""Lines of a job that is cancelled long before it has printed them."""
WIDE_PART, MOVABLE_PART = 0.7, 0.7
"""Of jobs with whole GPUs, those with two; of all, those that may be moved to make room for them."""
Fact = tuple[str, object, object]
"""What it is about, what is, and what should be."""

_PROGRAM = """
import os, sys, time
mark, lines, pause_s, status = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
rank = os.environ.get("RANK", "0")
fd = os.open(mark + "." + rank, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
os.write(fd, (os.environ["COTENANT_ATTEMPT"] + "\\n").encode())
os.close(fd)
progress = os.open(os.environ["COTENANT_PROGRESS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
mine = ".".join((mark, rank, "printed", os.environ["COTENANT_ATTEMPT"]))
printed = os.open(mine, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
for i in range(lines):
    print("line", i, "of", lines, "from", rank, flush=True)
    os.write(printed, b".")
    os.write(progress, f"step={i + 1} t={time.monotonic():.6f}\\n".encode())
    time.sleep(pause_s)
sys.exit(status)
"""


@dataclass(frozen=True, slots=True)
class Planned:
    """A job, and what has to be true of it in the end; ``status`` None means that it is cancelled."""

    spec: JobSpec
    mark: Path
    lines: int
    status: int | None

    @property
    def state(self) -> JobState:
        """How it has to end."""
        if self.status is None:
            return JobState.CANCELLED
        return JobState.SUCCEEDED if self.status == 0 else JobState.FAILED

    def output(self, worker: int) -> str:
        """What this worker has to have printed."""
        return "".join(f"line {i} of {self.lines} from {worker}\n" for i in range(self.lines))


def plan(root: Path, draw: random.Random, number: int) -> Planned:
    """A job of one to some seconds, or one that has to be cancelled: seeded shape, status and share."""
    status = draw.choice((0, 0, 0, 0, 3, 7, None))
    lines = ENDLESS if status is None else draw.randint(40, 120)
    pause_s = draw.uniform(0.02, 0.07)
    mark = root / "marks" / f"job-{number}"
    mark.parent.mkdir(exist_ok=True)
    mode = draw.choice(list(Mode))
    wide = mode is Mode.EXCLUSIVE and draw.random() < WIDE_PART
    return Planned(
        JobSpec(
            name=f"job-{number}",
            tenant=draw.choice(("red", "green", "blue")),
            command=[
                sys.executable,
                "-I",
                "-S",
                "-c",
                _PROGRAM,
                str(mark),
                str(lines),
                f"{pause_s}",
                str(status or 0),
            ],
            workers=draw.choice((1, 1, 1, 2)),
            preemptible=draw.random() < MOVABLE_PART,
            request=RequestSpec(
                gpus=2 if wide else 1,
                memory_bytes=5 << 30,
                modes=[mode],
                compute_milli=None if mode in (Mode.EXCLUSIVE, Mode.MIG) else 300,
            ),
        ),
        mark,
        lines,
        status,
    )


def problems(client: Client, jobs: Iterable[tuple[JobView, Planned]]) -> list[str]:
    """What is wrong with jobs that have ended; nothing if all is well."""
    return [
        f"{job.job_id} ({planned.spec.name}): {what} is {is_!r}, not {wanted!r}; {job.failure}"
        for job, planned in jobs
        for what, is_, wanted in _facts(client, job, planned)
        if is_ != wanted
    ]


def _facts(client: Client, job: JobView, planned: Planned) -> Iterator[Fact]:
    events = client.events(job.job_id)
    yield "state", job.state, planned.state
    yield "times ended", sum(event.after in ENDED for event in events), 1
    if planned.status is not None:
        yield "exit code", job.exit_code, planned.status
        yield "attempt", job.attempt, 1 + moves(events)
    ran = [_content(planned.mark, f"{worker}").split() for worker in range(job.workers)]
    last = str(job.attempt)
    # A worker of a gang may not have begun when another failed, or a job when it was cancelled.
    may_not_begin = planned.status is None or (planned.status != 0 and any(last in runs for runs in ran))
    for worker, runs in enumerate(ran):
        # One that is moved may have been told to leave before it began.
        wanted = [str(number) for number in range(1, job.attempt) if str(number) in runs]
        if last in runs or not may_not_begin:
            wanted.append(last)
        yield f"runs of worker {worker}", runs, wanted
        for attempt in wanted:
            yield from _output_facts(client, job, _Run(planned, worker, int(attempt)))


def moves(events: Iterable[JobEvent]) -> int:
    """How often a job left its place for another one."""
    return sum(event.before is JobState.STOPPING and event.note == "moved" for event in events)


@dataclass(frozen=True, slots=True)
class _Run:
    """One attempt of one worker."""

    planned: Planned
    worker: int
    attempt: int


def _content(mark: Path, name: str) -> str:
    path = Path(f"{mark}.{name}")
    return path.read_text() if path.exists() else ""


def _output_facts(client: Client, job: JobView, run: _Run) -> list[Fact]:
    planned, worker = run.planned, run.worker
    text, offset = b"", 0
    while True:
        chunk = client.logs(job.job_id, worker, run.attempt, offset)
        text += chunk.data
        if chunk.next_offset == offset:
            break
        offset = chunk.next_offset
    wanted = planned.output(worker)
    cut = run.attempt < job.attempt or planned.status is None or (planned.status != 0 and job.workers > 1)
    if text.decode() != wanted and cut:
        # It was stopped or moved, or another of its gang failed: what it printed must be there, no more.
        printed = len(_content(planned.mark, f"{worker}.printed.{run.attempt}"))
        lines = max(printed, text.count(b"\n"))
        wanted = "".join(wanted.splitlines(keepends=True)[:lines])
    name = f"output of worker {worker}, attempt {run.attempt}"
    return [(name, text.decode(), wanted), (f"{name} complete", chunk.complete, True)]
