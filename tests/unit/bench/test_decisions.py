"""The benchmark of decisions: its stream, its loop under the eyes of the checker, and its figures."""

from __future__ import annotations

import argparse
import itertools
import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from bench import decisions
from bench.decision_run import BELIEF, Churn, Engine, Plan, check, loss, timings
from bench.decision_stream import (
    ISOLATED_PERCENT,
    KIND_WEIGHTS,
    TEMPLATES,
    Stream,
    StreamKind,
    Wanted,
    build_nodes,
    usual_requests,
)
from placement.cluster import Cluster
from placement.model import Isolation

ROOT = Path(__file__).parents[3]
GPUS = 160


def arrivals(kind: StreamKind, count: int, seed: int = 1) -> list[Any]:
    return list(itertools.islice(Stream(kind, seed), count))


def churn_of(kind: StreamKind, **fields: Any) -> Churn:
    plan = Plan(GPUS, kind, fields.pop("policy", "best-fit"), compiled=False, **fields)
    cluster = Cluster(usual_requests(), BELIEF)
    cluster.set_nodes(build_nodes(GPUS))
    return Churn(
        Engine(cluster, plan, exact=plan.exact), Stream(kind, plan.seed), GPUS * 900, random.Random(plan.seed)
    )


# -- the stream ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", StreamKind)
def test_a_seed_is_a_stream(kind):
    assert arrivals(kind, 200) == arrivals(kind, 200)
    assert arrivals(kind, 200) != arrivals(kind, 200, seed=2)


def test_templates_come_again_and_raw_requests_do_not():
    templates = Counter(each.job.request for each in arrivals(StreamKind.TEMPLATES, 5_000))
    assert len(templates) <= TEMPLATES
    assert templates.most_common(1)[0][1] > 5_000 / TEMPLATES * 5
    assert len({each.job.request for each in arrivals(StreamKind.RAW, 2_000)}) > 1_900


def test_nobody_can_be_known_by_the_identity_of_a_request():
    requests = [each.job.request for each in arrivals(StreamKind.TEMPLATES, 1_000)]
    assert len({id(request) for request in requests}) == len(requests)


def test_the_mix_is_what_was_said():
    got = arrivals(StreamKind.RAW, 5_000)
    kinds = Counter(each.wanted for each in got)
    shares = [each for each in got if each.wanted is Wanted.SHARE]
    percent = [kinds[Wanted.SHARE], kinds[Wanted.SLICE], kinds[Wanted.WHOLE] + kinds[Wanted.GANG]]
    assert [count / 50 for count in percent] == pytest.approx(KIND_WEIGHTS, abs=2)
    isolated = sum(each.job.request.isolation is Isolation.TENANT for each in shares)
    assert 100 * isolated / len(shares) == pytest.approx(ISOLATED_PERCENT, abs=2)
    assert {each.job.request.max_slowdown for each in shares} == {None, 1.25, 1.5, 2.0}
    assert len({each.job.tenant for each in got}) > 190
    assert all(each.job.workers > 1 for each in got if each.wanted is Wanted.GANG)


@pytest.mark.parametrize("gpus", [0, -8, 12])
def test_clusters_have_whole_nodes(gpus):
    with pytest.raises(ValueError, match="multiple of 8"):
        build_nodes(gpus)


def test_half_of_the_nodes_are_of_each_kind():
    models = Counter(node.gpus[0].model for node in build_nodes(GPUS))
    assert models == {"A100-SXM4-80GB": 10, "H100-SXM5-80GB": 10}
    assert all(len(node.gpus) == 8 for node in build_nodes(GPUS))


