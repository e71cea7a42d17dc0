"""Strict FIFO on a contended window of Philly, against a reference that shares no code with the core."""

import csv
import datetime
import gzip
import heapq
import os
from pathlib import Path

import pytest

from placement.interference import NoInterference
from simulator.cluster_spec import load_cluster
from simulator.engine import SimulationOptions, simulate
from simulator.traces import ReadOptions, read_trace

DATA = Path(os.environ.get("COTENANT_DATA") or Path(__file__).parents[3] / "shared" / "data")
PHILLY = DATA / "philly" / "philly_jobs_sia.csv.gz"
WINDOW = 9_000
NODES, GPUS_PER_NODE = 64, 8

pytestmark = pytest.mark.skipif(not PHILLY.is_file(), reason=f"needs {PHILLY.name} under COTENANT_DATA")


def philly_window() -> list[tuple[float, float, int]]:
    """(submission, duration, GPUs) of the first jobs, in seconds from the first; read without our reader."""
    with gzip.open(PHILLY, "rt") as lines:
        jobs = [
            (
                datetime.datetime.fromisoformat(line["timestamp"]),
                float(line["duration"]),
                int(line["num_gpus"]),
            )
            for line in csv.DictReader(lines)
        ]
    jobs.sort(key=lambda job: job[0])
    return [((at - jobs[0][0]).total_seconds(), duration, gpus) for at, duration, gpus in jobs[:WINDOW]]


def reference(jobs: list[tuple[float, float, int]]) -> list[tuple[float, float]]:
    """Start and end of every job under strict FIFO, each worker on the fullest node that still holds it."""
    free = [GPUS_PER_NODE] * NODES
    times: list[tuple[float, float]] = []
    ends: list[tuple[float, int, list[tuple[int, int]]]] = []  # time, job, what it holds

    def place(gpus: int) -> list[tuple[int, int]] | None:
        workers = [gpus] if gpus <= GPUS_PER_NODE else [GPUS_PER_NODE] * -(-gpus // GPUS_PER_NODE)
        held = []
        for wanted in workers:
            fitting = [(free[node], node) for node in range(NODES) if free[node] >= wanted]
            if not fitting:
                for node, taken in held:
                    free[node] += taken
                return None
            node = min(fitting)[1]
            free[node] -= wanted
            held.append((node, wanted))
        return held

    def leave_until(now: float) -> None:
        while ends and ends[0][0] <= now:
            for node, taken in heapq.heappop(ends)[2]:
                free[node] += taken

    now = 0.0
    for number, (submitted, duration, gpus) in enumerate(jobs):
        now = max(now, submitted)
        leave_until(now)
        while (held := place(gpus)) is None:
            now = ends[0][0]
            leave_until(now)
        times.append((now, now + duration))
        heapq.heappush(ends, (now + duration, number, held))
    return times


def test_strict_fifo_equals_the_reference_job_by_job():
    expected = reference(philly_window())
    rows = read_trace(PHILLY, ReadOptions(limit=WINDOW)).rows
    options = SimulationOptions("fifo", truth=NoInterference(), belief=NoInterference())
    outcomes = simulate(rows, load_cluster(f"{NODES}x{GPUS_PER_NODE}xV100-SXM2-32GB"), options).outcomes
    waited = sum(
        start > submitted for (start, _), (submitted, _, _) in zip(expected, philly_window(), strict=True)
    )
    assert waited > WINDOW // 4, "the window must be contended, or it shows nothing"
    assert [(o.first_placed_s, o.ended_s) for o in outcomes] == expected
