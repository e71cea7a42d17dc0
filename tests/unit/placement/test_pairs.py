"""Lucid and Gandiva share GPUs in pairs when nothing is free; ParvaGPU serves in slices."""

from __future__ import annotations

import pytest

from placement.model import JobKind, Mode, Profile, ProfileDefined, Request, SpeedObserved
from placement.options import Options
from placement.scheduler import Scheduler
from tests.cases.desk import Desk, began, exited, mps, node, stopped

V100 = "V100-SXM2-32GB"
PROFILES = [
    # name, scores by the limits of planning.packing_score
    Profile("gentle", sm_milli=100, dram_milli=100),  # 0
    Profile("middling", sm_milli=500, dram_milli=300),  # 1
    Profile("harsh", sm_milli=900, dram_milli=700),  # 2
]
PAIRS = [
    # host, newcomer, whether lucid packs them
    ("gentle", "gentle", True),
    ("gentle", "harsh", True),
    ("harsh", "gentle", True),
    ("middling", "middling", True),
    ("middling", "harsh", False),
    ("harsh", "harsh", False),
    (None, "gentle", False),
    ("gentle", None, False),
    (None, None, False),
]


def desk(policy: str, *gpus: str) -> Desk:
    made = Desk(policy, tuple(node(f"n-{i}", text) for i, text in enumerate(gpus)), compiled=False)
    made.tell(*[ProfileDefined(profile) for profile in PROFILES])
    return made


@pytest.mark.parametrize(("host", "newcomer", "packed"), PAIRS)
def test_whom_lucid_packs(host, newcomer, packed):
    lucid = desk("lucid", f"1x{V100}")
    lucid.submit("host", mps(300), profile=host)
    lucid.submit("new", mps(300), profile=newcomer)
    assert bool(lucid.holds("new")) is packed


@pytest.mark.parametrize(("host", "newcomer"), [pair[:2] for pair in PAIRS])
def test_gandiva_tries_every_pair_that_it_can_measure(host, newcomer):
    gandiva = desk("gandiva", f"1x{V100}")
    gandiva.submit("host", mps(300), profile=host)
    gandiva.submit("new", mps(300), profile=newcomer)
    assert bool(gandiva.holds("new")) is (host is not None and newcomer is not None)


@pytest.mark.parametrize("policy", ["lucid", "gandiva"])
def test_free_gpus_come_first_and_three_are_too_many(policy):
    pairs = desk(policy, f"2x{V100}", f"1x{V100}")
    for name in "abcdefg":
        pairs.submit(name, mps(100), profile="gentle")
    assert [pairs.holds(name) for name in "abcdefg"] == [
        *("n-1-0:mps:100", "n-0-0:mps:100", "n-0-1:mps:100"),  # a node that is fuller afterwards first
        *("n-1-0:mps:100", "n-0-0:mps:100", "n-0-1:mps:100"),
        "",
    ]


@pytest.mark.parametrize("policy", ["lucid", "gandiva"])
@pytest.mark.parametrize(("gpus", "workers"), [(2, 1), (1, 2)])
def test_jobs_of_several_gpus_share_nothing(policy, gpus, workers):
    pairs = desk(policy, f"4x{V100}")
    request = Request(gpus=gpus, compute_milli=300, modes=frozenset({Mode.MPS, Mode.EXCLUSIVE}))
    pairs.submit("large", request, workers=workers, profile="gentle")
    assert "mps" not in pairs.holds("large")
    assert pairs.holds("large").count("exclusive") == 2


# -- trials of gandiva --------------------------------------------------------------------------------------


def trial(newcomer_slowdown: float | None, host_slowdown: float | None = 2.0) -> Desk:
    """Two jobs that share a GPU since second 4, and how fast they run."""
    gandiva = desk("gandiva", f"1x{V100}")
    gandiva.submit("host", mps(300), profile="harsh")
    gandiva.tell(gandiva.job("new", mps(300), profile="middling"), at_s=4.0)
    gandiva.tell(
        *(began(name) for name in ("host", "new")),
        SpeedObserved("host", 1, host_slowdown),
        SpeedObserved("new", 1, newcomer_slowdown),
        at_s=4.0,
    )
    return gandiva


