"""Cases in which the core once decided wrongly; each is the smallest history that shows it."""

from __future__ import annotations

import copy

import pytest

from placement.decision_log import lines
from placement.lifecycle import JobState
from placement.model import (
    InvalidAmount,
    InvalidInput,
    Job,
    JobCancelled,
    Mode,
    Node,
    NodeFenced,
    NodeJoined,
    NodeLost,
    Profile,
    ProfileDefined,
    Reason,
    Request,
    format_bytes,
    node_from_short_form,
    parse_bytes,
    parse_compute,
    parse_seconds,
)
from placement.model.amounts import MAX_BYTES
from placement.partition import geometry_of
from placement.scheduler import Scheduler
from tests.cases.desk import MIG, MPS, TIMESLICE, Desk, exited, mps, node, stopped, whole

A100, V100 = "A100-SXM4-80GB", "V100-SXM2-32GB"
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


def test_the_largest_amount_of_memory_is_written_so_that_it_can_be_read_again():
    # "4.194e+06Ti", which parse_bytes refuses
    assert parse_bytes(format_bytes(MAX_BYTES)) == MAX_BYTES


@pytest.mark.parametrize(
    "build",
    [
        lambda: Job("job", Request(), 0, 1, time_limit_s=10**400),
        lambda: Request(max_slowdown=10**400),
        lambda: Profile("profile", {"*": 10**400}),
    ],
    ids=["time_limit_s", "max_slowdown", "steps_per_s"],
)
def test_a_whole_number_beyond_every_float_is_refused(build):
    # OverflowError
    with pytest.raises(InvalidInput):
        build()


# -- a node that reports fewer GPUs for a while: jobs on it may still run ------------------------------------


def test_a_gpu_that_was_away_for_a_moment_still_belongs_to_its_job():
    # What the job holds was forgotten when its GPU went; the GPU came back empty and was given away.
    there = node("n", f"1x{V100}")
    desk = Desk("backfill", (there,))
    desk.submit("first")
    desk.tell(NodeJoined(Node("n")), at_s=5.0)
    desk.tell(NodeJoined(there), at_s=6.0)
    assert desk.submit("second") == []


def test_a_gpu_that_stayed_still_belongs_to_a_job_whose_other_gpu_went():
    # One lost GPU made the core forget all that the worker holds.
    there = node("n", f"2x{V100}")
    desk = Desk("backfill", (there,))
    desk.submit("pair", whole(2))
    desk.tell(NodeJoined(Node("n", there.gpus[:1])))
    assert desk.submit("second") == []


def test_cpu_still_belongs_to_a_job_whose_gpu_went():
    there = node("n", f"1x{V100}", cpu_milli=1000)
    desk = Desk("backfill", (there,))
    desk.submit("first", whole(1, cpu_milli=1000))
    desk.tell(NodeJoined(Node("n", (), 1000)))
    assert desk.submit("second", CPU_TASK) == []


def test_a_claim_on_a_gpu_that_has_gone_comes_to_nothing():
    # It was started on a GPU that the node no longer has.
    desk = Desk("srtf", (node("n", f"1x{V100}"),))
    desk.submit("long", duration_s=100.0)
    desk.submit("short", duration_s=1.0)
    desk.tell(NodeJoined(Node("n")))
    assert desk.tell(stopped("long")) == []
    assert desk.state("short") is JobState.QUEUED


# -- pushing out, where jobs share ---------------------------------------------------------------------------


def test_a_short_job_that_wants_a_whole_gpu_pushes_out_one_that_shares_it():
    # Victims were counted by the whole GPUs that they hold; sharers hold none.
    desk = Desk("srtf", (node("n", f"1x{V100}"),))
    desk.submit("long", mps(500), duration_s=100.0)
    assert desk.submit("short", whole(1), duration_s=1.0) == ["stop long.0 preempted"]


def test_as_many_are_pushed_out_as_it_takes_where_free_compute_is_scattered():
    # Free compute of a node was added up over its GPUs; the search for victims stopped at that sum.
    desk = Desk("srtf+spread", (node("n", f"2x{V100}"),))
    for job_id in ("a", "b", "c", "d"):
        desk.submit(job_id, mps(300), duration_s=100.0)
    assert sorted(desk.submit("short", mps(900), duration_s=1.0)) == [
        "stop b.0 preempted",
        "stop d.0 preempted",
    ]


def test_a_short_job_without_gpus_pushes_out_a_long_one():
    # Who holds no GPU compute was never a victim.
    desk = Desk("srtf", (node("n", None, cpu_milli=1000),))
    desk.submit("long", CPU_TASK, duration_s=100.0)
    assert desk.submit("short", CPU_TASK, duration_s=1.0) == ["stop long.0 preempted"]


