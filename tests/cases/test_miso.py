"""The placement `miso`: slices by speed, against an exhaustive search, and what happens at its edges."""

from __future__ import annotations

import copy
import itertools
import random

import pytest

from placement import repartition
from placement.interference import NoInterference
from placement.lifecycle import JobState
from placement.model import NodeLost, Profile, ProfileDefined, Request
from placement.options import Options
from placement.partition import geometry_of, legal_sets
from placement.policies.miso import usual_speed
from placement.scheduler import Scheduler
from placement.trace import TraceRow
from simulator.cluster_spec import load_cluster
from simulator.engine import SimulationOptions, simulate
from tests.cases.desk import GIB, MPS, Desk, began, exited, mig, node, stopped, whole

A100, V100 = "A100-SXM4-80GB", "V100-SXM2-32GB"
ANY = Request()
ONE, MIXED = (node("a", f"1x{A100}"),), (node("a", f"1x{A100}"), node("v", f"1x{V100}"))


@pytest.fixture(autouse=True)
def nobody_needs_to_settle(monkeypatch):
    monkeypatch.setattr(repartition, "SETTLED_S", 0.0)


def settle(desk: Desk) -> None:
    """Whoever is to move does, and all who start run."""
    while True:
        records = list(desk.scheduler.records())
        events = [stopped(r.job.job_id, attempt=r.attempt) for r in records if r.next_place]
        events += [began(r.job.job_id, attempt=r.attempt) for r in records if r.state is JobState.STARTING]
        if not events:
            return
        desk.tell(*events)


def slices(desk: Desk, *jobs: str) -> str:
    return " ".join(desk.holds(job_id).split(":", 1)[1] if desk.holds(job_id) else "-" for job_id in jobs)


SEVEN = " ".join(f"1g.10gb@{start}" for start in (3, 5, 1, 2, 0, 6, 4)) + " -"

# requests in the order of arrival, and what each holds at last
ARRIVALS = {
    "one alone has the whole GPU": (ONE, [ANY], "7g.80gb@0"),
    "two share as 4 and 3": (ONE, [ANY, ANY], "4g.40gb@0 3g.40gb@4"),
    "three as 2, 3 and 2: one is moved twice": (ONE, [ANY, ANY, ANY], "2g.20gb@2 3g.40gb@4 2g.20gb@0"),
    "small ones until no slice is left": (ONE, [Request(memory_bytes=5 * GIB)] * 8, SEVEN),
    "a named slice is what it gets": (ONE, [mig("1g.10gb"), ANY], "1g.10gb@6 4g.40gb@0"),
    "nothing while nothing is gained": (ONE, [ANY, mig("1g.10gb")], "7g.80gb@0 -"),
    "no less memory than it needs": (
        ONE,
        [ANY, Request(memory_bytes=39 * GIB)],
        "4g.40gb@0 3g.40gb@4",
    ),
    "no less compute than it asks for": (ONE, [ANY, Request(compute_milli=500)], "3g.40gb@4 4g.40gb@0"),
    "whole GPUs for those who take no slices": (MIXED, [ANY, whole(1)], "7g.80gb@0 exclusive:1000"),
    "nobody with a promise is given less": (
        ONE,
        [Request(max_slowdown=1.5, memory_bytes=30 * GIB), ANY],
        "3g.40gb@4 4g.40gb@0",
    ),
}


@pytest.mark.parametrize(("nodes", "requests", "held"), ARRIVALS.values(), ids=ARRIVALS)
def test_who_gets_which_slice(nodes, requests, held):
    desk = Desk("backfill+miso", nodes)
    jobs = [f"j{i}" for i in range(len(requests))]
    for job_id, request in zip(jobs, requests, strict=True):
        desk.submit(job_id, request)
        settle(desk)
    assert slices(desk, *jobs) == held


def test_nobody_is_moved_for_one_that_will_not_wait():
    desk = Desk("backfill+miso", ONE)
    desk.submit("a", ANY)
    assert desk.submit("b", ANY, immediate=True) == []
    assert desk.state("b") is JobState.REJECTED


