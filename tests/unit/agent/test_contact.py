"""What counts as contact with the manager."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.contact import Contact
from agent.journal import Journal
from placement.model import Unreachable


class Clock:
    """Both clocks of the agent; the wall clock may be set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s, self.set_by_s = 100.0, 5000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(time, "time", lambda: self.now_s + self.set_by_s)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    journal = Journal(tmp_path / "agent")
    yield journal
    journal.close()


def lease_s(journal: Journal) -> float | None:
    return journal.lease_path.stat().st_mtime if journal.lease_path.exists() else None


def test_a_contact_counts_from_when_its_call_began(clock: Clock, journal: Journal) -> None:
    with Contact(journal).call():
        clock.now_s += 20.0
    assert lease_s(journal) == 5100.0


def test_a_call_that_fails_is_no_contact(clock: Clock, journal: Journal) -> None:
    with pytest.raises(Unreachable), Contact(journal).call():
        raise Unreachable("gone")
    assert lease_s(journal) is None


def test_a_long_poll_takes_nothing_back(clock: Clock, journal: Journal) -> None:
    contact = Contact(journal)
    with contact.call():
        clock.now_s += 10.0
        with contact.call():
            clock.now_s += 10.0
    assert lease_s(journal) == 5110.0


def test_a_clock_that_is_set_back_does_not_stop_the_lease(clock: Clock, journal: Journal) -> None:
    contact = Contact(journal)
    for set_by_s in (5000.0, 1000.0):
        clock.now_s, clock.set_by_s = clock.now_s + 1.0, set_by_s
        with contact.call():
            pass
    assert lease_s(journal) == 1102.0


def test_another_manager_than_ours_does_not_count(clock: Clock, journal: Journal) -> None:
    contact = Contact(journal)
    contact.trusted = False
    with contact.call():
        pass
    assert lease_s(journal) is None


def test_a_lease_that_cannot_be_touched_is_said_once_and_fails_no_call(
    clock: Clock, journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    journal.lease_path.mkdir()
    contact = Contact(journal)
    for _ in range(3):
        clock.now_s += 1.0
        with contact.call():
            pass
    assert caplog.text.count("cannot be touched") == 1
