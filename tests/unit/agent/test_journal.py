"""The agent's memory: what a crash at any point leaves of it."""

from __future__ import annotations

import errno
import json
import math
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agent import attempt
from agent.attempt import BrokenFile, EndCause, Exit, Order, Started, StopRequest
from agent.devices import WorkerKey
from agent.journal import MOST_DONE, Journal
from manager.wire.agent_models import AgentCommand, CommandKind
from placement.model import InvalidInput

KEY = WorkerKey("job-1", 1, 0)
ORDER = Order("job-1", 1, 0, ("true",), {"A": "b"})
END = Exit(EndCause.EXITED, 3, "", 1.5, 0.5, 7)


def command(job_id: str = "job-1") -> AgentCommand:
    return AgentCommand(
        sequence=1, epoch=1, kind=CommandKind.START, job_id=job_id, attempt=1, worker=0, command=["true"]
    )


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "agent")


def reopened(journal: Journal) -> Journal:
    journal.close()
    return Journal(journal.data_dir)


def test_what_was_begun_is_remembered_with_its_command(journal: Journal) -> None:
    journal.begin(command(), ORDER)
    (entry,) = reopened(journal).entries()
    assert (entry.key, entry.command) == (KEY, command())
    assert attempt.read_order(entry.folder) == ORDER


def test_what_is_over_is_known_but_no_longer_there(journal: Journal) -> None:
    journal.begin(command(), ORDER)
    journal.finish(KEY)
    later = reopened(journal)
    assert later.entries() == []
    assert later.knows(KEY)
    assert not later.knows(KEY._replace(attempt=2))


def test_an_attempt_can_end_without_a_start(journal: Journal) -> None:
    folder = journal.entomb(command(), END)
    assert attempt.read_exit(folder) == END
    assert journal.knows(KEY)


@pytest.mark.parametrize("job_id", ["..", ".", "a.b.c", "1.2", "-", "done"])
def test_no_job_id_leads_out_of_the_folder(journal: Journal, job_id: str) -> None:
    folder = journal.begin(command(job_id), ORDER)
    assert folder.parent == journal.data_dir / "attempts"
    assert [entry.key.job_id for entry in journal.entries()] == [job_id]


def test_a_crash_while_an_attempt_was_written_leaves_nothing(journal: Journal) -> None:
    half = journal.data_dir / "new" / "job-1.1.0"
    half.mkdir()
    (half / attempt.ORDER).write_text("{")
    later = reopened(journal)
    assert later.entries() == []
    assert not later.knows(KEY)
    later.begin(command(), ORDER)
    assert later.knows(KEY)


def test_a_crash_while_an_attempt_was_tidied_away_is_made_good(journal: Journal) -> None:
    folder = journal.begin(command(), ORDER)
    (journal.data_dir / "done" / folder.name).touch()
    later = reopened(journal)
    assert later.entries() == []
    assert later.knows(KEY)


def test_a_disk_without_room_leaves_no_trace(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, text: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(attempt, "write_whole", full)
    with pytest.raises(OSError, match="No space left"):
        journal.begin(command(), ORDER)
    assert not journal.knows(KEY)
    assert list((journal.data_dir / "new").iterdir()) == []


def test_folders_that_are_not_attempts_are_left_out(journal: Journal) -> None:
    for name in ("lost+found", "x.y.z", "job.1"):
        (journal.data_dir / "attempts" / name).mkdir()
    assert reopened(journal).entries() == []


def test_only_the_newest_ended_attempts_are_remembered(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.journal.MOST_DONE", 2)
    assert MOST_DONE > 2
    for number in range(4):
        name = journal.data_dir / "done" / f"job-{number}.1.0"
        name.touch()
        os.utime(name, (number, number))
    later = reopened(journal)
    assert [later.knows(WorkerKey(f"job-{n}", 1, 0)) for n in range(4)] == [False, False, True, True]


def test_a_second_agent_is_refused(journal: Journal) -> None:
    with pytest.raises(InvalidInput, match="another agent uses it"):
        Journal(journal.data_dir)
    reopened(journal)


def test_a_folder_that_cannot_be_is_bad_input() -> None:
    with pytest.raises(InvalidInput, match="/dev/null/agent"):
        Journal(Path("/dev/null/agent"))


@pytest.mark.parametrize(("stored", "epoch"), [("7\n", 7), ("", 0), ("x", 0), ("\xff", 0)])
def test_the_epoch_survives_and_a_broken_one_counts_as_none(
    journal: Journal, stored: str, epoch: int
) -> None:
    (journal.data_dir / "epoch").write_bytes(stored.encode("latin-1"))
    assert reopened(journal).epoch() == epoch


def test_an_epoch_is_kept(journal: Journal) -> None:
    assert journal.epoch() == 0
    journal.set_epoch(3)
    assert reopened(journal).epoch() == 3


def test_the_lease_carries_the_time_of_the_contact(journal: Journal) -> None:
    journal.touch_lease(1000.5)
    assert journal.lease_path.stat().st_mtime == 1000.5


def test_secrets_are_for_the_owner_alone(journal: Journal) -> None:
    folder = journal.begin(command(), ORDER)
    for path in (folder, *folder.iterdir()):
        assert path.stat().st_mode & 0o077 == 0, path


# Files of an attempt


@pytest.mark.parametrize(
    "torn", ["", "{", "[]", "null", '{"cause": "exited"}', '{"cause": "x", "exit_code": 0}']
)
def test_a_torn_exit_is_an_error_and_never_a_success(tmp_path: Path, torn: str) -> None:
    (tmp_path / attempt.EXIT).write_text(torn)
    with pytest.raises(BrokenFile, match=r"exit\.json"):
        attempt.read_exit(tmp_path)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("exit_code", value) for value in ("x", 1.5, True, 256, -256, [0], {})],
        *[("message", value) for value in (None, 7, ["x"])],
        *[("at_s", value) for value in (None, "x", -1.0, math.nan, math.inf, 1e13, True)],
        *[("served_s", value) for value in ("x", -1.0, math.nan, math.inf, 1e13)],
        *[("log_bytes", value) for value in (None, -1, 0.5, "x")],
        *[("cause", value) for value in (None, 1, "fine", [])],
        ("more", 1),
    ],
)
def test_an_exit_that_no_runner_writes_is_an_error(tmp_path: Path, field: str, value: object) -> None:
    attempt.write_exit(tmp_path, END)
    stored = json.loads((tmp_path / attempt.EXIT).read_text())
    (tmp_path / attempt.EXIT).write_text(json.dumps({**stored, field: value}))
    with pytest.raises(BrokenFile, match=r"exit\.json"):
        attempt.read_exit(tmp_path)


