"""A tenant's own shared GPUs, where strangers may not go: a job of the tenant finds room on any of them."""

from __future__ import annotations

import pytest

from placement.interference import AdditiveInterference
from placement.model import (
    Gpu,
    Isolation,
    Job,
    JobSubmitted,
    Mode,
    Node,
    NodeJoined,
    Profile,
    ProfileDefined,
    Request,
)
from placement.options import OWN_SIGHT, Options
from placement.policies import policy_named
from placement.scheduler import Scheduler

GIB = 1 << 30
NODES = 5 * OWN_SIGHT
BUSY = Profile("busy", sm_milli=300, dram_milli=300)


def job(number: int, max_slowdown: float | None) -> Job:
    share = Request(
        compute_milli=300,
        memory_bytes=GIB,
        modes=frozenset({Mode.MPS}),
        isolation=Isolation.TENANT,
        max_slowdown=max_slowdown,
    )
    return Job(f"job-{number:03}", share, 0.0, number, tenant="red", profile="busy", preemptible=False)


def full_but_for(free: int, policy: str, options: Options) -> tuple[Scheduler, str]:
    """A scheduler on whose nodes a job of the tenant sits that bears no neighbour, but for one that does."""
    scheduler = Scheduler(policy_named(policy), AdditiveInterference(), options)
    nodes = [Node(f"n{i:03}", (Gpu(f"g{i:03}", "V100-SXM2-32GB", 32 * GIB),)) for i in range(NODES)]
    scheduler.step([ProfileDefined(BUSY), *map(NodeJoined, nodes)], 0.0)
    scheduler.step([JobSubmitted(job(i, None if i == free else 1.01)) for i in range(NODES)], 1.0)
    (patient,) = (record for record in scheduler.records() if record.job.request.max_slowdown is None)
    assert all(record.assignments for record in scheduler.records())
    return scheduler, patient.assignments[0].node_id


@pytest.mark.parametrize("exact", [False, True], ids=["default", "exact"])
@pytest.mark.parametrize("policy", ["best-fit", "cotenant", "fgd", "random"])
@pytest.mark.parametrize("free", [0, NODES // 2, NODES - 1])
def test_a_job_finds_the_one_own_place_that_welcomes_it(free, policy, exact):
    """There are several times as many as are looked at first, and all others refuse."""
    scheduler, node_id = full_but_for(free, policy, Options(exact=exact, compiled=False))
    scheduler.step([JobSubmitted(job(500, None)), JobSubmitted(job(501, None))], 2.0)
    placed = {record.job.job_id: record.assignments for record in scheduler.records()}
    assert [a.node_id for name in ("job-500", "job-501") for a in placed[name]] == [node_id] * 2
