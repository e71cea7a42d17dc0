"""The benchmarks come to their end, say what is above its limit, and become a page."""

from __future__ import annotations

import gzip
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench import all as bench_all
from bench import simulator
from bench.all import BENCHMARKS
from bench.data import PHILLY
from bench.report import page
from tests.unit.bench.conftest import write_fgd

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
    """A data folder whose Philly trace is a handful of made-up jobs, and the experiment of FGD with it."""
    lines = ["timestamp,duration,num_gpus,gpu_time,cluster"]
    lines += [
        f"2017-10-09 06:{number:02d}:03,{90 + 7 * number},{1 << number % 4},0,c{number % 3}"
        for number in range(JOBS)
    ]
    path = tmp_path / PHILLY
    path.parent.mkdir(parents=True)
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    (tmp_path / "fgd").mkdir()
    write_fgd(tmp_path / "fgd")
    return tmp_path


def run(*words: str | Path, status: int = 0, text: str | None = None) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *map(str, words)],
        input=text,
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.skipif(importlib.util.find_spec("scipy") is None, reason="the bound needs the extra solvers")
def test_every_benchmark_comes_to_its_end_and_onto_the_page(sample):
    printed = run("bench.all", "--sample", "--data", sample, "--note", "a sample")
    lines = [json.loads(line) for line in printed.splitlines()]
    assert [line["benchmark"] for line in lines] == list(BENCHMARKS)
    of = {line["benchmark"]: line["figures"] for line in lines}
    assert of["simulator"]["jobs"] == of["simulator-without-fast"]["jobs"] == JOBS
    assert set(of["simulator"]["policies"]) == {"fifo", "srtf"}
    assert {run["check"]["violations"] for run in of["decisions"]["runs"]} == {0}
    assert not any(run["compiled"] for run in of["decisions-without-fast"]["runs"])
    assert list(of["published-fgd"]["workloads"]["default"]) == ["fgd", "cotenant"]
    assert of["fgd-bound"]["workloads"]["default"]["130"]["bound_pct"] > 90
    report = run("bench.report", text=printed)
    assert report == page(lines)
    assert report.count("| `srtf` |") == 2
    assert report.count("a sample.") == 7
    assert "Not measured" not in report
    assert "```" not in report, "each has a section of its own"


def test_a_new_line_takes_the_place_of_the_old_one(tmp_path):
    into = tmp_path / "lines.jsonl"
    for name, figures in (("fgd-bound", "[1]"), ("decisions", "[2]"), ("fgd-bound", "[3]")):
        (tmp_path / "figures.json").write_text(figures)
        run("bench.all", "--into", into, "--figures", f"{name}={tmp_path / 'figures.json'}", "--note", name)
    lines = [json.loads(line) for line in into.read_text().splitlines()]
    assert [(line["benchmark"], line["figures"], line["note"]) for line in lines] == [
        ("decisions", [2], "decisions"),
        ("fgd-bound", [3], "fgd-bound"),
    ]


def test_one_that_fails_is_kept_as_failed_and_the_others_are_run(tmp_path, sample):
    into = tmp_path / "lines.jsonl"
    (sample / "fgd" / "openb_node_list_gpu_node.csv").unlink()
    words = ["bench.all", "--sample", "--data", sample, "--into", into, "published-fgd", "simulator"]
    run(*words, status=1)
    lines = [json.loads(line) for line in into.read_text().splitlines()]
    assert [(line["benchmark"], line["figures"] is None) for line in lines] == [
        ("simulator", False),
        ("published-fgd", True),
    ]
    assert "## published-fgd\n\nIt failed.\n" in page(lines)


