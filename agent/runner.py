"""Runs one job to its end: its output, its pace, its stop and its last word."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import math
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from agent import attempt, leftovers
from agent.attempt import EndCause, Exit, Order, Started
from agent.fence import Fence
from agent.pacing import Mark, Pacer, Phase

POLL_S = 0.25
CHUNK_BYTES = 1 << 16
PIPE_BYTES = 1 << 20
MOST_PROGRESS_BYTES = 1 << 16
"""Progress that is read at once; of more, the newest counts."""
SHUTDOWN_GRACE_S = 5.0
_PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None, use_errno=True)


class Runner:
    """Runs one job to its end."""

    def __init__(self, folder: Path, order: Order, lock: int) -> None:
        self._folder = folder
        self._lock = lock
        self._order = order
        self._log = os.open(
            folder / attempt.OUTPUT, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
        )
        self._fence = Fence(order.lease_path, order.fence_s)
        self._pid = 0
        self._stopped = False
        """Whether the job is held by SIGSTOP."""
        self._status: int | None = None
        self._ending: tuple[EndCause, str] | None = None
        """Why the job was told to end."""
        self._kill_at_s = math.inf
        self._log_full = False
        self._look_at_s = 0.0
        self._progress_offset = 0
        self._speed_seen = ""
        self._pacer = Pacer(time.monotonic())
        self._phase = Phase(True, math.inf)
        self._selector = selectors.DefaultSelector()
        self._wake = self._open_wake()

    def run(self) -> Exit:
        """Start the job and stay with it; returns how it ended, with its output complete on disk."""
        signals = self._watch_signals()
        reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(writer, True)
        with contextlib.suppress(OSError):
            fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        problem = self._start(writer)
        os.close(writer)
        if problem is not None:
            return self._end(EndCause.LAUNCH_FAILED, None, problem)
        for handle, act in ((reader, self._copy), (signals, _drain), (self._wake, self._woken)):
            self._selector.register(handle, selectors.EVENT_READ, act)
        self._look(time.monotonic())  # a pace set beforehand counts from the first moment
        while self._status is None:
            self._turn()
        leftovers.kill_group(self._pid)
        leftovers.kill_marked(str(self._folder / attempt.PROGRESS))
        leftovers.kill_descendants()
        while self._copy(reader):
            pass
        return self._verdict(self._status)

    # Starting

    def _start(self, output: int) -> str | None:
        command = list(self._order.command)
        try:
            attempt.write_starting(self._folder)
        except OSError as error:
            return f"no room for logs: {error.strerror} in {self._folder}"
        try:
            process = subprocess.Popen(
                command,
                cwd=self._order.workdir,
                env=dict(self._order.env),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                process_group=0,
                preexec_fn=_die_with(os.getpid()),  # noqa: PLW1509 - this process has one thread
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            return launch_problem(error, command[0], self._order.workdir)
        self._pid = process.pid
        process.returncode = 0  # it is waited for here, not by the Popen object
        self._pacer = Pacer(time.monotonic())
        with contextlib.suppress(OSError):  # the disk is full: the job will be told by its own output
            attempt.write_started(self._folder, Started(process.pid, time.time()))
        return None

    def _open_wake(self) -> int:
        path = self._folder / attempt.WAKE
        with contextlib.suppress(FileExistsError):
            os.mkfifo(path, 0o600)
        return os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def _watch_signals(self) -> int:
        reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        # Handlers rather than SIG_IGN: the job must not inherit ignored signals.
        signal.signal(signal.SIGCHLD, _nothing)
        signal.signal(signal.SIGINT, _nothing)
        signal.signal(signal.SIGQUIT, _nothing)  # a handler, so that the job gets the default, not "ignored"
        signal.signal(signal.SIGHUP, _nothing)
        signal.signal(signal.SIGTERM, self._told_to_go)
        return reader

    def _told_to_go(self, number: int, frame: FrameType | None) -> None:
        self._tell(EndCause.LOST, "the runner was told to end: the node is shutting down", SHUTDOWN_GRACE_S)

    # One turn of the loop

    def _turn(self) -> None:
        now_s = time.monotonic()
        wait_s = min(self._look_at_s, self._phase.until_s, self._kill_at_s) - now_s
        for key, _ in self._selector.select(max(0.0, wait_s)):
            act: Callable[[int], object] = key.data
            act(key.fd)
        self._status = _reap(self._pid)
        if self._status is not None:
            return  # it ended by itself before anything else could reach it
        now_s = time.monotonic()
        if now_s >= self._look_at_s:
            self._look_at_s = now_s + POLL_S
            self._look(now_s)
        if self._ending is None and self._pacer.pacing:
            if now_s >= self._phase.until_s:
                self._pacer.observe(self._marks())
            self._hold(self._pacer.advance(now_s))
        if now_s >= self._kill_at_s:
            self._kill_at_s = math.inf
            leftovers.signal_group(self._pid, signal.SIGKILL)

    def _woken(self, handle: int) -> None:
        _drain(handle)
        self._look_at_s = 0.0

    def _look(self, now_s: float) -> None:
        if not attempt.is_held(self._folder, self._lock):
            # Whoever looks for the job now finds none, and may start it again.
            self._tell(EndCause.EXITED, f"{self._folder} was removed while the job ran", 0.0)
        stop = attempt.read_stop(self._folder)
        if stop is not None:
            self._tell(EndCause.STOPPED, stop.cause, stop.grace_s)
        late_s = self._fence.late_s()
        if late_s is not None:
            self._tell(
                EndCause.LOST,
                f"fenced: the agent has had no contact with the manager for {late_s:.0f} s",
                0.0,
            )
        with contextlib.suppress(OSError, ValueError):
            with attempt.open_regular(self._folder / attempt.SPEED) as stream:
                text = stream.read(64).decode("ascii")
            if text != self._speed_seen and self._ending is None:
                speed = float(text)
                self._pacer.observe(self._marks())
                self._hold(self._pacer.set_speed(speed, now_s))
                self._speed_seen = text

    def _tell(self, cause: EndCause, message: str, grace_s: float) -> None:
        """Ask the job to end; the first cause counts, a shorter grace time always does."""
        deadline_s = time.monotonic() + grace_s
        if self._ending is not None:
            self._kill_at_s = min(self._kill_at_s, deadline_s)
            return
        self._ending = (cause, message)
        self._pacer.advance(time.monotonic())
        self._phase = Phase(True, math.inf)
        self._kill_at_s = deadline_s
        if self._pid:
            # A stopped process would not see the request: it has to go on first.
            leftovers.signal_group(self._pid, signal.SIGCONT)
            self._stopped = False
            leftovers.signal_group(self._pid, signal.SIGTERM)

    def _hold(self, phase: Phase) -> None:
        self._phase = phase
        if phase.running == self._stopped:
            leftovers.signal_group(self._pid, signal.SIGCONT if phase.running else signal.SIGSTOP)
            self._stopped = not phase.running

    def _marks(self) -> list[Mark]:
        """Steps reported since the last look."""
        try:
            with attempt.open_regular(self._folder / attempt.PROGRESS) as stream:
                size = stream.seek(0, os.SEEK_END)
                stream.seek(max(self._progress_offset, size - MOST_PROGRESS_BYTES))
                data = stream.read(MOST_PROGRESS_BYTES)
                whole = data.rfind(b"\n") + 1
                self._progress_offset = stream.tell() - len(data) + whole
        except OSError:
            return []
        parsed = map(attempt.parse_progress, data[:whole].splitlines())
        return [Mark(*entry) for entry in parsed if entry is not None]

    # Output

    def _copy(self, handle: int) -> bool:
        """Move a piece of output to the log; False when there is none now, or never will be."""
        try:
            data = os.read(handle, CHUNK_BYTES)
        except BlockingIOError:
            return False
        if not data:
            with contextlib.suppress(KeyError):
                self._selector.unregister(handle)
            return False
        if self._log_full:
            return True  # read all the same, so that the job can end
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(self._log, view) :]
        except OSError as error:
            self._log_full = True
            written = os.fstat(self._log).st_size
            message = (
                f"no room for logs: {error.strerror} after {written} bytes in {self._folder / attempt.OUTPUT}"
            )
            self._tell(EndCause.EXITED, message, 0.0)
            if self._ending is not None:
                self._ending = (self._ending[0], message)
        return True

    # The end

    def _verdict(self, status: int) -> Exit:
        code = os.waitstatus_to_exitcode(status)
        if self._ending is None:
            return self._end(EndCause.EXITED, code, "")
        cause, message = self._ending
        # An exit code is reported as the job's own: a kill because of a full disk was ours.
        return self._end(cause, None if self._log_full else code, message)

    def _end(self, cause: EndCause, code: int | None, message: str) -> Exit:
        served_s: float | None = None
        if cause is not EndCause.LAUNCH_FAILED and self._speed_seen:
            self._pacer.advance(time.monotonic())
            served_s = self._pacer.served_s
        with contextlib.suppress(OSError):
            os.fsync(self._log)
        size = os.fstat(self._log).st_size
        return Exit(cause, code, message[:1000], time.time(), served_s, size)


def launch_problem(error: Exception, program: str, workdir: str | None) -> str:
    """Why a program could not be started, in one line."""
    if isinstance(error, OSError) and workdir is not None and error.filename == workdir:
        return f"cannot start: working directory {workdir}: {error.strerror}"
    if isinstance(error, FileNotFoundError):
        return f"cannot start: no such command: {program}"
    if isinstance(error, PermissionError):
        return f"cannot start: not allowed to execute: {program}"
    if isinstance(error, OSError) and error.errno == errno.E2BIG:
        return f"cannot start: {program}: arguments and environment are too long"
    return f"cannot start: {program}: {error}"


def _die_with(parent: int) -> Callable[[], None]:
    """What a new process does first: it shall not outlive its shim, which alone can fence it."""

    def before_exec() -> None:
        LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return before_exec


def _nothing(number: int, frame: FrameType | None) -> None:
    """The wake-up pipe has it."""


def _drain(handle: int) -> None:
    with contextlib.suppress(BlockingIOError):
        while os.read(handle, 512):
            pass


def _reap(pid: int) -> int | None:
    """Collect children that ended, orphans of the job among them; the status of ``pid`` if it was there."""
    found = None
    with contextlib.suppress(ChildProcessError):
        while True:
            ended, status = os.waitpid(-1, os.WNOHANG)
            if ended == 0:
                break
            if ended == pid:
                found = status
    return found
