"""The default trace under three policies, figure by figure, and the same in another process.

When a change is meant to alter decisions, write the file anew with COTENANT_UPDATE_GOLDEN=1 and explain the
difference in the commit.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

GOLDEN = Path(__file__).with_name("default_trace.json")
POLICIES = "fifo,best-fit,spread"
WALL = ("load_s", "wall_s", "decisions_per_s")
REPOSITORY = Path(__file__).parents[2]


def simulate(hash_seed: str) -> dict:
    """What `cotenant simulate` prints in a process of its own, without wall times and the trace's path."""
    words = [sys.executable, "-m", "cli", "simulate", "--policy", POLICIES, "--seed", "1", "-o", "json"]
    done = subprocess.run(
        words,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    document["trace"]["file"] = Path(document["trace"]["file"]).name
    for run in document["runs"]:
        del run["compile_s"]
        for name in WALL:
            del run["metrics"][name]
    return document


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_figures_are_those_of_last_time_whatever_the_hash_seed(hash_seed):
    document = simulate(hash_seed)
    if os.environ.get("COTENANT_UPDATE_GOLDEN"):
        GOLDEN.write_text(json.dumps(document, indent=2) + "\n")
    assert document == json.loads(GOLDEN.read_text())