@pytest.mark.parametrize("name", [attempt.EXIT, attempt.STARTED, attempt.STOP, attempt.ORDER])
def test_a_file_that_would_hold_up_its_reader_is_broken(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(BrokenFile, match="not a plain file"):
        attempt.read_object(tmp_path / name)


@pytest.mark.parametrize(
    "torn",
    [
        *["", "{", "[]", "[" * 100_000, '{"pid": 1}', '{"pid": "x", "at_s": 1}', '{"pid": 1.5, "at_s": 1}'],
        *['{"pid": 1, "at_s": NaN}', '{"pid": 1, "at_s": -1}', '{"pid": 1, "at_s": 1e999}'],
    ],
)
def test_a_torn_start_counts_as_not_yet_written(tmp_path: Path, torn: str) -> None:
    (tmp_path / attempt.STARTED).write_text(torn)
    assert attempt.read_started(tmp_path) is None


@pytest.mark.parametrize("torn", ["", "{", "[]", '{"grace_s": "long"}', '{"grace_s": NaN}', "{}"])
def test_a_torn_stop_is_still_a_stop(tmp_path: Path, torn: str) -> None:
    (tmp_path / attempt.STOP).write_text(torn)
    assert attempt.read_stop(tmp_path) == StopRequest(5.0)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    reads: list[tuple[Callable[[], None], Callable[[], object], object]] = [
        (lambda: attempt.write_exit(tmp_path, END), lambda: attempt.read_exit(tmp_path), END),
        (
            lambda: attempt.write_started(tmp_path, Started(12, 3.5)),
            lambda: attempt.read_started(tmp_path),
            Started(12, 3.5),
        ),
        (lambda: attempt.write_order(tmp_path, ORDER), lambda: attempt.read_order(tmp_path), ORDER),
        (
            lambda: attempt.request_stop(tmp_path, StopRequest(2.0, "cancelled")),
            lambda: attempt.read_stop(tmp_path),
            StopRequest(2.0, "cancelled"),
        ),
    ]
    for write, read, value in reads:
        assert read() is None
        write()
        assert read() == value


@pytest.mark.parametrize(
    ("second_s", "grace_s"), [(9.0, 2.0), (2.0, 2.0), (0.5, 0.5), (0.0, 0.0)], ids=lambda value: f"{value:g}s"
)
def test_of_two_stop_requests_the_first_cause_and_the_shorter_grace_count(
    tmp_path: Path, second_s: float, grace_s: float
) -> None:
    attempt.request_stop(tmp_path, StopRequest(2.0, "preempted"))
    attempt.request_stop(tmp_path, StopRequest(second_s, "cancelled"))
    assert attempt.read_stop(tmp_path) == StopRequest(grace_s, "preempted")


def test_a_torn_stop_request_is_shortened_too(tmp_path: Path) -> None:
    (tmp_path / attempt.STOP).write_text("{")
    attempt.request_stop(tmp_path, StopRequest(0.0, "cancelled"))
    assert attempt.read_stop(tmp_path) == StopRequest(0.0, "")


def test_an_agents_id_and_its_database_outlast_it(journal: Journal, tmp_path: Path) -> None:
    instance = journal.instance()
    assert journal.database_id() is None
    journal.set_database_id("db-1")
    later = reopened(journal)
    assert (later.instance(), later.database_id()) == (instance, "db-1")
    assert Journal(tmp_path / "other").instance() != instance


def test_attempts_of_a_former_database_are_put_away(journal: Journal) -> None:
    journal.set_database_id("db-1")
    journal.set_epoch(7)
    for round_ in (1, 2):
        journal.begin(command(), ORDER)
        journal.finish(KEY)
        journal.begin(command("job-2"), ORDER)
        old = journal.put_away("db-1" if round_ == 1 else "db-2")
        assert old.name == f"old-db-1.{round_}"
        assert (old / "attempts" / "job-2.1.0" / attempt.ORDER).exists()
        journal = reopened(journal)
        assert not journal.knows(KEY)
        assert (journal.entries(), journal.epoch()) == ([], 0)
    assert journal.database_id() == "db-2"
