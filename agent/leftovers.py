"""Signals to all processes of a job, and the end of those that it left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

ROUNDS = 50
ROUND_S = 0.01
MOST_WAIT_S = 10.0
"""How long the end of killed processes is waited for; one that hangs in the kernel may take for ever."""
MARK = "COTENANT_PROGRESS"
"""A variable in the environment of every process of a job, with a value that no other job has."""


def signal_group(group: int, number: signal.Signals) -> bool:
    """Send a signal to a process group; False if there is none (any more)."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def kill_group(group: int) -> None:
    """Kill what is left of a process group, stopped or not."""
    signal_group(group, signal.SIGKILL)


def marked(progress_path: str) -> list[int]:
    """Processes whose environment names this progress file: those of one attempt, in whatever group."""
    mark = f"{MARK}={progress_path}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
    return found


def kill_marked(progress_path: str) -> None:
    """Kill the processes of an attempt until none is left, or none that can be killed at once."""
    for _ in range(ROUNDS):
        found = marked(progress_path)
        if not found:
            return
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        for pid in found:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(ROUND_S)


def kill_descendants() -> None:
    """Kill all that descends from this process until nothing is left of it.

    This process must be a subreaper: then whatever a job starts stays below it, in any session and with any
    environment.
    """
    deadline_s = time.monotonic() + MOST_WAIT_S
    while _has_children() and time.monotonic() < deadline_s:
        for pid in descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(ROUND_S)


def descendants(ancestor: int) -> list[int]:
    """All processes below one, at this moment."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                # The name before it is in parentheses and may hold anything.
                parent = int((entry / "stat").read_bytes().rpartition(b")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found: list[int] = []
    todo = [ancestor]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


def _has_children() -> bool:
    """Whether this process has any, after collecting those that ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True