# -- the loop ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exact", [True, False], ids=["exact", "bounded"])
@pytest.mark.parametrize("kind", StreamKind)
def test_a_full_cluster_stays_full_and_nothing_is_wrong_with_it(kind, exact):
    churn = churn_of(kind, exact=exact)
    churn.fill()
    found = check(churn, build_nodes(GPUS), 300)
    assert (found["violations"], found["first"]) == (0, [])
    held = sum(
        share.compute_milli for each in churn.placed for place in each.assignments for share in place.shares
    )
    assert held == churn.held_milli
    # A whole gang may leave at once: 16 workers of 8 GPUs at most.
    assert GPUS * 900 - 128_000 < held <= GPUS * 900


def test_the_loss_of_an_exact_search_is_none():
    churn = churn_of(StreamKind.RAW, exact=True)
    churn.fill()
    exact = Engine(churn.engine.cluster, Plan(GPUS, StreamKind.RAW, "best-fit", compiled=False), exact=True)
    found = loss(churn, exact, 60)
    assert found["compared"] > 20
    assert (found["mean_score_loss"], found["worse_pct"]) == (0, 0)
    assert (found["extra_no_fits"], found["other_mode"]) == (0, 0)


def test_asking_for_the_loss_leaves_the_cluster_as_it_was():
    probed, plain = churn_of(StreamKind.TEMPLATES), churn_of(StreamKind.TEMPLATES)
    for churn in (probed, plain):
        churn.fill()
    plan = Plan(GPUS, StreamKind.TEMPLATES, "best-fit", compiled=False)
    loss(probed, Engine(probed.engine.cluster, plan, exact=True), 50)
    for _ in range(50):
        plain.step()
    assert [each.assignments for each in probed.placed] == [each.assignments for each in plain.placed]


def test_timings_by_kind():
    churn = churn_of(StreamKind.TEMPLATES)
    steps = [churn.step() for _ in range(40)]
    figures = timings(steps)
    assert figures["steps"] == 40 == sum(each["decisions"] for each in figures["by_kind"].values())
    assert 0 < figures["p50_us"] <= figures["p99_us"] <= figures["max_us"]
    assert figures["no_fits"] == sum(each.assignments is None for each in steps)


# -- the figures ---------------------------------------------------------------------------------------


def run_of(**fields: Any) -> dict[str, Any]:
    """Figures of a run that keeps every limit."""
    kept = {
        "gpus": 100_000,
        "stream": "templates",
        "policy": "cotenant",
        "mode": "bounded",
        "compiled": True,
        "p50_us": 50.0,
        "p99_us": 500.0,
        "wall_p99_us": 600.0,
        "decisions_per_s": 15_000.0,
        "rss_mib": 300.0,
        "no_fits": 3,
        "check": {"decisions": 100, "violations": 0, "first": []},
    }
    return {**kept, **fields}


@pytest.mark.parametrize(
    ("fields", "exceeded"),
    [
        ({}, []),
        ({"p50_us": 100.0}, ["templates, 100000 GPUs: p50_us is 100, not below 100"]),
        ({"p99_us": 1000.5}, ["templates, 100000 GPUs: p99_us is 1000.5, not below 1000"]),
        ({"rss_mib": 601.0}, ["templates, 100000 GPUs: rss_mib is 601, not below 600"]),
        ({"stream": "raw", "p50_us": 199.0, "p99_us": 1999.0}, []),
        ({"stream": "raw", "p50_us": 201.0}, ["raw, 100000 GPUs: p50_us is 201, not below 200"]),
        ({"compiled": False, "p50_us": 499.0, "p99_us": 9000.0}, []),
        ({"compiled": False, "p50_us": 501.0}, ["templates, 100000 GPUs: p50_us is 501, not below 500"]),
        ({"mode": "exact", "p50_us": 9000.0}, []),
        ({"policy": "fgd", "p50_us": 9000.0}, []),
        ({"gpus": 10_000, "p50_us": 9000.0}, []),
        (
            {"policy": "fgd", "check": {"decisions": 9, "violations": 2, "first": []}},
            ["templates, 100000 GPUs: violations is 2, not below 1"],
        ),
    ],
)
def test_what_is_above_its_limit(fields, exceeded):
    assert decisions.exceeded({"runs": [run_of(**fields)], "growth_exponent": {}}) == exceeded


