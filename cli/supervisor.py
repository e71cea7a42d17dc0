"""Programs that are started, watched, started again when they die, and ended in order."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import BinaryIO

END_WAIT_S = 15.0
"""How long a program may take to end after it was asked to."""
MOST_DEATHS = 5
DEATHS_WITHIN_S = 60.0
"""A program that dies more than ``MOST_DEATHS`` times in this time is not started again."""
TAIL_BYTES = 4096
_HEAD = re.compile(r"^(cotenant: |[0-9-]+ [0-9:,]+ [A-Z]+ [\w.]+: )")
"""What comes before what a program says: its name, or the head of a line of a log."""
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class Program:
    """What to run; its output goes to ``log_path``."""

    name: str
    arguments: Sequence[str]
    log_path: Path
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Running:
    program: Program
    process: subprocess.Popen[bytes]
    log_begin: int
    """Where its lines begin in the log, behind those of its former lives."""
    deaths_s: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Death:
    """How a program ended: its exit status, and its last line, or else what is known."""

    status: int
    last_word: str


class Supervisor:
    """Runs programs; they end in the opposite order of their start."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._running: dict[str, _Running] = {}

    def start(self, program: Program) -> None:
        """Start a program.

        Raises:
            OperationFailed: it cannot be started.
        """
        self._running[program.name] = _Running(program, *_spawn(program))

    def change(self, program: Program) -> None:
        """Run a program otherwise when it is started again; the one that runs is left alone."""
        self._running[program.name].program = program

    def death_of(self, name: str) -> Death | None:
        """How a program ended, None while it lives."""
        running = self._running[name]
        status = running.process.poll()
        if status is None:
            return None
        if status < 0:
            return Death(status, f"killed by signal {-status}")
        return Death(status, self.last_word_of(name) or f"exit status {status}")

    def last_word_of(self, name: str) -> str:
        """The last line that a program has said since it was started, empty if none."""
        running = self._running[name]
        return last_line(running.program.log_path, running.log_begin)

    def revive(self) -> None:
        """Start programs again that died.

        Raises:
            OperationFailed: one dies again and again.
        """
        from placement.model import OperationFailed

        now_s = time.monotonic()
        for name, running in self._running.items():
            death = self.death_of(name)
            if death is None:
                continue
            running.deaths_s = [death_s for death_s in running.deaths_s if death_s > now_s - DEATHS_WITHIN_S]
            running.deaths_s.append(now_s)
            word = death.last_word
            if len(running.deaths_s) > MOST_DEATHS:
                raise OperationFailed(f"{name} ends again and again: {word}; see {running.program.log_path}")
            self._tell(f"{name} ended ({word}); starting it again")
            running.process, running.log_begin = _spawn(running.program)

    def stop(self, hurry: threading.Event) -> None:
        """End all programs, the last started first; ask, then kill; kill at once when ``hurry`` is set."""
        for running in reversed(self._running.values()):
            _end(running.process, hurry)
        self._running.clear()


class StopSignals:
    """SIGINT, SIGTERM and SIGHUP as events: the first asks for an orderly end, the second for a quick one."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.hurry = threading.Event()
        self.number: int | None = None

    @contextmanager
    def caught(self) -> Iterator[StopSignals]:
        """Catch the signals inside the ``with`` block."""
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        # The events are set by a thread: a handler runs in the middle of anything, and would wait forever
        # for the lock of an event that the code it interrupted holds.
        heeding = threading.Thread(target=self._heed, args=(reader,), name="signals", daemon=True)
        heeding.start()
        told_before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        before = {number: signal.signal(number, _leave_it_to_the_thread) for number in STOPPING}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(told_before)
            os.close(writer)
            heeding.join()
            os.close(reader)

    def _heed(self, reader: int) -> None:
        """Set the events for each signal that comes through the pipe, until it is closed."""
        while numbers := os.read(reader, 64):
            for number in numbers:
                if number in STOPPING:
                    self._count(number)

    def _count(self, number: int) -> None:
        if self.stop.is_set():
            self.hurry.set()
        self.number = self.number or number
        self.stop.set()


def _leave_it_to_the_thread(_number: int, _frame: FrameType | None) -> None:
    """A signal without a handler of ours would end us; its number is in the pipe by now."""


def last_line(path: Path, begin: int = 0) -> str:
    """The last line of a log from ``begin`` on that says something, without its head; empty if none."""
    try:
        with path.open("rb") as stream:
            stream.seek(max(begin, path.stat().st_size - TAIL_BYTES))
            lines = stream.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    said = [line.strip() for line in lines if line.strip()]
    return _HEAD.sub("", said[-1], count=1) if said else ""


def _spawn(program: Program) -> tuple[subprocess.Popen[bytes], int]:
    """The process, and how long its log was before."""
    from placement.model import OperationFailed

    try:
        program.log_path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _private_log(program.log_path) as log:
            begin = os.fstat(log.fileno()).st_size
            process = subprocess.Popen(
                list(program.arguments),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **program.environment},
                # Its own session: Ctrl-C on the terminal reaches us alone, and we end the programs in order.
                start_new_session=True,
            )
            return process, begin
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        raise OperationFailed(f"{program.name} cannot be started: {error.strerror}{where}") from error


def _private_log(path: Path) -> BinaryIO:
    """The log for appending, which nobody else may read: commands and paths of users end up there."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(descriptor, 0o600)  # one that an older version made
        return os.fdopen(descriptor, "ab")
    except OSError:
        os.close(descriptor)
        raise


def _end(process: subprocess.Popen[bytes], hurry: threading.Event) -> None:
    if process.poll() is None:
        process.terminate()
    deadline_s = time.monotonic() + END_WAIT_S
    while process.poll() is None and time.monotonic() < deadline_s and not hurry.is_set():
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.1)
    if process.poll() is None:
        process.kill()
        process.wait()