def test_those_without_data_are_skipped_in_one_line(tmp_path, sample, monkeypatch, capsys):
    """What is known of them stays; only who asked for one of them by name has failed."""
    ran = []
    monkeypatch.setattr(bench_all, "run", lambda name, of: (ran.append(name), (of.line(name, [1]), True))[1])
    (sample / PHILLY).unlink()

    def status(*words: str) -> int:
        ran.clear()
        monkeypatch.setattr(sys, "argv", ["all", *words])
        return bench_all.main()

    monkeypatch.setenv("COTENANT_DATA", str(sample))
    assert status() == 0
    assert ran == [name for name in BENCHMARKS if "simulator" not in name]
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == len(ran)
    assert printed.err.startswith("skipped: simulator, simulator-without-fast: their data are expected in ")
    assert f"{sample}; COTENANT_DATA or" in printed.err
    assert printed.err.count("\n") == 1

    into = tmp_path / "lines.jsonl"
    into.write_text('{"benchmark": "simulator", "figures": [7]}\n')
    assert status("--into", str(into), "simulator", "lifetimes") == 1
    assert ran == ["lifetimes"]
    kept = {line["benchmark"]: line["figures"] for line in map(json.loads, into.read_text().splitlines())}
    assert kept == {"simulator": [7], "lifetimes": [1]}


@pytest.mark.parametrize(
    ("name", "needed"),
    [(name, of.needs) for name, of in BENCHMARKS.items() if of.needs is not None],
)
def test_one_without_its_data_says_in_one_line_where_they_are_expected(tmp_path, monkeypatch, name, needed):
    monkeypatch.setenv("COTENANT_DATA", str(tmp_path))
    module = BENCHMARKS[name].module
    for words in ([], ["--data", str(tmp_path)]):
        said = run(module, *words, status=2)
        expected = f": nothing is measured: its data are expected in {tmp_path / needed}; COTENANT_DATA or "
        assert expected in said
        assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["hope"], "there is no benchmark 'hope'; choose among simulator, "),
        (["--figures", "hope=x"], "there is no benchmark 'hope'"),
        (["--figures", "decisions=nowhere.json"], "--figures decisions=nowhere.json: [Errno 2]"),
    ],
)
def test_what_cannot_be_run_or_taken(words, said):
    assert said in run("bench.all", *words, status=2)


