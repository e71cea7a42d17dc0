"""Cases in which the core once decided wrongly; each is the smallest history that shows it."""

from __future__ import annotations

import copy

import pytest

from placement.decision_log import lines
from placement.lifecycle import JobState
from placement.model import (
    InvalidAmount,
    JobCancelled,
    Mode,
    Node,
    NodeJoined,
    Profile,
    ProfileDefined,
    Reason,
    Request,
    parse_bytes,
    parse_compute,
    parse_seconds,
)
from placement.scheduler import Scheduler
from tests.cases.desk import MIG, Desk, exited, mps, node, stopped, whole

V100 = "V100-SXM2-32GB"
CPU_TASK = Request(gpus=0, cpu_milli=1000)

# -- preemption ----------------------------------------------------------------------------------------------


def test_a_claim_starts_after_a_gang_with_two_workers_on_its_node_has_left():
    # The gang was named once per worker among the victims; pushing it out twice lost what it sits on.
    desk = Desk("srtf", (node("n", f"2x{V100}"),))
    desk.submit("gang", workers=2, duration_s=100.0)
    desk.submit("short", whole(2), duration_s=1.0)
    assert desk.tell(stopped("gang"), stopped("gang", worker=1)) == ["start short.0 n-0,n-1"]


def test_pushing_out_a_gang_counts_as_one_decision():
    # Seen with the case above: gang placed, gang pushed out, short placed.
    desk = Desk("srtf", (node("n", f"2x{V100}"),))
    desk.submit("gang", workers=2, duration_s=100.0)
    desk.submit("short", whole(2), duration_s=1.0)
    assert desk.scheduler.decisions == 3


def test_nobody_is_pushed_out_whom_the_gang_leaving_makes_needless():
    # Victims were counted by worker; a gang leaves as a whole, and then its two GPUs are enough.
    desk = Desk("srtf", (node("n", f"3x{V100}"),))
    desk.submit("gang", workers=2, duration_s=100.0)
    desk.submit("longest", duration_s=200.0)
    orders = desk.submit("short", whole(2), duration_s=1.0)
    assert orders == ["stop gang.0 preempted", "stop gang.1 preempted"]


def test_a_worker_that_has_already_left_frees_nothing():
    # Its GPU is held by somebody who stays, so pushing out the rest of the gang does not make room for two.
    desk = Desk("srtf", (node("n", f"2x{V100}"),))
    desk.submit("gang", workers=2, duration_s=100.0)
    desk.tell(exited("gang"))
    desk.submit("fixed", duration_s=500.0, preemptible=False)
    assert desk.submit("short", whole(2), duration_s=1.0) == []


@pytest.mark.parametrize("why", ["cancelled", "time-limit"])
def test_a_job_that_is_being_stopped_is_not_pushed_out_again_and_does_not_come_back(why):
    # The order to leave overwrote the cause, so that a cancelled job went back to the queue and ran again.
    desk = Desk("srtf", (node("n", f"1x{V100}"),))
    desk.submit("long", duration_s=100.0, time_limit_s=50.0)
    if why == "cancelled":
        desk.tell(JobCancelled("long"))
    else:
        desk.tell(at_s=60.0)
    assert [order for order in desk.submit("short", duration_s=1.0) if order.startswith("stop")] == []
    assert desk.tell(stopped("long")) == ["start short.0 n-0"]
    assert desk.state("long") is (JobState.CANCELLED if why == "cancelled" else JobState.FAILED)


def test_a_restored_scheduler_treats_a_job_that_is_being_stopped_alike():
    # Restoring does not count it among those who can be pushed out; the original did.
    desk = Desk("srtf", (node("n", f"1x{V100}"),))
    desk.submit("long", duration_s=100.0)
    desk.tell(JobCancelled("long"))
    old = desk.scheduler
    restored = Scheduler.restore(old.policy, old.belief, copy.deepcopy(old.snapshot()))
    arrival = desk.job("short", duration_s=1.0)
    assert lines(restored.step([arrival], 9.0), 9.0) == lines(old.step([arrival], 9.0), 9.0)


@pytest.mark.parametrize("policy", ["backfill", "srtf"])
def test_a_job_without_gpus_gets_the_cpu_that_another_gives_back(policy):
    # Under srtf only freed GPU compute made a waiting job worth another try; this one waited for ever.
    desk = Desk(policy, (node("n", None, cpu_milli=1000),))
    desk.submit("first", CPU_TASK)
    desk.submit("second", CPU_TASK)
    assert desk.tell(exited("first")) == ["start second.0 n"]


# -- room ----------------------------------------------------------------------------------------------------


