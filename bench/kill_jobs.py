"""Jobs for a cluster that is killed: each shows by itself whether it ran once, and what it printed.

Every worker leaves a mark when it runs and one for each line that it printed, so a job that ran twice, ended
twice, ended with another status or lost a line is seen.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from manager.wire.client import Client
from manager.wire.models import JobSpec, JobView, RequestSpec
from placement.lifecycle import ENDED, JobState
from placement.model import Mode

ENDLESS = 5000
"""Lines of a job that is cancelled long before it has printed them."""
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
printed = os.open(mark + "." + rank + ".printed", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
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
    """A job of about one or two seconds, or one that has to be cancelled: seeded shape, status and share."""
    status = draw.choice((0, 0, 0, 0, 3, 7, None))
    lines = ENDLESS if status is None else draw.randint(5, 30)
    pause_s = draw.uniform(0.02, 0.07)
    mark = root / "marks" / f"job-{number}"
    mark.parent.mkdir(exist_ok=True)
    mode = draw.choice(list(Mode))
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
            preemptible=False,
            request=RequestSpec(
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
    found = []
    for job, planned in jobs:
        facts: list[Fact] = [
            ("state", job.state, planned.state),
            ("times ended", sum(event.after in ENDED for event in client.events(job.job_id)), 1),
        ]
        if planned.status is not None:
            facts += [("exit code", job.exit_code, planned.status), ("attempt", job.attempt, 1)]
        ran = [_content(planned.mark, f"{worker}").split() for worker in range(job.workers)]
        # A worker of a gang may not have begun when another failed, or a job when it was cancelled.
        may_not_begin = planned.status is None or (planned.status != 0 and any(ran))
        for worker, runs in enumerate(ran):
            if runs or not may_not_begin:
                facts.append((f"runs of worker {worker}", runs, ["1"]))
                facts += _output_facts(client, job, worker, planned)
        found += [
            f"{job.job_id} ({planned.spec.name}): {what} is {is_!r}, not {wanted!r}; {job.failure}"
            for what, is_, wanted in facts
            if is_ != wanted
        ]
    return found


def _content(mark: Path, name: str) -> str:
    path = Path(f"{mark}.{name}")
    return path.read_text() if path.exists() else ""


def _output_facts(client: Client, job: JobView, worker: int, planned: Planned) -> list[Fact]:
    text, offset = b"", 0
    while True:
        chunk = client.logs(job.job_id, worker, offset=offset)
        text += chunk.data
        if chunk.next_offset == offset:
            break
        offset = chunk.next_offset
    wanted = planned.output(worker)
    if text.decode() != wanted and (planned.status is None or (planned.status != 0 and job.workers > 1)):
        # It was stopped, or another worker of its gang failed: what it printed must be there, no more.
        lines = max(len(_content(planned.mark, f"{worker}.printed")), text.count(b"\n"))
        wanted = "".join(wanted.splitlines(keepends=True)[:lines])
    return [
        (f"output of worker {worker}", text.decode(), wanted),
        (f"output of worker {worker} complete", chunk.complete, True),
    ]