@pytest.mark.parametrize(
    ("p50s_us", "exponent", "exceeded"),
    [((50.0, 50.0), 0.0, []), ((50.0, 99.0), 0.297, []), ((9.9, 99.0), 1.0, ["is 1, not below 0.3"])],
)
def test_growth(p50s_us, exponent, exceeded):
    runs = [run_of(gpus=gpus, p50_us=p50) for gpus, p50 in zip((10_000, 100_000), p50s_us, strict=True)]
    assert decisions.growth(runs[::-1]) == {"templates": exponent}
    found = decisions.exceeded({"runs": runs, "growth_exponent": decisions.growth(runs)})
    assert [line.partition("growth_exponent ")[2] for line in found] == exceeded


def test_one_size_tells_nothing_of_growth():
    assert decisions.growth([run_of()]) == {"templates": None}


@pytest.mark.parametrize(
    ("given", "sizes"),
    [
        ((80,), (80, 8)),
        ((1000,), (1000, 96)),
        ((8,), (8,)),
        ((100_000,), (100_000, 10_000)),
        ((8, 16), (8, 16)),
    ],
)
def test_a_smaller_size_is_run_for_the_growth(given, sizes):
    assert decisions.with_smaller(given) == sizes


@pytest.mark.parametrize("text", ["", "12", "-8", "8,", "many"])
def test_sizes_that_cannot_be(text):
    with pytest.raises(argparse.ArgumentTypeError, match="multiple of 8"):
        decisions.sizes_of(text)


def test_the_table_says_everything():
    lost = {"mean_score": 7.5, "mean_score_exact": 5.0, "worse_pct": 12.5, "compared": 40, "extra_no_fits": 1}
    found = {"decisions": 100, "violations": 1, "first": ["a0: more compute than the GPU has"]}
    figures = {
        "runs": [run_of(loss={**lost, "decisions": 60}, check=found)],
        "growth_exponent": {"templates": 0.123},
    }
    text = "\n".join(decisions.table({**figures, "exceeded": ["templates: x is 2, not below 1"]}))
    for part in ("100000", "15,000", "score 7.5", "has 5.0", "12.5 % of 40", "1 refusals more in 60", "0.12"):
        assert part in text
    for part in ("1 violations in 100", "a0: more compute", "exceeded: templates: x"):
        assert part in text


@pytest.mark.slow
def test_end_to_end():
    command = [sys.executable, "bench/decisions.py", "--gpus", "160", "--policy", "best-fit", "--json"]
    few = ["--steps", "60", "--loss", "10", "--check", "30", "--without-fast"]
    done = subprocess.run([*command, *few], capture_output=True, text=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    figures = json.loads(done.stdout)
    assert [(run["gpus"], run["stream"]) for run in figures["runs"]] == [
        (160, "templates"),
        (16, "templates"),
        (160, "raw"),
        (16, "raw"),
    ]
    wanted = {"policy", "p50_us", "p99_us", "wall_p99_us", "decisions_per_s", "rss_mib", "loss", "check"}
    assert all(wanted <= run.keys() and run["steps"] == 60 for run in figures["runs"])
    assert figures["growth_exponent"].keys() == {"templates", "raw"}


def test_a_policy_that_does_not_exist_is_refused_before_anything_runs(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["decisions.py", "--gpus", "1000", "--policy", "hope"])
    with pytest.raises(SystemExit):
        decisions.main()
    assert "policy 'hope' is unknown" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "value", "least"),
    [("steps", "0", 1), ("steps", "x", 1), ("loss", "-1", 0), ("check", "1.5", 0), ("sight", "0", 1)],
)
def test_numbers_that_make_no_sense_are_refused_before_anything_runs(option, value, least, capsys):
    with pytest.raises(SystemExit):
        decisions.parser().parse_args([f"--{option}={value}"])
    assert f"{value!r}: write a whole number of at least {least}" in capsys.readouterr().err
