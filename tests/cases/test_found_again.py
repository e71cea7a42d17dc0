"""Cases in which the core decided wrongly after the first were mended; each is the smallest history."""

from __future__ import annotations

import copy

import pytest

from placement.decision_log import lines
from placement.model import Node, NodeJoined, Request
from placement.options import Options
from placement.scheduler import Scheduler
from tests.cases.desk import MPS, TIMESLICE, Desk, mps, node, stopped, turn, whole

V100 = "V100-SXM2-32GB"
CPU_TASK = Request(gpus=0, cpu_milli=1000)


def restored(desk: Desk) -> Scheduler:
    old = desk.scheduler
    return Scheduler.restore(old.policy, old.belief, copy.deepcopy(old.snapshot()), Options(seed=desk.seed))


def test_a_job_whose_gpu_was_away_for_a_moment_can_be_pushed_out_again():
    # It was struck off the list of those who can be, and never put on it again.
    there = node("n", f"1x{V100}")
    desk = Desk("srtf", (there,))
    desk.submit("long", duration_s=100.0)
    desk.tell(NodeJoined(Node("n")))
    desk.tell(NodeJoined(there))
    assert desk.submit("short", duration_s=1.0) == ["stop long.0 preempted"]


@pytest.mark.parametrize("again", [False, True], ids=["original", "restored"])
def test_nobody_is_pushed_out_for_a_gpu_that_has_gone(again):
    # The restored scheduler took the GPU that went for one that can be freed, and pushed out in vain.
    there = node("n", f"2x{V100}")
    desk = Desk("srtf", (there,))
    desk.submit("fixed", preemptible=False)
    desk.submit("long", duration_s=100.0)
    desk.tell(NodeJoined(Node("n", there.gpus[:1])))
    if again:
        desk.scheduler = restored(desk)
    assert desk.submit("short", duration_s=1.0) == []


@pytest.mark.parametrize("again", [False, True], ids=["original", "restored"])
def test_a_job_of_two_gpus_one_of_which_has_gone_is_pushed_out_for_the_other(again):
    # Only the restored scheduler did.
    there = node("n", f"2x{V100}")
    desk = Desk("srtf", (there,))
    desk.submit("long", whole(2), duration_s=100.0)
    desk.tell(NodeJoined(Node("n", there.gpus[:1])))
    if again:
        desk.scheduler = restored(desk)
    assert desk.submit("short", duration_s=1.0) == ["stop long.0 preempted"]


def test_a_short_job_with_a_gpu_pushes_out_a_long_one_that_holds_only_the_cpu_it_needs():
    # Victims were looked for among those who hold compute of a GPU.
    desk = Desk("srtf", (node("n", f"1x{V100}", cpu_milli=1000),))
    desk.submit("long", CPU_TASK, duration_s=100.0)
    assert desk.submit("short", whole(1, cpu_milli=1000), duration_s=1.0) == ["stop long.0 preempted"]


def test_two_gpus_in_different_modes_are_no_place_for_two_shares_and_why_says_so():
    # Each GPU fits in one of the modes, so no reason was given at all for a job that waits.
    desk = Desk("backfill", (node("n", f"2x{V100}"),))
    desk.submit("mps", mps(600))
    desk.submit("turn", turn(600))
    assert desk.submit("pair", Request(gpus=2, compute_milli=300, modes=MPS | TIMESLICE)) == []
    assert desk.reasons("pair") != {}


def claiming_for_long() -> Desk:
    """``short`` has claimed the GPU that ``long`` takes 90 s to leave, and has run none of its 100 s."""
    desk = Desk("srtf", (node("n", f"1x{V100}"),))
    desk.submit("long", duration_s=1000.0)
    desk.submit("short", duration_s=100.0)
    desk.tell(at_s=90.0)
    return desk


def test_a_job_that_waits_for_its_place_does_not_come_closer_to_its_end():
    # A claim counted as running: after 87 s of waiting, 13 s seemed left.
    desk = claiming_for_long()
    desk.submit("shorter", duration_s=20.0)
    assert desk.states() == "long stopping, short queued, shorter placed"


def test_a_restored_scheduler_gives_nobody_another_chance_that_the_original_does_not_give():
    # When a claim starts, it has its whole time before it again; who waits was tried only after a restart.
    desk = claiming_for_long()
    desk.submit("shorter", duration_s=20.0)
    desk.tell(stopped("long"))
    again = restored(desk)
    assert lines(again.step((), 99.0), 99.0) == lines(desk.scheduler.step((), 99.0), 99.0)
