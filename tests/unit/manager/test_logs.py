from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from manager.logs import MAX_CHUNK_BYTES, LogStore
from manager.wire.client import WrongOffset
from placement.model import OperationFailed

WORKER = ("job-1", 1, 0)


def test_a_full_disk_is_told_and_what_was_written_is_not_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = LogStore(tmp_path)
    write = os.write

    def three_bytes_then_full(descriptor: int, data: memoryview) -> int:
        if os.fstat(descriptor).st_size >= 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, data[:3])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", three_bytes_then_full)
        with pytest.raises(OperationFailed, match="full"):
            logs.append(WORKER, 0, b"abcdef")
    with pytest.raises(WrongOffset) as caught:
        logs.append(WORKER, 0, b"abcdef")
    assert logs.append(WORKER, caught.value.size, b"abcdef"[caught.value.size :]) == 6
    assert logs.read(WORKER, 0) == b"abcdef"


def test_many_senders_of_the_same_bytes_leave_them_once(tmp_path: Path) -> None:
    logs = LogStore(tmp_path)
    data = bytes(range(256)) * 40
    step = 100

    def send() -> None:
        offset = 0
        while offset < len(data):
            try:
                offset = logs.append(WORKER, offset, data[offset : offset + step])
            except WrongOffset as error:
                offset = error.size

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert logs.read(WORKER, 0) == data


def test_reading_gives_parts_and_nothing_beyond_the_end(tmp_path: Path) -> None:
    logs = LogStore(tmp_path)
    assert (logs.read(WORKER, 0), logs.size(WORKER)) == (b"", 0)
    logs.append(WORKER, 0, b"x" * (MAX_CHUNK_BYTES + 5))
    assert len(logs.read(WORKER, 0)) == MAX_CHUNK_BYTES
    assert logs.read(WORKER, MAX_CHUNK_BYTES) == b"x" * 5
    assert logs.read(WORKER, 1 << 60) == b""


def test_files_are_the_owner_s_alone(tmp_path: Path) -> None:
    LogStore(tmp_path).append(WORKER, 0, b"x")
    assert (tmp_path / "job-1" / "1-0.log").stat().st_mode & 0o777 == 0o600