def test_among_equals_the_last_in_line_is_pushed_out():
    # It was whoever held the first entry of a table.
    desk = Desk("srtf", (node("n", f"2x{V100}"),))
    desk.submit("first")
    desk.submit("second")
    assert desk.submit("short", duration_s=1.0) == ["stop second.0 preempted"]


def test_nobody_waits_for_a_gang_on_a_gpu_that_its_worker_had_left_before():
    # All places of a preempted gang were taken for occupied, also those that it had given back long ago.
    desk = Desk("srtf", (node("n", f"2x{V100}"),))
    desk.submit("gang", workers=2, duration_s=1000.0)
    desk.tell(exited("gang"))
    desk.tell(desk.job("a", duration_s=5.0), desk.job("b", duration_s=6.0))
    desk.tell(exited("a"))
    assert desk.submit("c", duration_s=7.0) == ["start c.0 n-0"]


# -- one mode for the whole gang -----------------------------------------------------------------------------


def test_a_gang_takes_slices_where_shares_would_break_its_promise():
    # The first worker took an MPS share, beside which the second cannot keep its promise; it waited for ever.
    desk = Desk("backfill", (node("n", f"1x{A100}"),), belief="additive")
    desk.tell(ProfileDefined(Profile("busy", sm_milli=400)))
    request = Request(compute_milli=420, modes=MPS | MIG, max_slowdown=1.05)
    assert desk.submit("gang", request, workers=2, profile="busy") == ["start gang.0 n-0", "start gang.1 n-0"]


def test_a_gang_takes_time_slices_where_one_mps_server_has_too_few_clients():
    # Rejected as larger than the cluster could ever hold.
    desk = Desk("backfill", (node("n", f"1x{V100}"),))
    assert len(desk.submit("gang", Request(compute_milli=10, modes=MPS | TIMESLICE), workers=60)) == 60


def test_what_was_free_before_is_offered_too_when_something_else_was_freed():
    # The last in line was told that nothing freed in this step helps it; what did had been free for longer.
    desk = Desk("fifo", (node("m", f"1x{V100}"), node("n", f"2x{V100}")))
    desk.submit("alone")
    for job_id in ("first", "second"):
        desk.submit(job_id)
    desk.submit("next")
    desk.submit("wide", whole(2))
    desk.submit("last")
    assert desk.tell(exited("first")) == ["start next.0 n-0"]
    assert desk.tell(exited("alone")) == []
    assert desk.tell(exited("second"), exited("next")) == ["start wide.0 n-0,n-1", "start last.0 m-0"]


# -- others --------------------------------------------------------------------------------------------------


def test_each_gpu_is_counted_under_the_promise_that_rules_it_out_there():
    # All were counted under the promise at stake in the oldest neighbourhood that was ever ruled out.
    desk = Desk("spread", (node("n", f"2x{V100}"),), belief="additive")
    for name, sm_milli in (("heavy", 900), ("mid", 500), ("light", 100)):
        desk.tell(ProfileDefined(Profile(name, sm_milli=sm_milli)))
    desk.submit("heavy", mps(500), profile="heavy")
    desk.submit("light", mps(500, max_slowdown=1.01), profile="light")
    desk.submit("job", mps(500, max_slowdown=1.1), profile="mid")
    reasons = dict(desk.scheduler.explain("job").reasons)
    assert reasons == {Reason.OWN_PROMISE: 1, Reason.NEIGHBOUR_PROMISE: 1}


def test_a_job_out_of_time_does_not_run_again_because_its_node_was_lost():
    # It went back to the queue with a new time limit.
    desk = Desk("backfill", (node("n", f"1x{V100}"),))
    desk.submit("job", time_limit_s=10.0)
    desk.tell(at_s=20.0)
    desk.tell(NodeLost("n"), NodeFenced("n"))
    assert desk.state("job") is JobState.FAILED


@pytest.mark.parametrize("model", ["P100", "p100"])
def test_a_gpu_model_is_taken_as_it_is_written_where_two_differ_in_case_alone(model):
    # 1xP100 (openb) became p100 (Gavel), for which a profile's or a trace's figures for P100 do not count.
    assert node_from_short_form(f"1x{model}", "n").gpus[0].model == model


def test_a_slice_without_a_start_fits_nowhere():
    # ValueError: negative shift count; a share without a start is looked up as starting at -1.
    geometry = geometry_of(A100)
    assert geometry is not None
    assert geometry.add(0, 0, -1) is None
