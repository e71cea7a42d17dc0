"""The campaign as `make campaign` runs it, with a few kills."""

from __future__ import annotations

import json

import pytest

from bench import campaign
from bench.killing import JOBS_PER_KILL

KILLS = 2


@pytest.mark.integration
@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_small_campaign_comes_to_its_end_and_finds_nothing(tmp_path, monkeypatch, capsys):
    # Whoever edits a file while the tests run has not broken the campaign.
    monkeypatch.setattr(campaign, "source_hash", lambda: "this")
    state = tmp_path / "rounds.jsonl"
    status = campaign.main(["--kills", str(KILLS), "--seed", "11", "--state", str(state)])
    printed = capsys.readouterr()
    assert status == 0, printed.out + printed.err
    figures = json.loads(printed.out)
    assert (figures["kills"], figures["rounds"], figures["problems"]) == (KILLS, 1, [])
    assert figures["jobs"] == KILLS * JOBS_PER_KILL
    assert [path.name for path in tmp_path.iterdir()] == ["rounds.jsonl"]
    assert [json.loads(line)["seed"] for line in state.read_text().splitlines()] == [11]
