"""Managers and agents are killed at random moments; every job still ends once, with status and output."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest

import bench.campaign as campaign_module
from bench.campaign import Round, campaign, main, source_hash, summary
from bench.killing import CROWDED, JOBS_PER_KILL, Cluster, kill_round
from placement.model import InvalidInput

KILLS = 20
SEED = 2024


@pytest.mark.integration
@pytest.mark.slow
@pytest.mark.timeout(240)
def test_twenty_kills_lose_nothing_and_run_nothing_twice(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path / "cluster", nodes=CROWDED)
    try:
        cluster.start_all()
        killed = kill_round(cluster, SEED, KILLS)
        assert len(killed) == KILLS
        assert {name for names in killed for name in names.split("+")} == set(cluster.names())
        assert len(cluster.accepted) == JOBS_PER_KILL * KILLS
        assert cluster.wait_for_end() == []
    finally:
        cluster.stop()


@pytest.mark.integration
def test_a_clusters_token_is_its_own_and_stands_in_no_command_line(tmp_path: Path) -> None:
    clusters = [Cluster(tmp_path / name) for name in ("one", "two")]
    try:
        for cluster in clusters:
            cluster.root.mkdir()
            cluster.start("manager")
            cluster.start("node-0")
        tokens = [cluster.token_file.read_text().strip() for cluster in clusters]
        assert tokens[0] != tokens[1]
        for process in (each for cluster in clusters for each in cluster.processes.values()):
            for name in ("cmdline", "environ"):
                shown = (Path("/proc") / str(process.pid) / name).read_text()
                assert not [token for token in tokens if token in shown]
    finally:
        for cluster in clusters:
            cluster.stop()


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Rounds that were played: they are quick here, and seed 8 finds something wrong."""
    played: list[tuple[int, int]] = []

    def play(seed: int, kills: int, folder: Path) -> Round:
        played.append((seed, kills))
        wrong = ["lost"] * (seed == 8)
        return Round(seed, kills, ["manager+node-0"] * kills, 2 * kills, 1, wrong, 1.5, source_hash())

    monkeypatch.setattr("bench.campaign.play", play)
    return played


def test_a_campaign_goes_on_where_it_was_cut_short(tmp_path: Path, played: list[tuple[int, int]]) -> None:
    state = tmp_path / "rounds.jsonl"
    campaign(20, 7, state)
    with state.open("a") as stream:
        stream.write('{"seed": 9, "kil')  # cut short while it was written
    rounds = campaign(35, 7, state)
    assert campaign(35, 7, state) == rounds
    assert played == [(7, 10), (8, 10), (9, 10), (10, 5)]
    assert summary(rounds) == {
        "kills": 35,
        "processes_killed": 70,
        "rounds": 4,
        "jobs": 70,
        "moves": 4,
        "problems": ["seed 8: lost"],
        "wall_s": 6.0,
    }


@pytest.mark.parametrize("stored", ["another", None, 7])
def test_rounds_of_other_source_code_are_not_counted(
    tmp_path: Path,
    played: list[tuple[int, int]],
    capsys: pytest.CaptureFixture[str],
    stored: object,
) -> None:
    state = tmp_path / "rounds.jsonl"
    campaign(10, 7, state)
    state.write_text(json.dumps({**json.loads(state.read_text()), "source": stored}) + "\n")
    assert main(["--kills", "20", "--seed", "7", "--state", str(state)]) == 2
    assert "holds rounds of other source code" in capsys.readouterr().err
    assert played == [(7, 10)]


def test_source_code_that_is_changed_while_it_is_tested_ends_the_campaign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashes = iter(["a", "a", "a", "b", "b"])
    monkeypatch.setattr("bench.campaign.source_hash", lambda: next(hashes))

    def play(seed: int, kills: int, folder: Path) -> Round:
        return Round(seed, kills, ["manager"] * kills, 2, 0, [], 1.0, campaign_module.source_hash())

    monkeypatch.setattr("bench.campaign.play", play)
    state = tmp_path / "rounds.jsonl"
    with pytest.raises(InvalidInput, match="begin anew"):
        campaign(20, 7, state)
    assert state.read_text().count("\n") == 1


def test_a_campaign_begins_anew_unless_it_is_told_where_to_go_on(
    tmp_path: Path, played: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for _ in range(2):
        assert main(["--kills", "10"]) == 0
    assert played == [(0, 10), (0, 10)]
    assert len(list(tmp_path.glob("*/rounds.jsonl"))) == 2


def test_the_hash_of_the_source_sees_every_change_and_no_more(tmp_path: Path) -> None:
    package = tmp_path / "manager" / "store"
    (package / "__pycache__").mkdir(parents=True)
    file = package / "a.py"
    seen = [source_hash(tmp_path)]
    for change in (
        lambda: file.write_text("x = 1"),
        lambda: file.write_text("x = 2"),
        lambda: file.rename(package / "b.py"),
        lambda: (tmp_path / "agent").mkdir() or (tmp_path / "agent" / "b.py").write_text(""),
    ):
        change()
        seen.append(source_hash(tmp_path))
    assert len(set(seen)) == len(seen)
    (package / "__pycache__" / "b.pyc").write_text("x")
    (tmp_path / "notes.txt").write_text("x")
    assert source_hash(tmp_path) == seen[-1]
