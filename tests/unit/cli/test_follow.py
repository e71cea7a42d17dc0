"""Patience with a manager that is away for a while."""

from __future__ import annotations

import pytest

from cli.follow import patiently
from placement.model import NotFound, Unreachable


def failing(times: int, error: Exception):
    """An answer that comes only after some failures."""
    left = iter(range(times))

    def ask() -> str:
        if next(left, None) is not None:
            raise error
        return "answer"

    return ask


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr("cli.follow.POLL_S", 0.0)


def test_a_manager_that_comes_back_is_waited_for():
    assert patiently(failing(3, Unreachable("away"))) == "answer"


def test_a_manager_that_stays_away_is_given_up():
    with pytest.raises(Unreachable, match="away"):
        patiently(failing(10**9, Unreachable("away")), patience_s=0.05)


def test_other_errors_come_through_at_once():
    with pytest.raises(NotFound):
        patiently(failing(1, NotFound("no such job")))
