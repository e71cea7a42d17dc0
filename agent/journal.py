"""What this node was told to do, on disk before it is acknowledged: one folder per attempt, and what is over.

    attempts/NAME/   an attempt from its start command until its exit report is accepted
    done/NAME        an empty file: that attempt is over; a start command that comes again is not done again
    instance         random id of this agent, the same as long as the folder lasts
    database         id of the manager's database that these attempts belong to
    epoch            the newest epoch seen
    old-ID.N/        what there was of a former database, put away whole
    lease            touched after every contact with the manager; the shims' fences watch it
    lock             held by the one agent that uses this folder

A folder appears under ``attempts`` in one step, complete, so a crash leaves an attempt or none.  Exit reports
are sent as long as the folder is there.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from agent import attempt
from agent.attempt import Exit, Order
from agent.devices import WorkerKey
from manager.wire.agent_models import AgentCommand
from placement.model import InvalidInput, OperationFailed

COMMAND = "command.json"
MOST_DONE = 10_000
"""How many ended attempts are remembered; commands are only ever repeated until they are acknowledged."""
_IDENTIFIER = re.compile(r"[A-Za-z0-9._-]{1,63}")


@dataclass(frozen=True, slots=True)
class Entry:
    """One attempt in the journal; ``command`` None where it was never given or cannot be read."""

    key: WorkerKey
    folder: Path
    command: AgentCommand | None


class Journal:
    """The agent's memory; only one agent may have it open.

    Raises:
        InvalidInput: the folder cannot be used, or another agent uses it.
    """

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self._attempts, self._done, self._new = (data_dir / name for name in ("attempts", "done", "new"))
        try:
            data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
            shutil.rmtree(self._new, ignore_errors=True)
            for folder in (self._attempts, self._done, self._new):
                folder.mkdir(exist_ok=True, mode=0o700)
            self._lock = os.open(data_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise InvalidInput(f"data folder {data_dir}: cannot be used ({error.strerror})") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise InvalidInput(
                f"data folder {data_dir}: another agent uses it; stop that one first"
            ) from None
        self._prune()

    def close(self) -> None:
        """Let another agent use the folder."""
        os.close(self._lock)

    # Attempts

    def folder(self, key: WorkerKey) -> Path:
        """Where an attempt lies."""
        return self._attempts / _name(key)

    def knows(self, key: WorkerKey) -> bool:
        """Whether this attempt was begun here, or is over."""
        return self.folder(key).exists() or self.is_over(key)

    def is_over(self, key: WorkerKey) -> bool:
        """Whether this attempt's end was reported and accepted."""
        return (self._done / _name(key)).exists()

    def begin(self, command: AgentCommand, order: Order) -> Path:
        """Store a start command; once this returns it is not forgotten.

        Raises:
            OSError: no room.
        """
        key = WorkerKey(command.job_id, command.attempt, command.worker)

        def fill(folder: Path) -> None:
            attempt.write_whole(folder / COMMAND, command.model_dump_json())
            attempt.write_order(folder, order)

        return self._place(key, fill)

    def entomb(self, command: AgentCommand, end: Exit) -> Path:
        """Store that an attempt ended without ever being started.

        Raises:
            OSError: no room.
        """
        key = WorkerKey(command.job_id, command.attempt, command.worker)
        return self._place(key, lambda folder: attempt.write_exit(folder, end))

    def _place(self, key: WorkerKey, fill: Callable[[Path], None]) -> Path:
        new, folder = self._new / _name(key), self.folder(key)
        shutil.rmtree(new, ignore_errors=True)
        try:
            new.mkdir(mode=0o700)
            fill(new)
            new.rename(folder)
        except OSError:
            shutil.rmtree(new, ignore_errors=True)
            raise
        attempt.sync_folder(self._attempts)
        return folder

    def entries(self) -> list[Entry]:
        """All attempts that are not over, in no particular order."""
        found = []
        for folder in self._attempts.iterdir():
            key = _key(folder.name)
            if key is not None:
                found.append(Entry(key, folder, _command(folder)))
        return found

    def finish(self, key: WorkerKey) -> None:
        """The attempt is over and its exit report accepted: remember that alone.

        Raises:
            OSError: no room; the folder is still there then, and the report goes out again.
        """
        (self._done / _name(key)).touch(mode=0o600)
        attempt.sync_folder(self._done)
        shutil.rmtree(self.folder(key), ignore_errors=True)

    def _prune(self) -> None:
        for folder in self._attempts.iterdir():
            if (self._done / folder.name).exists():
                shutil.rmtree(folder, ignore_errors=True)  # a crash cut finish() short
        done = sorted(self._done.iterdir(), key=lambda path: path.stat().st_mtime_ns)
        for path in done[:-MOST_DONE]:
            path.unlink(missing_ok=True)

    # Who we are, and whom we belong to

    def instance(self) -> str:
        """The random id of this agent: two agents with one node id are told apart by it.

        Raises:
            InvalidInput: it cannot be written down.
        """
        found = self._identifier("instance")
        if found is None:
            found = uuid.uuid4().hex
            try:
                attempt.write_whole(self.data_dir / "instance", f"{found}\n")
            except OSError as error:
                raise InvalidInput(
                    f"data folder {self.data_dir}: cannot be used ({error.strerror})"
                ) from error
        return found

    def database_id(self) -> str | None:
        """The database that the attempts belong to, None before the first welcome."""
        return self._identifier("database")

    def set_database_id(self, database_id: str) -> None:
        """Remember whose attempts these are.

        Raises:
            OSError: no room.
        """
        attempt.write_whole(self.data_dir / "database", f"{database_id}\n")

    def put_away(self, database_id: str) -> Path:
        """Start afresh for another database, whose job-1 is not ours; returns where the former attempts are.

        The id of the new one is written last: what a crash cuts short is done again.

        Raises:
            OSError: no room.
        """
        base = f"old-{self.database_id()}"
        number = 1 + sum(path.name.rpartition(".")[0] == base for path in self.data_dir.iterdir())
        old = self.data_dir / f"{base}.{number}"
        old.mkdir(mode=0o700)
        for folder in (self._attempts, self._done):
            folder.rename(old / folder.name)
            folder.mkdir(mode=0o700)
        with contextlib.suppress(FileNotFoundError):
            (self.data_dir / "epoch").rename(old / "epoch")
        self.set_database_id(database_id)
        return old

    def _identifier(self, name: str) -> str | None:
        try:
            text = (self.data_dir / name).read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            return None
        return text if _IDENTIFIER.fullmatch(text) else None

    # Epoch and lease

    def epoch(self) -> int:
        """The newest epoch seen, 0 if none or if the file is broken."""
        try:
            return int((self.data_dir / "epoch").read_text(encoding="ascii"))
        except (OSError, ValueError):
            return 0

    def set_epoch(self, epoch: int) -> None:
        """Remember a newer epoch.

        Raises:
            OSError: no room.
        """
        attempt.write_whole(self.data_dir / "epoch", f"{epoch}\n")

    @property
    def lease_path(self) -> Path:
        """The file whose age is the time without contact."""
        return self.data_dir / "lease"

    def touch_lease(self, contact_s: float) -> None:
        """Say when the last successful contact began (unix seconds).

        Raises:
            OperationFailed: the file cannot be touched.
        """
        at_ns = int(contact_s * 1e9)
        try:
            handle = os.open(self.lease_path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.utime(handle, ns=(at_ns, at_ns))
            finally:
                os.close(handle)
        except OSError as error:
            raise OperationFailed(f"{self.lease_path}: cannot be touched ({error.strerror})") from error


def _name(key: WorkerKey) -> str:
    # The numbers come last: a job id may hold dots, and may even be "..".
    return f"{key.job_id}.{key.attempt}.{key.worker}"


def _key(name: str) -> WorkerKey | None:
    parts = name.rsplit(".", 2)
    if len(parts) != 3 or not (parts[1].isdecimal() and parts[2].isdecimal()):
        return None
    return WorkerKey(parts[0], int(parts[1]), int(parts[2]))


def _command(folder: Path) -> AgentCommand | None:
    try:
        with attempt.open_regular(folder / COMMAND) as stream:
            return AgentCommand.model_validate_json(stream.read(attempt.MOST_FILE_BYTES))
    except (OSError, ValidationError):
        return None