def test_a_gang_that_fits_only_if_each_gpu_is_counted_once_per_mode_is_rejected():
    # Room was added up over the modes: one GPU seemed to hold two MPS shares and two time slices at once.
    halves = Request(compute_milli=500, modes=frozenset({Mode.MPS, Mode.TIMESLICE}))
    desk = Desk("backfill", (node("n", f"1x{V100}"),))
    desk.submit("gang", halves, workers=3)
    assert desk.state("gang") is JobState.REJECTED


def test_promises_beside_unknown_neighbours_do_not_depend_on_who_came_first():
    # The model "none" vouches for everybody; it was asked only where the promise came first.
    free, promised = mps(500), mps(500, max_slowdown=1.5)
    placed = []
    for order in ((("free", free), ("promised", promised)), (("promised", promised), ("free", free))):
        desk = Desk("backfill", (node("n", f"1x{V100}"),))
        placed.append({job_id: bool(desk.submit(job_id, request)) for job_id, request in order})
    assert placed[0] == placed[1]


def test_a_promise_in_a_mig_slice_holds_beside_a_slice_of_unknown_behaviour():
    # Slices are apart: the additive model predicts the promised job whatever its neighbour does.
    desk = Desk("backfill", (node("n", "1xA100-SXM4-80GB"),), belief="additive")
    desk.tell(ProfileDefined(Profile("light", sm_milli=100)))
    desk.submit("unknown", Request(modes=MIG, mig_profile="1g.10gb"))
    request = Request(modes=MIG, mig_profile="1g.10gb", max_slowdown=1.5)
    assert len(desk.submit("promised", request, profile="light")) == 1


# -- a node that comes back with fewer GPUs ------------------------------------------------------------------


def test_a_job_on_a_gpu_that_has_gone_can_still_be_explained():
    # KeyError
    desk = Desk("backfill", (node("n", f"1x{V100}"),))
    desk.submit("job", mps(500))
    desk.tell(NodeJoined(Node("n")))
    assert desk.scheduler.explain("job").job_id == "job"


def test_a_scheduler_can_be_restored_with_a_job_on_a_gpu_that_has_gone():
    # KeyError
    desk = Desk("backfill", (node("n", f"1x{V100}"),))
    desk.submit("job")
    desk.tell(NodeJoined(Node("n")))
    old = desk.scheduler
    restored = Scheduler.restore(old.policy, old.belief, copy.deepcopy(old.snapshot()))
    assert restored.record("job").state is JobState.STARTING


# -- explanations --------------------------------------------------------------------------------------------


def behind_a_wide_job() -> Desk:
    """One of two GPUs is busy, the first in line wants both, and ``last`` waits behind it."""
    desk = Desk("fifo", (node("n", f"2x{V100}"),))
    desk.submit("running")
    desk.submit("wide", whole(2))
    desk.submit("last", whole(1, cpu_milli=1))
    return desk


def test_a_job_that_nobody_has_tried_yet_is_explained_by_what_is_there():
    # The first look said that every GPU is shared in another mode; a second look was right.
    desk = behind_a_wide_job()
    assert dict(desk.scheduler.explain("last").reasons) == {Reason.GPU_BUSY: 1, Reason.ORDER: 1}


def test_a_job_behind_others_is_explained_after_a_new_kind_of_gpu_has_joined():
    # IndexError
    desk = behind_a_wide_job()
    desk.scheduler.explain("last")
    desk.tell(NodeJoined(node("m", "1xT4-16GB")))
    assert desk.scheduler.explain("last").candidates == 2


def test_an_immediate_job_behind_others_is_turned_away_with_the_true_reason():
    # The same as the first of these, in the text of a rejection.
    desk = behind_a_wide_job()
    desk.submit("now", whole(1, cpu_milli=2), immediate=True)
    assert "GPU already in use (1)" in desk.scheduler.record("now").failure


def test_memory_that_a_profile_asks_for_is_named_as_the_reason():
    # "no free MIG slice of that profile" on a GPU that has no MIG, for a request that names none.
    desk = Desk("backfill", (node("n", f"1x{V100}"),))
    desk.tell(ProfileDefined(Profile("large", memory_bytes=100 << 30)))
    desk.submit("job", Request(), profile="large")
    assert "not enough GPU memory (1)" in desk.scheduler.record("job").failure


# -- amounts -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parse", "unit"), [(parse_bytes, "Ti"), (parse_compute, ""), (parse_compute, "%"), (parse_seconds, "d")]
)
def test_an_amount_that_overflows_only_with_its_unit_is_refused(parse, unit):
    # OverflowError, and infinite seconds
    with pytest.raises(InvalidAmount):
        parse("1" + "0" * 308 + unit)
