"""The folder of one worker's attempt: what lies in it, and how it is written.

It is all that a runner shim and its agent share, so either may die at any moment.  Files that are
replaced are replaced whole.  The standard library alone: the shim imports this.

A job runs as the same user as its shim and can reach this folder.  So nothing here is believed without a look
at its form, and an exit only when the shim's lock is free; but a job that sets out to kill its shim and to
write a well-formed exit is not kept from it.  That takes a user of its own for each tenant.
"""

from __future__ import annotations

import contextlib
import enum
import fcntl
import json
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

ORDER = "order.json"
"""What to run; 0600, because it holds the environment."""
LOCK = "lock"
"""Locked by the shim as long as it lives."""
STARTING = "starting"
"""Written before the job is started, with the id of the boot: what has it is never started again."""
STARTED = "started.json"
OUTPUT = "output.log"
PROGRESS = "progress"
SPEED = "speed"
STOP = "stop.json"
WAKE = "wake"
"""A named pipe: a byte in it makes the shim look at its folder at once."""
RESERVE = "exit.reserve"
"""Room for the last word, taken while there is some."""
EXIT = "exit.json"

MOST_FILE_BYTES = 1 << 24
MOST_TIME_S = 1e12
"""Later times are none: the manager would refuse them."""
MOST_EXIT_CODE = 255
TORN_GRACE_S = 5.0


class EndCause(enum.StrEnum):
    """Why a worker is gone; the same values as :class:`placement.model.ExitCause`."""

    EXITED = "exited"
    STOPPED = "stopped"
    LAUNCH_FAILED = "launch-failed"
    LOST = "lost"


class BrokenFile(Exception):
    """A file of an attempt cannot be understood."""


@dataclass(frozen=True, slots=True)
class Order:
    """What a shim has to do; ``lease_path`` None means that it needs no fence.

    Without ``env`` it is not complete: the agent adds it once the worker's shares exist, and before the shim.
    """

    job_id: str
    attempt: int
    worker: int
    command: tuple[str, ...]
    env: Mapping[str, str]
    workdir: str | None = None
    lease_path: str | None = None
    fence_s: float | None = None


@dataclass(frozen=True, slots=True)
class Started:
    """The job's process, and when it was started (unix seconds)."""

    pid: int
    at_s: float


@dataclass(frozen=True, slots=True)
class StopRequest:
    """End the job: ask first, kill after ``grace_s``."""

    grace_s: float
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Exit:
    """How it ended; ``exit_code`` is negative for a signal, ``served_s`` None if nothing paced the job."""

    cause: EndCause
    exit_code: int | None
    message: str
    at_s: float
    served_s: float | None = None
    log_bytes: int = 0


def write_whole(path: Path, text: str) -> None:
    """Put a file there whole or not at all, and make it last.

    Raises:
        OSError: no room, or the folder is gone.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder last.

    Raises:
        OSError: the folder is gone.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_object(path: Path) -> dict[str, Any] | None:
    """The JSON object in a file, None if there is no such file.

    Raises:
        BrokenFile: it holds something else.
    """
    try:
        with open_regular(path) as stream:
            value = json.loads(stream.read(MOST_FILE_BYTES))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise BrokenFile(f"{path.name}: {error}") from error
    if not isinstance(value, dict):
        raise BrokenFile(f"{path.name}: not an object")
    return value


def write_order(folder: Path, order: Order) -> None:
    """Store the order.

    Raises:
        OSError: no room.
    """
    write_whole(folder / ORDER, json.dumps(asdict(order)))


def read_order(folder: Path) -> Order | None:
    """The order, None if it was tidied away.

    Raises:
        BrokenFile: it cannot be understood.
    """
    stored = read_object(folder / ORDER)
    if stored is None:
        return None
    try:
        stored["command"] = tuple(stored["command"])
        return Order(**stored)
    except (KeyError, TypeError) as error:
        raise BrokenFile(f"{ORDER}: {error}") from error


def read_started(folder: Path) -> Started | None:
    """The job's process, None before it was started; broken counts as not yet written."""
    try:
        stored = read_object(folder / STARTED)
        if stored is None or not _is_whole(stored["pid"]) or not _is_seconds(stored["at_s"]):
            return None
        return Started(stored["pid"], float(stored["at_s"]))
    except (BrokenFile, KeyError):
        return None


def write_started(folder: Path, started: Started) -> None:
    """Store which process is the job.

    Raises:
        OSError: no room.
    """
    write_whole(folder / STARTED, json.dumps(asdict(started)))


def write_starting(folder: Path) -> None:
    """Store that the job may have been started from now on.

    Raises:
        OSError: no room.
    """
    write_whole(folder / STARTING, _boot_id())


