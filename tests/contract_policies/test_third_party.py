"""A policy of somebody else: installed by its entry point, then used like those that ship."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "kind-neighbour"
TRACE = """job_id,submit_s,duration_s,gpus,compute_milli,profile
a,0,100,1,400,heavy
b,1,100,1,400,light
c,2,100,1,400,heavy
"""
PROFILES = """profiles:
  heavy: {sm_milli: 900, dram_milli: 900}
  light: {sm_milli: 100, dram_milli: 100}
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """A folder that the example package has been installed into."""
    folder = tmp_path_factory.mktemp("third-party")
    source = shutil.copytree(EXAMPLE, folder / "source")
    target = folder / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    options = ["--no-build-isolation", "--no-index", "--target", str(target), str(source)]
    done = subprocess.run([*pip, *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return target


def cotenant(installed: Path, *words: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(installed), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, "-m", "cli", *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )


@pytest.mark.integration
@pytest.mark.timeout(180)
def test_simulate_knows_it_alone_and_with_an_order(installed, tmp_path):
    (tmp_path / "jobs.csv").write_text(TRACE)
    (tmp_path / "profiles.yaml").write_text(PROFILES)
    done = cotenant(
        installed,
        *("simulate", str(tmp_path / "jobs.csv"), "--cluster", "2x1xV100-SXM2-32GB", "-o", "json"),
        *("--option", f"profiles={tmp_path / 'profiles.yaml'}"),
        *("--policy", "kind-neighbour", "--policy", "srtf+kind-neighbour", "--policy", "packing"),
    )
    assert done.returncode == 0, done.stderr
    runs = {run["policy"]: run["metrics"] for run in json.loads(done.stdout)["runs"]}
    assert [runs[name]["jobs_completed"] for name in runs] == [3, 3, 3]
    # The two heavy jobs are kept apart, which packing does not do.
    assert runs["kind-neighbour"]["mean_slowdown"] < runs["packing"]["mean_slowdown"]


def test_it_is_small():
    lines = (EXAMPLE / "kind_neighbour.py").read_text().splitlines()
    assert len(lines) <= 40
    assert [line for line in lines if line.startswith(("import", "from"))] == ["import cotenant"]
