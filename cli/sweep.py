"""The last resort: ends every process that belongs to a folder, whoever its parent is by now."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

ROUNDS = 100
PAUSE_S = 0.02


def end_processes_of(folder: Path) -> None:
    """Kill this user's processes whose command line or environment names the folder, until none is left.

    Jobs outlive their agent by design, so ending the agents is not enough where nothing may stay behind.
    """
    for _ in range(ROUNDS):
        found = processes_of(folder)
        if not found:
            return
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(PAUSE_S)


def processes_of(folder: Path) -> list[int]:
    """Living processes, other than this one, whose command line or environment names the folder."""
    mark = str(folder).encode() + b"/"
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        pid = int(entry.name)
        if pid == os.getpid():
            continue
        # A process that ended meanwhile, or that belongs to somebody else.
        with contextlib.suppress(OSError):
            if mark in (entry / "cmdline").read_bytes() or mark in (entry / "environ").read_bytes():
                found.append(pid)
    return sorted(found)
