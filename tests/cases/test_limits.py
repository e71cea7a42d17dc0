"""Amounts and numbers at and beyond what the core can tell apart."""

from __future__ import annotations

import itertools

import pytest

from placement.interference import AdditiveInterference
from placement.lifecycle import JobState
from placement.model import (
    Devices,
    ExitCause,
    Gpu,
    InvalidAmount,
    InvalidSpec,
    Job,
    JobSubmitted,
    Node,
    NodeFenced,
    NodeJoined,
    NodeLost,
    Request,
    WorkerExited,
)
from placement.model.amounts import MAX_BYTES
from placement.model.hardware import MAX_GPUS_PER_NODE
from placement.options import Options
from placement.policies import policy_named
from placement.scheduler import Scheduler
from tests.cases.desk import GIB, MPS, Desk, node

PLACEMENTS = ("cotenant", "fgd", "best-fit", "random", "miso", "hived")


def scheduler(policy: str) -> Scheduler:
    return Scheduler(policy_named(policy), AdditiveInterference(), Options(compiled=False))


@pytest.mark.parametrize("policy", PLACEMENTS)
def test_more_kinds_of_gpu_than_a_mask_has_bits(policy):
    """A kind is a model with its memory; none is forgotten."""
    core = scheduler(policy)
    for kind in range(70):
        core.step([NodeJoined(Node("n", (Gpu("g", "A100-SXM4-80GB", 80 * GIB - kind),)))], float(kind))
    core.step([JobSubmitted(Job("j", Request(), 70.0, 1))], 70.0)
    assert core.record("j").state is JobState.STARTING


def test_a_node_with_more_gpus_than_can_be_told_apart_is_refused():
    gpus = tuple(Gpu(f"g{i}", "A100-SXM4-80GB", GIB) for i in range(MAX_GPUS_PER_NODE + 1))
    with pytest.raises(InvalidSpec, match="65 GPUs; at most 64"):
        Node("n", gpus)
    assert len(Node("n", gpus[:-1]).gpus) == MAX_GPUS_PER_NODE


def test_a_node_that_names_a_gpu_twice_is_refused():
    with pytest.raises(InvalidSpec, match="names GPU 'u' more than once"):
        Node("n", (Gpu("u", "A100-SXM4-80GB", GIB), Gpu("u", "A100-SXM4-80GB", GIB)))


@pytest.mark.parametrize("policy", PLACEMENTS)
def test_the_largest_amounts_overflow_nowhere(policy):
    request = Request(
        gpus=2,
        compute_milli=1,
        modes=MPS,
        memory_bytes=MAX_BYTES,
        cpu_milli=MAX_BYTES,
        ram_bytes=MAX_BYTES,
        devices=Devices.SAME,
    )
    core = scheduler(policy)
    core.step([NodeJoined(Node("n", (Gpu("g", "G2"),)))], 0.0)
    core.step([JobSubmitted(Job("j", request, 0.0, 1))], 1.0)
    assert core.record("j").state in (JobState.STARTING, JobState.REJECTED)


def test_more_memory_than_an_amount_may_be_is_refused():
    with pytest.raises(InvalidAmount):
        Request(memory_bytes=MAX_BYTES + 1)


ENDS = WorkerExited("a", 1, 0, ExitCause.EXITED, 0)


@pytest.mark.parametrize("events", [*itertools.permutations([ENDS, NodeLost("n"), NodeFenced("n")])])
def test_who_ends_in_the_moment_in_which_its_node_is_given_up_has_ended(events):
    desk = Desk("best-fit", (node("n", "1xV100-SXM2-32GB"),))
    desk.submit("a")
    desk.tell(*events)
    assert desk.scheduler.record("a").state is JobState.SUCCEEDED


def test_jobs_that_name_a_profile_that_nobody_knows_are_not_those_that_name_none():
    """Although they share the very same request."""
    request = Request(compute_milli=100, modes=MPS)
    core = scheduler("best-fit")
    unknown = [JobSubmitted(Job(name, request, 0.0, i, profile="nobody")) for i, name in enumerate("ab")]
    core.step([*unknown, JobSubmitted(Job("c", request, 0.0, 2))], 0.0)
    search = core._search
    alone, crowded = (search.demand(core.record(name).job, None) for name in "ca")
    assert search.bounded(alone)
    assert not search.bounded(crowded)