@pytest.mark.parametrize(
    ("newcomer", "host", "parted"),
    [
        (2.0, 2.0, []),  # half + half: no less than taking turns
        (1.5, 2.0, []),
        (2.1, 2.0, ["stop new.0 preempted"]),
        (5.0, 5.0, ["stop new.0 preempted"]),
    ],
)
def test_a_pair_that_does_less_than_one_alone_is_parted_after_its_trial(newcomer, host, parted):
    gandiva = trial(newcomer, host)
    assert gandiva.scheduler.next_deadline_s() == 64.0
    assert gandiva.tell(at_s=63.0) == []
    assert gandiva.tell(at_s=64.0) == parted


def test_speeds_count_for_as_long_as_they_last():
    gandiva = trial(1.0)  # 1 + 0.5 for 30 s, then 0.2 + 0.2 for 30 s: 0.95 in all
    gandiva.tell(SpeedObserved("new", 1, 5.0), SpeedObserved("host", 1, 5.0), at_s=34.0)
    assert gandiva.tell(at_s=64.0) == ["stop new.0 preempted"]


def test_a_trial_without_figures_ends_after_three_periods():
    gandiva = trial(None)
    assert [gandiva.tell(at_s=at_s) for at_s in (64.0, 124.0)] == [[], []]
    assert gandiva.tell(at_s=184.0) == ["stop new.0 preempted"]


def test_whoever_was_parted_waits_and_never_meets_that_profile_again():
    gandiva = trial(5.0)
    gandiva.tell(at_s=64.0)
    gandiva.tell(stopped("new"), at_s=65.0)
    assert gandiva.states() == "host running, new queued"
    assert gandiva.scheduler.record("new").preemptions == 1
    gandiva.submit("like-new", mps(300), profile="middling")
    assert gandiva.holds("like-new") == ""
    gandiva.submit("other", mps(300), profile="gentle")
    assert gandiva.holds("other") == "n-0-0:mps:300"
    gandiva.tell(exited("host"), exited("other"))
    assert gandiva.holds("new") == "n-0-0:mps:300"


def test_a_trial_begins_anew_after_a_restart_and_the_later_job_is_the_newcomer():
    gandiva = trial(2.0)
    old = gandiva.scheduler
    gandiva.scheduler = Scheduler.restore(old.policy, old.belief, old.snapshot(), Options(compiled=False))
    gandiva.tell(SpeedObserved("new", 1, 5.0), SpeedObserved("host", 1, 5.0), at_s=30.0)
    gandiva.tell(SpeedObserved("new", 1, 5.0), SpeedObserved("host", 1, 5.0), at_s=40.0)
    assert gandiva.tell(at_s=64.0) == []
    assert gandiva.tell(at_s=90.0) == ["stop new.0 preempted"]


def test_a_speed_of_an_earlier_attempt_counts_for_nothing():
    gandiva = trial(2.0)
    gandiva.tell(SpeedObserved("new", 0, 50.0), SpeedObserved("nobody", 1, 50.0), at_s=5.0)
    assert gandiva.tell(at_s=64.0) == []


# -- parvagpu -----------------------------------------------------------------------------------------------

ANY = frozenset(Mode)


@pytest.mark.parametrize(
    ("kind", "modes", "held"),
    [
        (JobKind.INFERENCE, ANY, "n-0-0:2g.20gb@4"),  # beside the slice that is there, on the fullest GPU
        (JobKind.INFERENCE, frozenset({Mode.MPS, Mode.EXCLUSIVE}), "n-1-0:mps:200"),
        (JobKind.INFERENCE, frozenset({Mode.EXCLUSIVE}), "n-1-0:exclusive:1000"),
        (JobKind.TRAINING, frozenset({Mode.EXCLUSIVE}), "n-1-0:exclusive:1000"),
    ],
)
def test_where_parvagpu_serves(kind, modes, held):
    parva = desk("parvagpu", "1xA100-SXM4-80GB", "1xA100-SXM4-80GB")
    there = Request(modes=frozenset({Mode.MIG}), mig_profile="4g.40gb", gpu_models=("A100",))
    parva.submit("first", there, kind=JobKind.INFERENCE)
    assert parva.holds("first") == "n-0-0:4g.40gb@0"
    parva.submit("job", Request(compute_milli=200, modes=modes), kind=kind)
    assert parva.holds("job") == held
