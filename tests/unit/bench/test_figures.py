"""The benchmarks come to their end, say what is above its limit, and become a page."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench import simulator
from bench.report import page

ROOT = Path(__file__).parents[3]
JOBS = 40


def figures(**fields: Any) -> dict[str, Any]:
    """Those of a machine that keeps every limit."""
    of = {
        "wall_s": 2.5,
        "jobs_per_s": 22570.0,
        "ratio_to_bare_simpy": 2.0,
        "ratio_to_leanest_simpy": 3.0,
        "bare_simpy_s": 1.0,
    }
    policies = {"fifo": of, "srtf": {**of, "wall_s": 15.0}}
    measured = {"policies": policies, "growth_exponent": 1.05, "jobs": 56425, "cluster": simulator.CLUSTER}
    return {**measured, "compiled": True, "exceeded": [], **fields}


def with_policy(name: str, **fields: float) -> dict[str, Any]:
    known = figures()
    return {**known, "policies": {name: {**known["policies"]["fifo"], **fields}}}


@pytest.mark.parametrize(
    ("measured", "exceeded"),
    [
        (figures(), []),
        (with_policy("fifo", wall_s=8.0), []),
        (with_policy("fifo", wall_s=8.1), ["fifo: wall_s is 8.1, above 8"]),
        (with_policy("backfill", wall_s=8.1), ["backfill: wall_s is 8.1, above 8"]),
        (with_policy("best-fit", wall_s=8.1), ["best-fit: wall_s is 8.1, above 8"]),
        (with_policy("srtf", wall_s=20.0), []),
        (with_policy("srtf", wall_s=20.1), ["srtf: wall_s is 20.1, above 20"]),
        (with_policy("one-of-mine", wall_s=99.0), []),
        (with_policy("fifo", ratio_to_bare_simpy=5.1), ["fifo: ratio_to_bare_simpy is 5.1, above 5"]),
        (with_policy("srtf", ratio_to_bare_simpy=5.1), []),
        (figures(growth_exponent=1.15), []),
        (figures(growth_exponent=1.2), ["growth_exponent is 1.2, above 1.15"]),
        (figures(growth_exponent=None), []),
    ],
)
def test_what_is_above_its_limit(measured, exceeded):
    assert simulator.exceeded(measured) == exceeded


@pytest.mark.parametrize(
    ("words", "excess", "status"),
    [([], [], 0), (["--check"], [], 0), ([], ["too slow"], 0), (["--check"], ["too slow"], 1)],
)
def test_only_a_check_fails_for_a_limit(*, sample, monkeypatch, capsys, words, excess, status):
    monkeypatch.setattr(simulator, "measure", lambda _data, _settings: figures(exceeded=excess))
    monkeypatch.setattr(sys, "argv", ["simulator", "--data", str(sample), "--json", *words])
    assert simulator.main() == status
    assert json.loads(capsys.readouterr().out)["exceeded"] == excess


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """A data folder whose Philly trace is a handful of made-up jobs."""
    lines = ["timestamp,duration,num_gpus,gpu_time,cluster"]
    lines += [
        f"2017-10-09 06:{number:02d}:03,{90 + 7 * number},{1 << number % 4},0,c{number % 3}"
        for number in range(JOBS)
    ]
    path = tmp_path / simulator.TRACE
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    return tmp_path


def test_every_benchmark_comes_to_its_end_and_onto_the_page(sample):
    command = [sys.executable, "-m", "bench.all", "--data", str(sample), "--note", "a sample"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["benchmark"] for line in lines] == ["simulator", "simulator-without-fast"]
    for line in lines:
        assert line["figures"]["jobs"] == JOBS
        assert set(line["figures"]["policies"]) == set(simulator.POLICIES)
    report = subprocess.run(
        [sys.executable, "-m", "bench.report"],
        input=done.stdout,
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    ).stdout
    assert report == page(lines)
    assert report.count("| `srtf` |") == 2
    assert report.count("; a sample.") == 2


def test_the_page_names_cores_limits_and_excess():
    line = {"benchmark": "simulator", "cores": 2, "python": "3.11.9", "note": None}
    text = page(
        [
            {**line, "figures": figures(exceeded=["fifo: wall_s is 9, above 8"])},
            {**line, "figures": figures(compiled=False)},
            {**line, "benchmark": "broken", "figures": None},
            {**line, "benchmark": "another", "figures": {"answers_per_s": 7}},
        ]
    )
    assert "## Simulator, with the extra `fast`\n" in text
    assert "## Simulator, without the extra `fast`\n" in text
    assert "56,425 jobs on `64x8xV100-SXM2-32GB`, on a machine with 2 cores, Python 3.11.9." in text
    assert "| `fifo` | 2.50 s | 8 s | 22,570 | 2.00 x | 5 x |" in text
    assert "| `srtf` | 15.00 s | 20 s | 22,570 | 2.00 x | - |" in text
    assert "jobs to the power of 1.05 (limit 1.15)" in text
    assert "**Above its limit: fifo: wall_s is 9, above 8.**" in text
    assert "## broken\n\nIt failed.\n" in text
    assert '"answers_per_s": 7' in text


def test_the_page_is_that_of_the_lines_beside_it():
    lines = (ROOT / "docs" / "performance.jsonl").read_text(encoding="utf-8").splitlines()
    written = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    assert written == page([json.loads(line) for line in lines]), "run: make performance"
