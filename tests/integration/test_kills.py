"""Managers and agents are killed at random moments; every job still ends once, with status and output."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.campaign import Round, campaign, summary
from bench.killing import JOBS_PER_KILL, Cluster, kill_round

KILLS = 20
SEED = 2024


@pytest.mark.integration
@pytest.mark.slow
@pytest.mark.timeout(240)
def test_twenty_kills_lose_nothing_and_run_nothing_twice(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path / "cluster")
    try:
        cluster.start_all()
        killed = kill_round(cluster, SEED, KILLS)
        assert len(killed) == KILLS
        assert {name for names in killed for name in names.split("+")} == set(cluster.names())
        assert len(cluster.accepted) == JOBS_PER_KILL * KILLS
        assert cluster.wait_for_end() == []
    finally:
        cluster.stop()


def test_a_campaign_goes_on_where_it_was_cut_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played: list[tuple[int, int]] = []

    def play(seed: int, kills: int, folder: Path) -> Round:
        played.append((seed, kills))
        return Round(seed, kills, ["manager+node-0"] * kills, 2 * kills, ["lost"] * (seed == 8), 1.5)

    monkeypatch.setattr("bench.campaign.play", play)
    state = tmp_path / "rounds.jsonl"
    campaign(20, 7, state)
    with state.open("a") as stream:
        stream.write('{"seed": 9, "kil')  # cut short while it was written
        stream.write("\n")
    rounds = campaign(35, 7, state)
    assert played == [(7, 10), (8, 10), (9, 10), (10, 5)]
    assert summary(rounds) == {
        "kills": 35,
        "processes_killed": 70,
        "rounds": 4,
        "jobs": 70,
        "problems": ["seed 8: lost"],
        "wall_s": 6.0,
    }
