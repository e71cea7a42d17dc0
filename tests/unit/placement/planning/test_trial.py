"""Pack and revert as stories: events in, decisions out."""

from __future__ import annotations

from random import Random

import pytest

from placement.model import StateError
from placement.planning.trial import (
    Elapsed,
    Keep,
    Left,
    Measured,
    Packed,
    PackTrials,
    Revert,
    TrialEvent,
    TrialJob,
    TrialRules,
)

A, B, C = TrialJob("a"), TrialJob("b"), TrialJob("c")


def told(trials: PackTrials, *events: TrialEvent) -> list[object]:
    return [decision for event in events for decision in trials.step(event)]


def rates(one: float, other: float, at_s: float) -> tuple[Measured, Measured]:
    return Measured("a", one, at_s), Measured("b", other, at_s)


@pytest.mark.parametrize(
    ("events", "decisions"),
    [
        ([Packed(A, B, 0)], []),
        ([Packed(A, B, 0), *rates(0.6, 0.5, 60), Elapsed(60)], [Keep("a", "b", 1.1)]),
        ([Packed(A, B, 0), *rates(0.5, 0.5, 60), Elapsed(60)], [Keep("a", "b", 1.0)]),
        ([Packed(A, B, 0), *rates(0.5, 0.499, 60), Elapsed(60)], [Revert("a", "b", 0.999)]),
        ([Packed(A, B, 0), *rates(0.1, 0.1, 59), Elapsed(59)], []),
        # The mean counts, by time: 20 s at 0.9 and 40 s at 0.3 make 0.5.
        (
            [Packed(A, B, 0), *rates(0.9, 0.6, 20), *rates(0.3, 0.6, 60), Elapsed(60)],
            [Keep("a", "b", 1.1)],
        ),
        # What was measured before the packing or twice at once does not count.
        (
            [Measured("a", 1, 90), Packed(A, B, 100), *rates(9, 9, 100), *rates(0.4, 0.4, 160), Elapsed(160)],
            [Revert("a", "b", 0.8)],
        ),
        ([Packed(A, B, 0), *rates(0.4, 0.4, 60), *rates(9, 9, 30), Elapsed(60)], [Revert("a", "b", 0.8)]),
        # A pair that passed is measured again; it is told once that it may stay.
        (
            [Packed(A, B, 0), *rates(0.6, 0.6, 60), Elapsed(60), *rates(0.7, 0.7, 120), Elapsed(120)],
            [Keep("a", "b", 1.2)],
        ),
        (
            [Packed(A, B, 0), *rates(0.6, 0.6, 60), Elapsed(60), *rates(0.4, 0.4, 120), Elapsed(120)],
            [Keep("a", "b", 1.2), Revert("a", "b", 0.8)],
        ),
        # Silence: three periods without figures of both are enough, but not for a pair that passed.
        ([Packed(A, B, 0), Measured("a", 0.9, 60), Elapsed(60), Elapsed(120)], []),
        (
            [Packed(A, B, 0), Measured("a", 0.9, 60), Elapsed(60), Elapsed(120), Elapsed(180)],
            [Revert("a", "b", None)],
        ),
        (
            [Packed(A, B, 0), Elapsed(60), *rates(0.6, 0.6, 110), Elapsed(120)],
            [Keep("a", "b", 1.2)],
        ),
        ([Packed(A, B, 0), *rates(0.6, 0.6, 60), Elapsed(60), Elapsed(900)], [Keep("a", "b", 1.2)]),
        # Who has left is judged no more.
        ([Packed(A, B, 0), *rates(0.1, 0.1, 60), Left("b", 60), Elapsed(60)], []),
        ([Left("a", 0), Measured("a", 1, 5), Elapsed(60)], []),
    ],
)
def test_a_trial(events, decisions):
    found = told(PackTrials(), *events)
    assert [(type(d), d.newcomer, d.host) for d in found] == [
        (type(d), d.newcomer, d.host) for d in decisions
    ]
    assert [d.rate_sum for d in found] == pytest.approx([d.rate_sum for d in decisions])


