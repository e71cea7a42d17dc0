"""An attempt's folder with a real shim, for the tests of the shim."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agent import attempt, leftovers
from agent.attempt import Exit, Order, StopRequest
from agent.launch import launch

DEADLINE_S = 30.0
TRAP = "trap 'echo asked; exit 5' TERM; echo ready; while :; do sleep 0.02; done"
DEAF = "trap '' TERM; echo ready; while :; do sleep 0.02; done"


def until(condition: Callable[[], object], what: str) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline_s, f"not in time: {what}"
        time.sleep(0.01)


@dataclass
class Job:
    folder: Path
    lease: Path

    def order(self, *command: str, workdir: str | None = None, fence_s: float | None = None) -> Job:
        env = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(Path(__file__).parents[2]),
            leftovers.MARK: str(self.folder / attempt.PROGRESS),
        }
        lease = None if fence_s is None else str(self.lease)
        attempt.write_order(self.folder, Order("job-1", 1, 0, command, env, workdir, lease, fence_s))
        return self

    def shell(self, script: str) -> Job:
        return self.order("sh", "-c", script)

    def start(self) -> Job:
        launch(self.folder)
        return self

    def output(self) -> str:
        path = self.folder / attempt.OUTPUT
        return path.read_text() if path.exists() else ""

    def says(self, text: str) -> Job:
        until(lambda: text in self.output(), f"output has {text!r}")
        return self

    def stop(self, grace_s: float = 20.0) -> Job:
        attempt.request_stop(self.folder, StopRequest(grace_s, "cancelled"))
        return self

    def end(self) -> Exit:
        until((self.folder / attempt.EXIT).exists, "the job has ended")
        end = attempt.read_exit(self.folder)
        assert end is not None
        return end

    def pid(self) -> int:
        until(lambda: attempt.read_started(self.folder), "the job has started")
        started = attempt.read_started(self.folder)
        assert started is not None
        return started.pid

    def shim(self) -> int:
        """The shim's process: the parent of the job's."""
        return int(Path(f"/proc/{self.pid()}/stat").read_text().rpartition(")")[2].split()[1])

    def processes(self) -> list[int]:
        return leftovers.marked(str(self.folder / attempt.PROGRESS))


def made(folder: Path) -> Job:
    """A folder for a job, with its lease beside it."""
    folder.mkdir()
    return Job(folder, folder.parent / "lease")


def end_all(job: Job) -> None:
    """Leave nothing of a job running."""
    attempt.request_stop(job.folder, StopRequest(0.0))
    leftovers.kill_marked(str(job.folder / attempt.PROGRESS))
    until(lambda: not attempt.has_shim(job.folder), "the shim is gone")
