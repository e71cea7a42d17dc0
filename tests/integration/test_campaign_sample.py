"""The campaign as `make campaign` runs it, with a few kills."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.killing import JOBS_PER_KILL

ROOT = Path(__file__).parents[2]
KILLS = 2


@pytest.mark.integration
@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_small_campaign_comes_to_its_end_and_finds_nothing(tmp_path):
    state = tmp_path / "rounds.jsonl"
    words = ["--kills", str(KILLS), "--seed", "11", "--state", str(state)]
    done = subprocess.run(
        [sys.executable, "-m", "bench.campaign", *words],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(done.stdout)
    assert (figures["kills"], figures["rounds"], figures["problems"]) == (KILLS, 1, [])
    assert figures["jobs"] == KILLS * JOBS_PER_KILL
    assert [path.name for path in tmp_path.iterdir()] == ["rounds.jsonl"]
    assert [json.loads(line)["seed"] for line in state.read_text().splitlines()] == [11]
