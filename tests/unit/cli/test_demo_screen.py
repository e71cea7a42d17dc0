"""Which moment of the demonstration is drawn, and what its last table compares."""

from __future__ import annotations

import pytest

from cli.demo_jobs import JOBS, Verdict
from cli.demo_screen import result_listing, telling
from cli.tables import plain_table
from cli.top import Picture
from manager.wire import models
from placement.lifecycle import JobState
from tests.unit.cli.conftest import NOW_S, assignment, job_view, share

INFO = models.InfoView(
    version="0", policy="fifo", belief="none", epoch=1, started_s=0.0, now_s=NOW_S, database="sqlite"
)


def _picture(*sizes: int, measured: bool) -> Picture:
    """One GPU for each number of jobs on it."""
    gpus, jobs = [], []
    for slot, size in enumerate(sizes):
        tenancies = []
        for index in range(size):
            name = f"j{slot}-{index}"
            jobs.append(job_view(name, state=JobState.RUNNING))
            tenancies.append(
                models.GpuTenancy(
                    job_id=name, tenant="t", worker=0, state=JobState.RUNNING, share=share(memory_bytes=1)
                )
            )
        gpus.append(
            models.GpuView(
                uuid=f"GPU-{slot}",
                model="A100-SXM4-80GB",
                node_id="sim-0",
                slot=slot,
                memory_bytes=None,
                available=True,
                sm_milli=500 if measured else None,
                memory_used_bytes=1 if measured else None,
                tenancies=tuple(tenancies),
            )
        )
    return Picture(INFO, gpus, jobs)


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        (_picture(1, 1, measured=True), _picture(4, 4, measured=False)),
        (_picture(2, 1, measured=True), _picture(1, 1, measured=True)),
        (_picture(1, 1, measured=True), _picture(1, 0, measured=True)),
    ],
)
def test_a_moment_with_measurements_and_shared_gpus_is_drawn(better, worse):
    assert telling(better) > telling(worse)


def test_the_last_table_compares_the_mean_prediction_with_what_was_observed():
    view = job_view(
        state=JobState.SUCCEEDED,
        assignments=[assignment(share())],
        predicted_slowdown=1.25,
        predicted_upper=1.9,
        observed_slowdown=1.3,
    )
    line = plain_table(result_listing([Verdict(JOBS[0], view)])).splitlines()[1]
    assert line.split()[-2:] == ["1.25x", "1.30x"]