def test_one_that_accepts_neither_slices_nor_whole_gpus_is_rejected():
    desk = Desk("backfill+miso", ONE)
    desk.submit("shares", Request(compute_milli=100, modes=MPS))
    assert desk.state("shares") is JobState.REJECTED


def test_a_slice_that_is_given_back_goes_to_one_that_waits():
    desk = Desk("backfill+miso", ONE)
    desk.tell(desk.job("a", ANY), desk.job("b", mig("1g.10gb")))
    assert desk.waiting() == ["b"]
    assert desk.tell(exited("a")) == ["start b.0 a-0"]


@pytest.mark.parametrize("seed", range(12))
def test_with_oracle_speeds_and_no_hurry_the_partition_is_the_exhaustive_optimum(seed, monkeypatch):
    """Where gains last for ever no move is too dear, so the sum of speeds is the best that there is."""
    monkeypatch.setattr(repartition, "HORIZON_S", 1e9)
    draw, geometry = random.Random(seed), geometry_of(A100)
    names = [cut.name for cut in geometry.profiles if not cut.media]
    speeds = [
        {name: 1.0 if name == "7g.80gb" else draw.uniform(0.05, 0.99) for name in names}
        for _ in range(draw.randint(2, 4))
    ]
    desk = Desk("backfill+miso", ONE)
    for i, known in enumerate(speeds):
        rates = {A100: 10.0, **{f"{A100}/{name}": 10.0 * speed for name, speed in known.items()}}
        desk.tell(ProfileDefined(Profile(f"p{i}", rates)))
        desk.submit(f"j{i}", ANY, profile=f"p{i}")
        settle(desk)
    held = [slices(desk, f"j{i}").split("@")[0] for i in range(len(speeds))]
    reached = sum(known.get(name, 0.0) for known, name in zip(speeds, held, strict=True))
    assert reached == pytest.approx(best_sum(geometry, speeds))
    holding = [i for i, name in enumerate(held) if name != "-"]
    if len(holding) == len(speeds):  # nobody waits for what one gives back
        gone = draw.choice(holding)
        desk.tell(exited(f"j{gone}", attempt=desk.scheduler.record(f"j{gone}").attempt))
        settle(desk)
        others = [i for i in holding if i != gone]
        reached = sum(speeds[i][slices(desk, f"j{i}").split("@")[0]] for i in others)
        assert reached == pytest.approx(best_sum(geometry, [speeds[i] for i in others], everybody=True))


def best_sum(geometry, speeds: list[dict[str, float]], *, everybody: bool = False) -> float:
    """The greatest sum of speeds of any legal partition, by trying all."""
    names = speeds[0].keys()
    return max(
        sum(known[name] for known, name in zip(some, order, strict=True))
        for count in range(len(speeds) if everybody else 1, len(speeds) + 1)
        for some in itertools.combinations(speeds, count)
        for order in {
            order
            for found in legal_sets(geometry)
            if len(found) == count and all(instance.profile in names for instance in found)
            for order in itertools.permutations(instance.profile for instance in found)
        }
    )


# jobs that share one GPU in the order of arrival, who ends, and what the others hold then
ENDS = {
    "the one left has the whole GPU": ([ANY, ANY], ["j0"], "7g.80gb@0"),
    "two left as 4 and 3": ([ANY, ANY, ANY], ["j1"], "3g.40gb@4 4g.40gb@0"),
    "one after the other": ([ANY, ANY, ANY], ["j1", "j2"], "7g.80gb@0"),
    "a named slice stays what it is": ([mig("1g.10gb"), ANY], ["j1"], "1g.10gb@6"),
    "a job with a promise stays where it is": (
        [Request(max_slowdown=1.5, memory_bytes=30 * GIB), ANY],
        ["j1"],
        "3g.40gb@4",
    ),
}


def ended(desk: Desk, job_id: str) -> list[str]:
    """What is ordered when a job ends."""
    return desk.tell(exited(job_id, attempt=desk.scheduler.record(job_id).attempt))


