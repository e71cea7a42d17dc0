"""Output of workers: one file each, appended at agreed offsets, so complete and never doubled."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

from manager.wire.client import WrongOffset
from placement.model import OperationFailed

MAX_CHUNK_BYTES = 1 << 20
"""Most that one reading gives."""
_FULL = (errno.ENOSPC, errno.EDQUOT)
_STRIPES = 64


class LogStore:
    """Files ``JOB/ATTEMPT-WORKER.log``; callers pass job ids that exist, never free text."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._locks = tuple(threading.Lock() for _ in range(_STRIPES))

    def append(self, worker: tuple[str, int, int], offset: int, data: bytes) -> int:
        """Append output of ``worker`` (job id, attempt, worker) from ``offset`` on; gives the new size.

        What was appended is on disk when this returns.  After a crash in between, the caller's next try meets
        :class:`WrongOffset` with the true size and goes on from there.

        Raises:
            WrongOffset: the file does not have exactly ``offset`` bytes.
            OperationFailed: the disk refused.
        """
        path = self._path(worker)
        with self._locks[hash(worker) % _STRIPES]:
            try:
                return _append(path, offset, data)
            except OSError as error:
                reason = "the disk for logs is full" if error.errno in _FULL else f"{error.strerror}"
                raise OperationFailed(
                    f"log of {worker[0]}: {reason}; what was sent is not lost, try again"
                ) from error

    def size(self, worker: tuple[str, int, int]) -> int:
        """How many bytes of output there are, 0 without any."""
        try:
            return self._path(worker).stat().st_size
        except FileNotFoundError:
            return 0

    def read(self, worker: tuple[str, int, int], offset: int) -> bytes:
        """Output from ``offset`` on, at most :data:`MAX_CHUNK_BYTES`.

        Raises:
            OperationFailed: the disk refused.
        """
        try:
            with self._path(worker).open("rb") as stream:
                stream.seek(min(offset, os.fstat(stream.fileno()).st_size))
                return stream.read(MAX_CHUNK_BYTES)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise OperationFailed(f"log of {worker[0]}: {error.strerror}") from error

    def _path(self, worker: tuple[str, int, int]) -> Path:
        job_id, attempt, index = worker
        return self._folder / job_id / f"{attempt}-{index}.log"


def _append(path: Path, offset: int, data: bytes) -> int:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        if size != offset:
            raise WrongOffset(f"log: it has {size} bytes, not {offset}; go on from there", size)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
        if size == 0:
            _sync_folder(path.parent)
        return size + len(data)
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    """A new file is on disk only when its name is."""
    for each in (folder, folder.parent):
        descriptor = os.open(each, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
