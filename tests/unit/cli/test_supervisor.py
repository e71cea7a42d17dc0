"""Programs that die, and programs that will not; what is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli import supervisor as module
from cli.supervisor import Death, Program, StopSignals, Supervisor, last_line
from cli.sweep import end_processes_of, processes_of
from placement.model import OperationFailed
from tests.waiting import until

FOREVER = "while :; do sleep 0.01; done"


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def programs(tmp_path: Path, told: list[str]) -> Iterator[Supervisor]:
    supervisor = Supervisor(told.append)
    yield supervisor
    supervisor.stop(hurry=_set())


def _set() -> threading.Event:
    event = threading.Event()
    event.set()
    return event


def shell(tmp_path: Path, script: str, name: str = "program") -> Program:
    return Program(name, ["sh", "-c", script], tmp_path / f"{name}.log")


def test_a_death_is_told_with_the_last_word(programs, tmp_path):
    programs.start(shell(tmp_path, "echo starting; echo cotenant: no room; exit 3"))
    until(lambda: programs.death_of("program") is not None)
    assert programs.death_of("program") == Death(3, "no room")


def test_a_silent_death_is_told_with_its_status(programs, tmp_path):
    programs.start(shell(tmp_path, "exit 4"))
    until(lambda: programs.death_of("program") is not None)
    assert programs.death_of("program") == Death(4, "exit status 4")


def test_a_violent_death_is_told_as_such(programs, tmp_path):
    programs.start(shell(tmp_path, "echo all is well; kill -9 $$"))
    until(lambda: programs.death_of("program") is not None)
    assert programs.death_of("program") == Death(-9, "killed by signal 9")


def test_the_dead_are_started_again_as_they_were_changed(programs, tmp_path, told):
    programs.start(shell(tmp_path, "exit 1"))
    programs.change(shell(tmp_path, f"echo > {tmp_path}/again; sleep 60"))
    until(lambda: programs.death_of("program") is not None)
    programs.revive()
    until((tmp_path / "again").exists)
    assert programs.death_of("program") is None
    assert told == ["program ended (exit status 1); starting it again"]


def test_who_dies_again_and_again_is_given_up(programs, tmp_path):
    programs.start(shell(tmp_path, "echo hopeless; exit 1"))
    for _ in range(module.MOST_DEATHS):
        until(lambda: programs.death_of("program") is not None)
        programs.revive()
    until(lambda: programs.death_of("program") is not None)
    with pytest.raises(OperationFailed, match="again and again: hopeless"):
        programs.revive()


def test_a_program_that_is_not_there(programs, tmp_path):
    with pytest.raises(OperationFailed, match="cannot be started"):
        programs.start(Program("ghost", ["/no/such/program"], tmp_path / "log"))


def test_the_last_started_ends_first(tmp_path, told):
    supervisor = Supervisor(told.append)
    for name in ("first", "second"):
        trap = f"trap 'echo {name} >> {tmp_path}/order; exit 0' TERM; touch {tmp_path}/{name}.up; {FOREVER}"
        supervisor.start(shell(tmp_path, trap, name))
        until((tmp_path / f"{name}.up").exists)
    supervisor.stop(threading.Event())
    assert (tmp_path / "order").read_text().split() == ["second", "first"]


def test_who_will_not_end_is_killed(tmp_path, told, monkeypatch):
    monkeypatch.setattr(module, "END_WAIT_S", 0.2)
    supervisor = Supervisor(told.append)
    supervisor.start(shell(tmp_path, f"trap '' TERM; touch {tmp_path}/up; {FOREVER}"))
    until((tmp_path / "up").exists)
    supervisor.stop(threading.Event())
    assert processes_of(tmp_path) == []


@pytest.mark.parametrize("old_mode", [None, 0o644])
def test_only_its_owner_may_read_a_log(programs, tmp_path, old_mode):
    log = tmp_path / "program.log"
    if old_mode is not None:
        log.write_text("before\n")
        log.chmod(old_mode)
    programs.start(shell(tmp_path, "echo said"))
    until(lambda: log.read_text().endswith("said\n"))
    assert log.stat().st_mode & 0o777 == 0o600
    assert log.read_text().startswith("before\n") is (old_mode is not None)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", ""),
        ("a\nb\n\n", "b"),
        ("cotenant: bad\n", "bad"),
        ("2026-12-01 12:15:16,970 INFO manager: it says: so\n", "it says: so"),
        ("2026-12-01 12:15:16,970 WARNING manager.loop: so\n", "so"),
        ("x" * 10_000 + "\nend", "end"),
        ("\xff\n", "\ufffd"),
    ],
)
def test_last_line(tmp_path, text, line):
    (tmp_path / "log").write_bytes(text.encode("latin-1"))
    assert last_line(tmp_path / "log") == line


@pytest.mark.parametrize(("script", "word"), [("echo now", "now"), ("exit 3", "exit status 3")])
def test_what_a_program_said_in_a_former_life_is_not_its_last_word(programs, tmp_path, script, word):
    (tmp_path / "program.log").write_text("long ago\n")
    programs.start(shell(tmp_path, script))
    until(lambda: programs.death_of("program") is not None)
    assert programs.death_of("program").last_word == word


def test_no_log_has_no_last_line(tmp_path):
    assert last_line(tmp_path / "none") == ""


def test_the_first_signal_asks_and_the_second_hurries():
    before = signal.getsignal(signal.SIGTERM)
    with StopSignals().caught() as signals:
        os.kill(os.getpid(), signal.SIGTERM)
        until(signals.stop.is_set)
        assert not signals.hurry.is_set()
        os.kill(os.getpid(), signal.SIGINT)
        until(signals.hurry.is_set)
        assert signals.number == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.timeout(20)
def test_a_signal_that_interrupts_the_setting_of_an_event_does_not_lock_up():
    with StopSignals().caught() as signals:
        with signals.stop._cond:  # what wait() and set() hold for a moment
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)
        until(signals.hurry.is_set)


def test_catching_signals_leaves_no_thread_and_no_open_file():
    before = set(os.listdir("/proc/self/fd"))
    with StopSignals().caught():
        pass
    assert set(os.listdir("/proc/self/fd")) == before
    assert "signals" not in {thread.name for thread in threading.enumerate()}


def test_the_sweep_finds_a_stopped_orphan_by_its_environment(tmp_path):
    code = "import subprocess, sys; subprocess.Popen(['sleep', '600'], start_new_session=True)"
    environment = {**os.environ, "MARK": f"{tmp_path}/x"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    (orphan,) = processes_of(tmp_path)
    os.kill(orphan, signal.SIGSTOP)
    end_processes_of(tmp_path)
    assert processes_of(tmp_path) == []
