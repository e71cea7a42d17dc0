from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from manager import main
from manager.settings import DATABASE_URL_VARIABLE, ManagerSettings
from placement.model import OperationFailed


class Assembled(Exception):
    """As far as these tests go."""


@pytest.fixture(autouse=True)
def no_database_of_somebody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DATABASE_URL_VARIABLE, raising=False)


@pytest.fixture(autouse=True)
def same_umask() -> Iterator[None]:
    before = os.umask(0o077)
    yield
    os.umask(before)


def test_the_searches_are_compiled_before_a_manager_leads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    done: list[str] = []

    def compile_kernels(_placement: object, tell: Callable[[str], None]) -> None:
        tell("compiling, which takes long")
        done.append("compile")

    def assemble(_settings: ManagerSettings) -> None:
        done.append("lead")
        raise Assembled

    monkeypatch.setattr(main, "compile_kernels", compile_kernels)
    monkeypatch.setattr(main, "assemble", assemble)
    with caplog.at_level("INFO"), pytest.raises(Assembled):
        main.serve(ManagerSettings(data_dir=tmp_path, listen="127.0.0.1:0"))
    assert done == ["compile", "lead"]
    assert "compiling, which takes long" in caplog.messages


@pytest.mark.parametrize("left", [b"", b"99999999999\n", b"\xff" * 40])
def test_the_lock_tells_its_owner_and_survives_what_a_killed_one_left(tmp_path: Path, left: bytes) -> None:
    lock = tmp_path / "manager.lock"
    lock.write_bytes(left)
    with main._sole_owner(tmp_path):
        assert lock.read_text() == f"{os.getpid()}\n"
        with pytest.raises(OperationFailed, match=rf"\(process {os.getpid()}\) is running on"):
            main._sole_owner(tmp_path).__enter__()
        lock.write_bytes(b"")
        with pytest.raises(OperationFailed, match="another manager is running"):
            main._sole_owner(tmp_path).__enter__()
    with main._sole_owner(tmp_path):
        pass
