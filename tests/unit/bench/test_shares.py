"""The benchmark of chosen shares: its workload, and that its two ways differ in what they are meant to."""

from __future__ import annotations

import json
import sys

import pytest

from bench import shares
from placement.model import Profile
from placement.policies import PLACEMENTS

PROFILES = [Profile("light", sm_milli=200), Profile("heavy", sm_milli=800)]


def test_a_seed_is_a_workload_of_the_load_that_was_asked_for():
    rows = shares.Workload(3, 0.9, 0.5, 1000 * shares.HOUR_S).rows(8, PROFILES)
    assert rows == shares.Workload(3, 0.9, 0.5, 1000 * shares.HOUR_S).rows(8, PROFILES)
    assert rows != shares.Workload(4, 0.9, 0.5, 1000 * shares.HOUR_S).rows(8, PROFILES)
    assert [row.submit_s for row in rows] == sorted(row.submit_s for row in rows)
    used = {"light": 0.2, "heavy": 0.8}
    load = sum(used[row.profile] * row.duration_s for row in rows) / 8 / (1000 * shares.HOUR_S)
    assert 0.8 < load < 1.0
    promised = sum(row.request.max_slowdown is not None for row in rows) / len(rows)
    assert 0.45 < promised < 0.55
    assert all(row.request.compute_milli is None for row in rows)


def test_both_ways_are_measured_and_no_promise_is_broken(monkeypatch, capsys):
    monkeypatch.setitem(PLACEMENTS, shares.AsUsed.name, shares.AsUsed)
    monkeypatch.setattr(sys, "argv", ["shares.py", "--seeds=1", "--hours=24", "--load=1.1", "--json"])
    shares.main()
    figures = json.loads(capsys.readouterr().out)["1.1"]
    assert list(figures) == ["as-used", "chosen"]
    assert figures["as-used"]["promised"] == figures["chosen"]["promised"] > 50
    assert figures["as-used"]["broken"] == figures["chosen"]["broken"] == 0
    assert figures["chosen"]["slowdown"] > figures["as-used"]["slowdown"]


@pytest.mark.parametrize("loads", ["x", "1,", "0", "-1", "nan", "inf"])
def test_loads_that_are_no_numbers_are_refused_in_words(monkeypatch, capsys, loads):
    monkeypatch.setattr(sys, "argv", ["shares.py", f"--load={loads}"])
    with pytest.raises(SystemExit):
        shares.main()
    assert "write numbers above 0 such as 0.9,1.1" in capsys.readouterr().err
