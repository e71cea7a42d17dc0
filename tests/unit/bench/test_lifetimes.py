"""The benchmark of lifetimes: its workload, and that its four ways differ in what they are meant to."""

from __future__ import annotations

import json
import sys

import pytest

from bench import lifetimes
from bench.times import jct_s
from placement.model import Mode
from placement.policies import PLACEMENTS
from placement.report import JobOutcome


def test_a_seed_is_a_workload_of_the_load_that_was_asked_for():
    rows = lifetimes.workload(3, 64, 0.9)
    assert rows == lifetimes.workload(3, 64, 0.9) != lifetimes.workload(4, 64, 0.9)
    assert [row.submit_s for row in rows] == sorted(row.submit_s for row in rows)
    assert len({row.job_id for row in rows}) == len(rows)
    asked = {True: 0.0, False: 0.0}
    for row in rows:
        whole = row.request.modes == {Mode.EXCLUSIVE}
        asked[whole] += row.request.gpus * (row.request.compute_milli or 1000) / 1000 * (row.duration_s or 0)
    load = sum(asked.values()) / 64 / lifetimes.SPAN_S
    assert 0.75 < load < 1.05
    assert 0.3 < asked[True] / sum(asked.values()) < 0.6


def test_all_four_ways_are_measured_and_only_lifetimes_make_a_difference(monkeypatch, capsys):
    monkeypatch.setitem(PLACEMENTS, lifetimes.Blind.name, lifetimes.Blind)
    words = ["--seeds", "1", "--hours", "30", "--load", "1.1", "--json"]
    monkeypatch.setattr(sys, "argv", ["lifetimes.py", *words])
    lifetimes.main()
    figures = json.loads(capsys.readouterr().out)
    assert list(figures) == ["unknown", "told", "estimated", "known"]
    assert figures["unknown"] not in (figures["estimated"], figures["known"])
    assert all(each["jobs"] == figures["known"]["jobs"] > 100 for each in figures.values())


@pytest.mark.parametrize("seeds", ["x", "1,", "1,y", "-1"])
def test_seeds_that_are_no_numbers_are_refused_in_words(monkeypatch, capsys, seeds):
    monkeypatch.setattr(sys, "argv", ["lifetimes.py", f"--seeds={seeds}"])
    with pytest.raises(SystemExit):
        lifetimes.main()
    assert "write whole numbers such as 1,2,3" in capsys.readouterr().err


def test_a_job_that_cannot_end_is_told():
    jobs = lifetimes.workload(1, 64, 0.9)[:1]
    outcome = JobOutcome(jobs[0].job_id, "t", None, 0.0, None, None, 0, 0.0, None, None, None, 0)
    with pytest.raises(SystemExit, match="has not ended"):
        jct_s(outcome)
