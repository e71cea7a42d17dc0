"""Cases in which a restored scheduler once decided otherwise than the one that never died."""

from __future__ import annotations

import copy

from placement.decision_log import lines
from placement.model import Node, NodeJoined, Profile, ProfileDefined
from placement.options import Options
from placement.scheduler import Scheduler
from tests.cases.desk import Desk, exited, mps, node, stopped

V100 = "V100-SXM2-32GB"


def restored(desk: Desk) -> Scheduler:
    old = desk.scheduler
    return Scheduler.restore(old.policy, old.belief, copy.deepcopy(old.snapshot()), Options(seed=desk.seed))


def both(desk: Desk, *events, at_s: float) -> tuple[list[str], list[str]]:
    """The decisions of a restored scheduler and of the one that never died."""
    again = restored(desk)
    return lines(again.step(events, at_s), at_s), lines(desk.scheduler.step(events, at_s), at_s)


def test_a_restored_scheduler_starts_claims_in_the_same_order():
    # Claims were started in the order in which they were made; after restoring, in the order of submission.
    desk = Desk("srtf", (node("n", f"2x{V100}"),))
    desk.submit("gang", workers=2, duration_s=1000.0)
    desk.tell(desk.job("medium", duration_s=50.0), desk.job("short", duration_s=5.0))
    again, old = both(desk, stopped("gang"), stopped("gang", worker=1), at_s=9.0)
    assert again == old


def test_a_restored_scheduler_knows_how_long_a_job_still_runs_that_had_to_wait_for_its_place():
    # It ran 10 of 100 s, so 90 s are left: counted from its claim by the original, from its start after
    # restoring.
    desk = Desk("srtf", (node("n", f"1x{V100}"),))
    desk.submit("long", duration_s=1000.0)
    desk.submit("short", duration_s=100.0)
    desk.tell(stopped("long"), at_s=20.0)
    again, old = both(desk, desk.job("shorter", duration_s=85.0), at_s=30.0)
    assert again == old


def test_how_long_a_job_still_runs_is_counted_from_its_start_not_from_its_claim():
    desk = Desk("srtf", (node("n", f"1x{V100}"),))
    desk.submit("long", duration_s=1000.0)
    desk.submit("short", duration_s=100.0)
    desk.tell(stopped("long"), at_s=20.0)
    assert desk.tell(desk.job("shorter", duration_s=85.0), at_s=30.0) == ["stop short.0 preempted"]


def test_a_restored_scheduler_sees_a_profile_that_was_defined_again_alike():
    # The original judges a running job by the profile at its placement, the restored one by the last.
    desk = Desk("backfill", (node("n", f"1x{V100}"),), belief="additive")
    desk.tell(ProfileDefined(Profile("old", sm_milli=100)), ProfileDefined(Profile("new", sm_milli=500)))
    desk.submit("running", mps(500), profile="old")
    desk.tell(ProfileDefined(Profile("old", sm_milli=900)))
    again, old = both(desk, desk.job("promised", mps(500, max_slowdown=1.1), profile="new"), at_s=9.0)
    assert again == old


def test_a_restored_scheduler_pushes_out_the_same_among_equals():
    desk = Desk("srtf", (node("n", f"2x{V100}"),))
    desk.submit("a")
    desk.submit("b")
    desk.tell(exited("a"))
    desk.submit("c")
    again, old = both(desk, desk.job("short", duration_s=1.0), at_s=9.0)
    assert again == old


def test_a_restored_scheduler_knows_whose_gpu_it_is_when_it_comes_back():
    there = node("n", f"1x{V100}")
    desk = Desk("backfill", (there,))
    desk.submit("first")
    desk.tell(NodeJoined(Node("n")))
    desk.scheduler = restored(desk)
    desk.tell(NodeJoined(there))
    assert desk.submit("second") == []
