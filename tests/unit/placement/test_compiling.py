"""Who waits for the compiler is told before it begins, and only if there is something to compile."""

from __future__ import annotations

import pytest

from placement import engine, jit, summaries
from placement.engine import Engine, compile_kernels
from placement.policies import policy_named

numba = pytest.importorskip("numba")


@pytest.fixture
def told(monkeypatch) -> list[str]:
    """Loops that are compiled in a moment, and nothing in a cache."""

    def warm_up(_engine: Engine) -> None:
        numba.njit(lambda x: x + 1)(1)

    monkeypatch.setattr(Engine, "warm_up", warm_up)
    monkeypatch.setattr(summaries, "warm_up", lambda: None)
    return []


def test_it_is_told_once_for_all_loops(told):
    compile_kernels(policy_named("fifo+fgd").placement, told.append)
    assert told == ["compiling the decision loops of fgd, once per machine: up to half a minute"]


def test_it_is_told_before_it_begins(told):
    def interrupted(_line: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compile_kernels(policy_named("fgd").placement, interrupted)


def test_what_is_there_already_is_not_told(told, monkeypatch):
    compiled = numba.njit(lambda x: x + 1)
    compiled(1)
    monkeypatch.setattr(Engine, "warm_up", lambda _engine: compiled(1))
    compile_kernels(policy_named("fgd").placement, told.append)
    assert told == []


def test_there_is_nothing_to_tell_without_the_compiler(told, monkeypatch):
    monkeypatch.setattr(jit, "numba", None)
    monkeypatch.setattr(engine, "numba", None)
    monkeypatch.setattr(Engine, "warm_up", lambda _engine: None)
    compile_kernels(policy_named("fgd").placement, told.append)
    assert told == []
