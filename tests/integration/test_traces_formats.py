"""Every recorded trace of the data folder is recognised, read without a bad line, and replayed."""

import os
from pathlib import Path

import pytest

from placement.interference import NoInterference
from simulator.cluster_spec import load_cluster
from simulator.engine import SimulationOptions, simulate
from simulator.traces import ReadOptions, read_trace

DATA = Path(os.environ.get("COTENANT_DATA") or Path(__file__).parents[3] / "shared" / "data")

pytestmark = pytest.mark.skipif(not (DATA / "gavel").is_dir(), reason="needs the traces under COTENANT_DATA")

TRACES = [  # file, format, rows, jobs that no measured rate covers
    ("philly/philly_jobs_sia.csv.gz", "philly", 56425, 0),
    ("fgd/openb_pod_list_default.csv.gz", "openb", 8152, 0),
    ("fgd/openb_pod_list_cpu250.csv.gz", "openb", 9420, 0),
    ("fgd/openb_pod_list_multigpu20.csv.gz", "openb", 8324, 0),
    ("gavel/traces_msr_seed0/2869ce.trace.gz", "gavel", 533, 179),
    ("gavel/traces_msr_seed0/ed69ec.trace.gz", "gavel", 951, 0),
    ("gavel/traces_physical/max_min_fairness.trace", "gavel", 96, 0),
    ("tiresias/60_job.csv", "tiresias", 60, 0),
]


@pytest.mark.parametrize(("name", "form", "count", "unrated"), TRACES, ids=[trace[0] for trace in TRACES])
def test_recognised_and_read_whole(name, form, count, unrated):
    trace = read_trace(DATA / name, ReadOptions())
    assert (trace.format, len(trace.rows), trace.bad_lines) == (form, count, ())
    assert sum(row.duration_by_model_s == {} for row in trace.rows) == unrated
    assert len(trace.notices) == (unrated > 0)


@pytest.mark.parametrize(
    ("name", "cluster", "rejected"),
    [
        ("gavel/traces_msr_seed0/2869ce.trace.gz", "9x4xv100+9x4xp100+9x4xk80", 179),
        ("gavel/traces_physical/max_min_fairness.trace", "2x8xV100-SXM2-16GB", 0),
        ("tiresias/60_job.csv", "4x8xP100-SXM2-16GB", 0),
    ],
)
def test_replayed_to_the_end(name, cluster, rejected):
    rows = read_trace(DATA / name, ReadOptions()).rows
    options = SimulationOptions("backfill", truth=NoInterference(), belief=NoInterference())
    metrics = simulate(rows, load_cluster(cluster), options).metrics
    assert (metrics.jobs_rejected, metrics.jobs_completed) == (rejected, len(rows) - rejected)


def test_departures_free_what_pods_held():
    path, cluster = DATA / "fgd/openb_pod_list_default.csv.gz", DATA / "fgd/openb_node_list_gpu_node.csv"
    rows = read_trace(path, ReadOptions(options={"departures": "true"})).rows
    options = SimulationOptions("backfill", truth=NoInterference(), belief=NoInterference())
    metrics = simulate(rows, load_cluster(str(cluster)), options).metrics
    assert (metrics.jobs_completed, metrics.jobs_rejected) == (8152, 0)