def test_the_page_names_cores_limits_and_excess():
    line = {"benchmark": "simulator", "cores": 2, "python": "3.11.9", "note": None}
    text = page(
        [
            {**line, "figures": figures(exceeded=["fifo: wall_s is 9, above 8"])},
            {**line, "benchmark": "simulator-without-fast", "figures": figures(compiled=False)},
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


def of_run(**fields: Any) -> dict[str, Any]:
    run = {"gpus": 100_000, "stream": "raw", "policy": "cotenant", "mode": "bounded", "compiled": True}
    times = {"p50_us": 150.4, "p99_us": 2500.0, "wall_p99_us": 2600.0, "decisions_per_s": 5000.0}
    return {**run, **times, "rss_mib": 433.2, **fields}


def test_the_section_of_decisions():
    loss = {"mean_score": 7.5, "mean_score_exact": 5.0, "worse_pct": 12.5, "compared": 40}
    more = {"loss": {**loss, "extra_no_fits": 1, "decisions": 60}}
    more["check"] = {"decisions": 2000, "violations": 0, "first": []}
    runs = [of_run(**more), of_run(gpus=10_000), of_run(compiled=False), of_run(policy="fgd")]
    measured = {"runs": runs[:2], "growth_exponent": {"raw": 0.123}, "exceeded": ["raw: p99_us is 2500"]}
    line = {"benchmark": "decisions", "cores": 2, "python": "3.11.9", "note": "quiet"}
    text = page([{**line, "figures": measured}])
    assert "## Decisions, with the extra `fast`\n" in text
    assert "on a machine with 2 cores, Python 3.11.9; quiet." in text
    assert (
        "| 100,000 | raw | 150 µs | 200 µs | 2,500 µs | 2,000 µs | 2,600 µs | 5,000 | 433 MiB | 600 MiB |"
        in text
    )
    assert "| 10,000 | raw | 150 µs | - | 2,500 µs | - | 2,600 µs | 5,000 | 433 MiB | - |" in text
    assert "- 100,000 GPUs, raw: bounded answers score 7.5 on average where the full search has 5.0;" in text
    assert "- 100,000 GPUs, raw: 0 violations in 2,000 decisions checked.\n" in text
    assert "- Growth of p50, raw: GPUs to the power of 0.12 (limit 0.3 with `fast`).\n" in text
    assert "**Above its limit: raw: p99_us is 2500.**" in text
    text = page([{**line, "figures": {"runs": runs[2:3], "growth_exponent": {"raw": None}, "exceeded": []}}])
    assert "## Decisions, without the extra `fast`\n" in text
    assert "Growth of p50, raw: not measured: one size" in text
    text = page([{**line, "figures": {"runs": runs[3:], "growth_exponent": {}, "exceeded": []}}])
    assert "Policy `fgd`;" in text
    assert "| 100,000 | raw | 150 µs | - |" in text, "the limits are those of the default policy"


def at(alloc: float | None, published: float | None, frag: float | None = 4.0) -> dict[str, float | None]:
    return {
        "alloc_pct": alloc,
        "published_alloc_pct": published,
        "frag_pct": frag,
        "published_frag_pct": published and 4.1,
    }


def test_the_sections_of_the_experiment_of_fgd():
    curves = {
        "default": {
            "fgd": {"95": at(95.0, 95.25), "100": at(95.5, 95.25)},
            "cotenant": {"100": at(96.3, None)},
        },
        "other": {"fgd": {"100": at(None, 87.0, None), "130": at(90.0, 90.125)}},
    }
    measured = {"workloads": curves, "seeds": [42, 43], "wall_s_per_run": 1.85}
    measured |= {"wall_s": 930.0, "exceeded": ["too far"]}
    bound = {"seed": 42, "workloads": {"default": {"100": {"bound_pct": 96.91, "published_fgd_pct": 95.23}}}}
    bound["workloads"]["other"] = {"110": {"bound_pct": 98.0, "published_fgd_pct": None}}
    line = {"cores": 2, "python": "3.11.9", "note": None}
    text = page(
        [
            {**line, "benchmark": "published-fgd", "figures": measured},
            {**line, "benchmark": "fgd-bound", "figures": bound},
        ]
    )
    for row in (
        "medians of 2 seeds, in brackets the published ones, on a machine with 2 cores, Python 3.11.9.",
        "| workload | fgd | cotenant |\n| --- | ---: | ---: |\n| `default` | 95.50 (95.25) | 96.30 |",
        "| `other` | - (87.00) | - |",
        "| `default` | 4.00 (4.10) | 4.00 |",
        "| `fgd` | - | - | 95.00 (95.25) | 95.50 (95.25) | - | - |",
        "| `fgd` | 0.250 | 0.5 | 0.100 | 0.7 |",
        "| `cotenant` | - | - | - | - |",
        "A run of `fgd` on `default` takes 1.85 s (limit 3 s).",
        "All runs together took 16 minutes (limit 20).",
        "**Above its limit: too far.**",
        "| workload | 100 % arrived | 110 % arrived |",
        "| `default` | 96.91 (95.23) | - |",
        "| `other` | - | 98.00 |",
    ):
        assert row in text
    assert text.count("while pods arrive") == 1, "the whole way is shown of the default workload"


def test_the_page_says_what_was_not_measured():
    line = {"benchmark": "simulator", "cores": 2, "python": "3.11.9", "note": None}
    text = page([{**line, "figures": figures()}])
    absent = ", ".join(f"`{name}`" for name in list(BENCHMARKS)[1:])
    assert text.endswith(
        f'\nNot measured: {absent}. `make performance BENCH_ARGS="simulator-without-fast"` measures one.\n'
    )
    assert page([]).count("How fast the simulator") == 0


def test_the_page_is_that_of_the_lines_beside_it():
    lines = (ROOT / "docs" / "performance.jsonl").read_text(encoding="utf-8").splitlines()
    written = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    assert written == page([json.loads(line) for line in lines]), "run: make performance"


def test_each_section_says_what_was_measured():
    written = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    for section in written.split("\n## ")[1:]:
        title, _, text = section.partition("\n")
        prose = text.partition("\n| ")[0]
        assert len(prose) > 250, title
        assert len(prose.strip().split("\n\n")) >= 2, title
