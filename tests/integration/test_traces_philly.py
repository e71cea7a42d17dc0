"""The Philly trace: exact without queueing, and the same jobs under every policy with it."""

import os
from pathlib import Path

import pytest

from placement.interference import NoInterference
from placement.report import Metrics
from simulator.cluster_spec import load_cluster
from simulator.engine import SimulationOptions, simulate
from simulator.traces import ReadOptions, read_trace

DATA = Path(os.environ.get("COTENANT_DATA") or Path(__file__).parents[3] / "shared" / "data")
PHILLY = DATA / "philly" / "philly_jobs_sia.csv.gz"

pytestmark = pytest.mark.skipif(not PHILLY.is_file(), reason=f"needs {PHILLY.name} under COTENANT_DATA")


def replay(policy: str, limit: int) -> tuple[Metrics, float]:
    """The metrics, and the mean duration in the trace in seconds."""
    rows = read_trace(PHILLY, ReadOptions(limit=limit)).rows
    options = SimulationOptions(policy, truth=NoInterference(), belief=NoInterference())
    metrics = simulate(rows, load_cluster("64x8xV100-SXM2-32GB"), options).metrics
    return metrics, sum(row.duration_s or 0.0 for row in rows) / len(rows)


@pytest.mark.parametrize("policy", ["fifo", "backfill", "best-fit", "spread", "random", "srtf"])
def test_without_queueing_mean_completion_time_is_mean_duration(policy):
    """The first 1,000 jobs never ask for more than the cluster has."""
    metrics, mean_s = replay(policy, 1000)
    assert metrics.avg_jct_s == mean_s
    assert (metrics.jobs_completed, metrics.avg_wait_s, metrics.preemptions) == (1000, 0, 0)


def test_with_queueing_all_jobs_complete_and_who_knows_durations_does_best():
    by_policy = {policy: replay(policy, 8000)[0] for policy in ("fifo", "backfill", "srtf")}
    assert {metrics.jobs_completed for metrics in by_policy.values()} == {8000}
    assert {metrics.promises_broken for metrics in by_policy.values()} == {0}
    jct = {policy: metrics.avg_jct_s for policy, metrics in by_policy.items()}
    assert jct["srtf"] < jct["backfill"] < jct["fifo"]
    assert by_policy["srtf"].preemptions > 0
