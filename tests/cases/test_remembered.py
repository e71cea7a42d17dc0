"""What the scheduler remembers between steps is forgotten when it is no longer true, and does not pile up."""

from __future__ import annotations

import pytest

from placement import search
from placement.lifecycle import JobState
from placement.model import NodeJoined, Profile, ProfileDefined
from placement.scheduler import REVIEW_EVERY
from tests.cases.desk import Desk, exited, mps, node, whole

V100, GIB = "V100-SXM2-32GB", 1 << 30


@pytest.mark.parametrize("workers", [1, 2])
def test_what_was_larger_than_the_cluster_is_not_once_a_node_has_come(workers):
    desk = Desk("fifo", (node("a", f"2x{V100}"),))
    desk.submit("early", whole(4), workers=workers)
    desk.submit("again", whole(4), workers=workers)
    desk.tell(NodeJoined(node("b", f"8x{V100}")))
    desk.submit("late", whole(4), workers=workers)
    assert [desk.state(job) for job in ("early", "again", "late")] == [
        *(JobState.REJECTED, JobState.REJECTED, JobState.STARTING)
    ]


def test_what_fitted_is_larger_than_the_cluster_once_there_are_more_workers():
    desk = Desk("fifo", (node("a", f"2x{V100}"),))
    desk.submit("pair", whole(1), workers=2)
    desk.submit("three", whole(1), workers=3)
    assert (desk.state("pair"), desk.state("three")) == (JobState.STARTING, JobState.REJECTED)


def test_what_was_too_large_by_its_profile_is_not_by_another_of_that_name():
    desk = Desk("fifo", (node("a", f"1x{V100}"),))
    for name, memory in (("early", 40), ("late", 4)):
        desk.tell(ProfileDefined(Profile("p", sm_milli=300, memory_bytes=memory * GIB)))
        desk.submit(name, mps(300), profile="p")
    assert (desk.state("early"), desk.state("late")) == (JobState.REJECTED, JobState.STARTING)


def test_neighbourhoods_that_nobody_lives_in_are_given_up_in_time(monkeypatch):
    monkeypatch.setattr(search, "MOST_SET_ASIDE", 8)
    desk = Desk("backfill", (node("a", f"1x{V100}"),))
    for number in range(3 * REVIEW_EVERY):
        desk.submit(f"job-{number}", mps(300, max_slowdown=2 + number))
        desk.tell(exited(f"job-{number}"))
    assert len(desk.scheduler.cluster.neighbourhoods) < 2 * REVIEW_EVERY