def test_it_says_when_it_wants_to_be_woken():
    trials = PackTrials()
    assert trials.due_s() is None
    told(trials, Packed(A, B, 10))
    assert trials.due_s() == 70
    told(trials, Elapsed(70))
    assert trials.due_s() == 130, "silent: once more"
    told(trials, *rates(0.6, 0.6, 130), Elapsed(131))
    assert trials.due_s() == 191
    told(trials, Left("a", 140))
    assert trials.due_s() is None


def test_a_pair_that_failed_is_not_tried_again():
    trials = PackTrials()
    told(trials, Packed(A, B, 0), *rates(0.1, 0.1, 60), Elapsed(60))
    assert not trials.may_try(A, B)
    assert not trials.may_try(B, A)
    assert trials.may_try(A, C)
    with pytest.raises(StateError):
        told(trials, Packed(B, A, 70))
    assert not PackTrials(bad=trials.bad_pairs()).may_try(A, B)
    told(trials, Left("c", 80), Left("a", 85, lives=True))
    assert not trials.may_try(A, B)
    told(trials, Left("a", 90))
    assert trials.may_try(A, B), "another job by the name of a"


def test_kinds_that_failed_are_remembered_for_good():
    trials = PackTrials()
    bert, gnn = TrialJob("x", kind="bert"), TrialJob("y", kind="gnn")
    told(trials, Packed(bert, gnn, 0), Measured("x", 0.1, 60), Measured("y", 0.1, 60), Elapsed(60))
    told(trials, Left("x", 61), Left("y", 62))
    assert trials.bad_pairs() == (("kind", "bert", "gnn"),)
    assert not trials.may_try(TrialJob("v", kind="gnn"), TrialJob("w", kind="bert"))
    assert trials.may_try(TrialJob("v", kind="gnn"), TrialJob("w", kind="gnn"))
    assert trials.may_try(TrialJob("v", kind="gnn"), TrialJob("w"))


def test_silence_is_not_held_against_a_pair():
    trials = PackTrials(TrialRules(silent_periods=1))
    assert told(trials, Packed(A, B, 0), Elapsed(60)) == [Revert("a", "b", None)]
    assert trials.may_try(A, B)


def test_a_job_shares_with_one_other_on_as_many_gpus():
    trials = PackTrials()
    told(trials, Packed(A, B, 0))
    for newcomer, host in ((A, C), (C, B), (C, C), (C, TrialJob("d", gpus=2))):
        assert not trials.may_try(newcomer, host)
    assert trials.may_try(C, TrialJob("d"))


def test_what_stays_together_is_worth_it_under_a_random_adversary():
    """Whatever is measured: nobody shares twice, no failed pair returns, and kept pairs reach the sum."""
    random = Random(3)
    trials = PackTrials()
    jobs = [TrialJob(f"j{i}", gpus=1 + i % 2, kind=None if i % 3 else f"k{i % 5}") for i in range(14)]
    partner: dict[str, str] = {}
    failed: set[frozenset[str]] = set()
    kept = reverted = 0
    for now in range(0, 20_000, 20):
        newcomer, host = random.sample(jobs, 2)
        may = trials.may_try(newcomer, host)
        expected = not {newcomer.job_id, host.job_id} & set(partner) and newcomer.gpus == host.gpus
        assert not may or expected
        assert not (may and frozenset((newcomer.job_id, host.job_id)) in failed)
        if may:
            trials.step(Packed(newcomer, host, now))
            partner |= {newcomer.job_id: host.job_id, host.job_id: newcomer.job_id}
        for job in list(partner):
            trials.step(Measured(job, random.uniform(0.2, 0.9), now))
        for decision in trials.step(Elapsed(now)):
            pair = {decision.newcomer, decision.host}
            assert partner[decision.newcomer] == decision.host
            if isinstance(decision, Keep):
                assert decision.rate_sum >= 1.0
                kept += 1
            else:
                assert decision.rate_sum < 1.0
                reverted += 1
                failed.add(frozenset(pair))
                for job in pair:
                    del partner[job]
    assert kept > 10
    assert reverted > 10