def sharing(requests: list[Request], nodes=ONE, **fields) -> Desk:
    desk = Desk("backfill+miso", nodes)
    for i, request in enumerate(requests):
        desk.submit(f"j{i}", request, **fields)
        settle(desk)
    return desk


@pytest.mark.parametrize(("requests", "gone", "held"), ENDS.values(), ids=ENDS)
def test_who_gets_a_larger_slice_when_a_neighbour_ends(requests, gone, held):
    desk = sharing(requests)
    for job_id in gone:
        ended(desk, job_id)
        settle(desk)
    assert slices(desk, *(f"j{i}" for i in range(len(requests)) if f"j{i}" not in gone)) == held
    assert desk.tell() == []


@pytest.mark.parametrize(
    ("fields", "orders"),
    [
        ({}, ["stop j1.0 moved"]),
        ({"duration_s": 1000.0}, ["stop j1.0 moved"]),
        ({"duration_s": 60.0}, []),  # the gain of 0.37 would be over before it has made good for the move
        ({"preemptible": False}, []),
    ],
)
def test_a_larger_slice_must_be_worth_the_move(fields, orders):
    desk = sharing([mig("4g.40gb"), ANY], **fields)
    assert slices(desk, "j1") == "3g.40gb@4"
    assert ended(desk, "j0") == orders


def test_nobody_moves_before_it_has_settled(monkeypatch):
    desk = sharing([ANY, ANY])
    monkeypatch.setattr(repartition, "SETTLED_S", 60.0)
    assert ended(desk, "j0") == []


def test_who_waits_comes_before_who_has_a_slice():
    large = Request(memory_bytes=30 * GIB)
    desk = sharing([large, large])
    desk.submit("w", large)
    assert desk.waiting() == ["w"]
    assert ended(desk, "j0") == ["start w.0 a-0"]


def test_only_where_something_was_freed():
    pair = node("a", f"1x{A100}"), node("b", f"1x{A100}")
    desk = sharing([ANY] * 4, pair)
    where = {job_id: desk.holds(job_id)[0] for job_id in ("j0", "j1", "j2", "j3")}
    gone = next(job_id for job_id in where if list(where.values()).count(where[job_id]) == 2)
    (left,) = (job_id for job_id in where if job_id != gone and where[job_id] == where[gone])
    assert ended(desk, gone) == [f"stop {left}.0 moved"]


def test_nobody_is_given_more_on_a_node_that_is_lost():
    desk = sharing([ANY, ANY, ANY])
    assert desk.tell(NodeLost("a"), exited("j1", attempt=desk.scheduler.record("j1").attempt)) == []


def test_a_restored_scheduler_gives_the_same_larger_slices():
    desk = sharing([ANY, ANY, ANY])
    old = desk.scheduler
    restored = Scheduler.restore(
        old.policy, old.belief, copy.deepcopy(old.snapshot()), Options(compiled=False)
    )
    orders = ended(desk, "j1")
    desk.scheduler = restored
    assert ended(desk, "j1") == orders != []


@pytest.mark.parametrize(
    ("part", "speed"), [(0, 0), (1 / 7, 0.30), (1 / 4, 0.4125), (3 / 7, 0.63), (4 / 7, 0.70), (1, 1.0)]
)
def test_the_usual_speed_is_measured_or_between_what_was_measured(part, speed):
    assert usual_speed(part) == pytest.approx(speed)


def test_a_simulation_to_the_end():
    """Four jobs on one GPU, a minute and more apart: all end, some are moved, and the runs are equal."""
    rows = [TraceRow(f"j{i}", 100.0 * i, ANY, 400.0) for i in range(4)]
    options = SimulationOptions(
        "backfill+miso", truth=NoInterference(), belief=NoInterference(), keep_decision_log=True
    )
    one, other = (simulate(rows, load_cluster(f"1x1x{A100}"), options) for _ in range(2))
    assert {outcome.state for outcome in one.outcomes} == {JobState.SUCCEEDED}
    assert any("moved" in line for line in one.decision_log)
    assert one.decision_log == other.decision_log
