"""The shim's fence, with clocks that the test moves."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent import fence
from agent.fence import Fence

FENCE_S = 30.0


class Clocks:
    """A wall clock that can be set, and one that cannot."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.wall_s, self.steady_s = 1_000_000.0, 50.0
        patch.setattr(fence, "_now_s", lambda: self.steady_s)
        patch.setattr("agent.fence.time.time", lambda: self.wall_s)

    def go(self, seconds: float) -> None:
        self.wall_s += seconds
        self.steady_s += seconds


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    return Clocks(monkeypatch)


@pytest.fixture
def lease(tmp_path: Path, clocks: Clocks) -> Path:
    path = tmp_path / "lease"
    path.touch()
    touch(path, clocks.wall_s)
    return path


def touch(path: Path, at_s: float) -> None:
    os.utime(path, (at_s, at_s))


def test_it_falls_when_the_last_contact_is_too_long_ago(clocks: Clocks, lease: Path) -> None:
    watched = Fence(str(lease), FENCE_S)
    for _ in range(3):
        assert watched.late_s() is None
        clocks.go(10.0)
    assert watched.late_s() is None
    clocks.go(0.5)
    assert watched.late_s() == pytest.approx(30.5)


def test_every_contact_begins_it_anew(clocks: Clocks, lease: Path) -> None:
    watched = Fence(str(lease), FENCE_S)
    for _ in range(10):
        clocks.go(20.0)
        touch(lease, clocks.wall_s)
        assert watched.late_s() is None


def test_a_contact_counts_from_when_it_was_and_not_from_when_it_was_seen(clocks: Clocks, lease: Path) -> None:
    watched = Fence(str(lease), FENCE_S)
    touch(lease, clocks.wall_s + 1.0)
    clocks.go(6.0)
    assert watched.late_s() is None
    clocks.go(25.5)
    assert watched.late_s() == pytest.approx(30.5)


@pytest.mark.parametrize("jump_s", [3600.0, -3600.0])
def test_a_clock_that_is_set_neither_kills_nor_spares(clocks: Clocks, lease: Path, jump_s: float) -> None:
    watched = Fence(str(lease), FENCE_S)
    assert watched.late_s() is None
    clocks.wall_s += jump_s
    assert watched.late_s() is None
    clocks.go(31.0)
    assert watched.late_s() == pytest.approx(31.0)
    touch(lease, clocks.wall_s)
    assert watched.late_s() is None
    touch(lease, clocks.wall_s - 3600.0)
    assert watched.late_s() is None


def test_a_shim_that_begins_long_after_the_last_contact_is_late_at_once(clocks: Clocks, lease: Path) -> None:
    touch(lease, clocks.wall_s - 3600.0)
    watched = Fence(str(lease), FENCE_S)
    assert watched.late_s() == pytest.approx(3600.0)
    touch(lease, clocks.wall_s)
    assert watched.late_s() is None


def test_a_lease_that_vanished_is_no_contact(clocks: Clocks, lease: Path) -> None:
    watched = Fence(str(lease), FENCE_S)
    assert watched.late_s() is None
    lease.unlink()
    clocks.go(31.0)
    assert watched.late_s() is not None


def test_without_a_fence_nothing_falls(clocks: Clocks, lease: Path) -> None:
    for watched in (Fence(None, FENCE_S), Fence(str(lease), None)):
        clocks.go(1e9)
        assert watched.late_s() is None