def began_in_this_boot(folder: Path) -> bool:
    """Whether the machine has not been started again since the job was; False if that is not known."""
    try:
        with open_regular(folder / STARTING) as stream:
            text = stream.read(64).decode("ascii")
    except (OSError, ValueError):
        return False
    return text != "" and text == _boot_id()


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def read_stop(folder: Path) -> StopRequest | None:
    """The stop request; a broken one asks for a stop without a grace time stated."""
    try:
        stored = read_object(folder / STOP)
        if stored is None:
            return None
        if not _is_seconds(stored["grace_s"]):
            return StopRequest(TORN_GRACE_S)
        return StopRequest(float(stored["grace_s"]), str(stored.get("cause", "")))
    except (BrokenFile, KeyError):
        return StopRequest(TORN_GRACE_S)


def request_stop(folder: Path, request: StopRequest) -> None:
    """Ask the shim to end its job; the first cause counts, a shorter grace time always does.

    Raises:
        OSError: no room.
    """
    before = read_stop(folder)
    if before is None:
        write_whole(folder / STOP, json.dumps(asdict(request)))
    elif request.grace_s < before.grace_s:
        write_whole(folder / STOP, json.dumps(asdict(StopRequest(request.grace_s, before.cause))))
    wake(folder)


def write_speed(folder: Path, speed: float) -> None:
    """Set the pace of the job; not made to last, the agent sets it again.

    Raises:
        OSError: no room.
    """
    temporary = folder / f".{SPEED}.{os.getpid()}"
    temporary.write_text(f"{speed:.6f}\n", encoding="ascii")
    temporary.replace(folder / SPEED)
    wake(folder)


def wake(folder: Path) -> None:
    """Make the shim look at its folder now; without a shim nothing happens."""
    with contextlib.suppress(OSError):
        handle = os.open(folder / WAKE, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.write(handle, b"!")
        finally:
            os.close(handle)


def write_exit(folder: Path, end: Exit) -> None:
    """Write the last word into the reserved room, if there is any, and put it in its place.

    Raises:
        OSError: no room, and none was reserved.
    """
    body = json.dumps(asdict(end)).encode()
    reserve = folder / RESERVE
    handle = os.open(reserve, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.pwrite(handle, body, 0)
        os.ftruncate(handle, len(body))
        os.fsync(handle)
    finally:
        os.close(handle)
    reserve.replace(folder / EXIT)
    sync_folder(folder)


def read_exit(folder: Path) -> Exit | None:
    """How it ended, None while it has not; every field is checked, for a job can reach this file.

    Raises:
        BrokenFile: it cannot be understood.
    """
    stored = read_object(folder / EXIT)
    if stored is None:
        return None
    try:
        stored["cause"] = EndCause(stored["cause"])
        end = Exit(**stored)
    except (KeyError, TypeError, ValueError) as error:
        raise BrokenFile(f"{EXIT}: {error}") from error
    code, served_s = end.exit_code, end.served_s
    sound = {
        "exit_code": code is None or (_is_whole(code) and abs(code) <= MOST_EXIT_CODE),
        "message": isinstance(end.message, str),
        "at_s": _is_seconds(end.at_s),
        "served_s": served_s is None or _is_seconds(served_s),
        "log_bytes": _is_whole(end.log_bytes) and end.log_bytes >= 0,
    }
    wrong = [name for name, is_sound in sound.items() if not is_sound]
    if wrong:
        raise BrokenFile(f"{EXIT}: {', '.join(wrong)}: not a value that a runner writes")
    return end


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_seconds(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= MOST_TIME_S


def take_lock(folder: Path) -> int | None:
    """The shim's lock, held as long as the handle is open; None if another shim has it.

    Raises:
        OSError: no room, or the folder is gone.
    """
    handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


def is_held(folder: Path, lock: int) -> bool:
    """Whether the lock in the folder still is this one: else somebody removed the folder or emptied it."""
    try:
        return os.path.samestat(os.stat(folder / LOCK), os.fstat(lock))
    except OSError:
        return False


def has_shim(folder: Path) -> bool:
    """Whether a shim looks after this attempt now."""
    try:
        handle = take_lock(folder)
    except OSError:
        return False
    if handle is None:
        return True
    os.close(handle)
    return False


def open_regular(path: Path) -> BinaryIO:
    """Open a file that a job may have put there: not a pipe that blocks, nor a link to elsewhere.

    Raises:
        OSError: it is missing, or not a plain file.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(f"{path}: not a plain file")
    return os.fdopen(handle, "rb")


_STEP = re.compile(rb"step=([0-9]{1,18})(?:[ \t]+(.*))?")
_TIME = re.compile(rb"(?:^|[ \t])t=([0-9]+(?:\.[0-9]*)?)(?:[ \t]|$)")


def parse_progress(line: bytes) -> tuple[int, float | None] | None:
    """Step and time of one progress line; None for anything else, such as a torn line."""
    match = _STEP.fullmatch(line.strip())
    if match is None:
        return None
    time = _TIME.search(match[2] or b"")
    return int(match[1]), None if time is None else float(time[1])
