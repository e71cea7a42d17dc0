"""The runner shim: one small process per attempt that starts the job, paces it, and outlives the agent.

It ends the job when the agent has had no contact with the manager for the fence time of its order.

``python -m agent.shim FOLDER`` goes into the background at once; its answer on standard output is ``ok``,
``busy`` (another shim has this folder) or one line that says why it cannot begin.  Everything else passes
through the folder (:mod:`agent.attempt`).  It needs the standard library alone; it nearly always sleeps.

A job is started at most once: the mark that it was is on disk before the process exists.  A shim that finds
the mark of another one that died kills what is left of the job; it says ``lost`` if the machine went down,
and that the runner was killed otherwise.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from agent import attempt, leftovers
from agent.attempt import EndCause, Exit, Order
from agent.fence import Fence
from agent.runner import LIBC, Runner

RESERVED_BYTES = 4096
_PR_SET_CHILD_SUBREAPER = 36


def look_after(folder: Path, ready: Callable[[str], None]) -> None:
    """Do what the folder asks for: run its job, or end what a dead shim left behind."""
    try:
        lock = attempt.take_lock(folder)
        if lock is None:
            ready("busy")
            return
        if (folder / attempt.EXIT).exists():
            ready("ok")
            return
        reserve_room(folder)
        end = _end_of(folder, lock, ready)
    except OSError as error:
        # Without a mark nothing was started: the agent may try again or give up.
        ready(f"no room for logs: {error.strerror} in {folder}")
        return
    if attempt.is_held(folder, lock):  # else the folder was removed, and the agent tells the end
        attempt.write_exit(folder, end)


def _end_of(folder: Path, lock: int, ready: Callable[[str], None]) -> Exit:
    """The last word on the job, once it has ended."""
    try:
        end = _recovered(folder)
        if end is not None:
            ready("ok")
            return end
        order = attempt.read_order(folder)
        if order is None:
            ready("ok")
            return _emptied(folder)
        runner = Runner(folder, order, lock)
        ready("ok")
        return _over_before(folder, order) or runner.run()
    except attempt.BrokenFile as error:
        ready("ok")
        return Exit(EndCause.LAUNCH_FAILED, None, f"cannot start: {error}", time.time())


def _emptied(folder: Path) -> Exit:
    """The last word on a job whose folder was emptied: the agent never places one without an order."""
    leftovers.kill_marked(str(folder / attempt.PROGRESS))
    message = f"the files in {folder} were removed; what was left of the job has been killed"
    return Exit(EndCause.EXITED, None, message, time.time())


def _over_before(folder: Path, order: Order) -> Exit | None:
    """The last word on a job that was stopped or fenced before it was started; None if it may start."""
    stop = attempt.read_stop(folder)
    if stop is not None:
        return Exit(EndCause.STOPPED, None, stop.cause, time.time())
    late_s = Fence(order.lease_path, order.fence_s).late_s()
    if late_s is not None:
        message = f"fenced before it was started: no contact with the manager for {late_s:.0f} s"
        return Exit(EndCause.LOST, None, message, time.time())
    return None


def reserve_room(folder: Path) -> None:
    """Take the disk space for the last word now.

    Raises:
        OSError: there is none.
    """
    handle = os.open(folder / attempt.RESERVE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(handle, 0, RESERVED_BYTES)
    finally:
        os.close(handle)


def _recovered(folder: Path) -> Exit | None:
    """The last word on a job whose shim died, after killing what is left of it; None if never started."""
    if not (folder / attempt.STARTING).exists():
        return None
    leftovers.kill_marked(str(folder / attempt.PROGRESS))
    size = (folder / attempt.OUTPUT).stat().st_size if (folder / attempt.OUTPUT).exists() else 0
    if attempt.began_in_this_boot(folder):
        # A failure like any other: a job that kills its runner is not to be run again for ever.
        message = "the runner of this job was killed"
        return Exit(EndCause.EXITED, -signal.SIGKILL, message, time.time(), None, size)
    message = "the machine went down under this job"
    return Exit(EndCause.LOST, None, message, time.time(), None, size)


def main(arguments: list[str]) -> int:
    """Go into the background and look after the folder; 1 if that cannot be done."""
    folder = Path(arguments[0])
    reader, writer = os.pipe2(os.O_CLOEXEC)
    if os.fork():
        os.close(writer)
        with os.fdopen(reader, "r", encoding="utf-8") as stream:
            answer = stream.read().strip() or "the runner died while starting"
        sys.stdout.write(answer + "\n")
        return 0 if answer in ("ok", "busy") else 1
    os.close(reader)
    os.setsid()
    _leave_terminal(folder)
    LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    answered = False

    def ready(answer: str) -> None:
        nonlocal answered
        if not answered:
            os.write(writer, answer.encode())
            os.close(writer)
            answered = True

    look_after(folder, ready)
    return 0


def _leave_terminal(folder: Path) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    try:
        errors = os.open(folder / "shim.err", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError:
        errors = null
    for handle, target in ((null, 0), (null, 1), (errors, 2)):
        os.dup2(handle, target)
    os.chdir("/")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
