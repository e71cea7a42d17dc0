"""Who may be whose neighbour: isolation and promises."""

from __future__ import annotations

from dataclasses import replace

import pytest

from placement.model import Isolation, Profile, ProfileDefined, Request
from tests.cases.desk import EXCLUSIVE, MIG, MPS, TIMESLICE, Desk, exited, mig, mps, node, turn

V100, A100 = "V100-SXM2-32GB", "A100-SXM4-80GB"
APART = Isolation.TENANT
PROFILES = [
    Profile("light", sm_milli=200),
    Profile("plain", sm_milli=500),
    Profile("heavy", sm_milli=1000),
    Profile("vague"),
]

# who comes, one by one: (tenant, request) -> slot each gets on one GPU, "-" for who waits
ISOLATION = {
    "nobody asks": ([("red", mps(300)), ("blue", mps(300))], "0 0"),
    "the first asks": ([("red", mps(300, isolation=APART)), ("blue", mps(300)), ("red", mps(300))], "0 - 0"),
    "the second asks": (
        [("red", mps(300)), ("blue", mps(300, isolation=APART)), ("blue", mps(300))],
        "0 - 0",
    ),
    "both ask, same tenant": (
        [("red", mps(300, isolation=APART)), ("red", mps(300, isolation=APART))],
        "0 0",
    ),
    "both ask, two tenants": (
        [("red", mps(300, isolation=APART)), ("blue", mps(300, isolation=APART))],
        "0 -",
    ),
    "among two tenants nobody comes who asks": (
        [("red", mps(200)), ("blue", mps(200)), ("red", mps(200, isolation=APART))],
        "0 0 -",
    ),
    "nor one of the tenant that came last": (
        [("red", mps(200)), ("blue", mps(200)), ("blue", mps(200, isolation=APART))],
        "0 0 -",
    ),
    "time slices too": ([("red", turn(300, isolation=APART)), ("blue", turn(300))], "0 -"),
    "MIG slices are apart anyway": (
        [("red", mig("1g.10gb", isolation=APART)), ("blue", mig("1g.10gb"))],
        "0 0",
    ),
    "hardware: slices stand beside strangers": (
        [("red", mig("1g.10gb", isolation=Isolation.HARDWARE)), ("blue", mig("1g.10gb"))],
        "0 0",
    ),
}


@pytest.mark.parametrize(("comers", "expected"), ISOLATION.values(), ids=ISOLATION)
@pytest.mark.parametrize("policy", ["backfill", "srtf", "spread"])
def test_isolation(comers, expected, policy):
    desk = Desk(policy, (node("n", f"1x{A100}"),))
    for i, (tenant, request) in enumerate(comers):
        desk.submit(f"j{i}", request, tenant=tenant)
    slots = [desk.holds(f"j{i}").partition(":")[0].removeprefix("n-") or "-" for i in range(len(comers))]
    assert " ".join(slots) == expected


def test_a_tenant_apart_goes_to_another_gpu():
    desk = Desk("best-fit", (node("n", f"2x{V100}"),))
    desk.submit("red", mps(300), tenant="red")
    desk.submit("blue", mps(300, isolation=APART), tenant="blue")
    desk.submit("red2", mps(300), tenant="red")
    desk.submit("blue2", mps(300), tenant="blue")
    assert [desk.holds(job_id) for job_id in ("blue", "red2", "blue2")] == [
        "n-1:mps:300",
        "n-0:mps:300",
        "n-0:mps:300",
    ]


def test_those_who_waited_for_a_tenant_apart_come_when_it_has_gone():
    desk = Desk("backfill", (node("n", f"1x{V100}"),))
    desk.submit("red", mps(300, isolation=APART), tenant="red")
    desk.submit("blue", mps(300), tenant="blue")
    desk.submit("green", mps(300), tenant="green")
    assert desk.tell(exited("red")) == ["start blue.0 n-0", "start green.0 n-0"]


def test_who_waited_before_anyone_was_apart_is_known_by_tenant_when_somebody_is():
    desk = Desk("backfill", (node("n", f"1x{V100}"),))
    desk.submit("first", mps(1000), tenant="red")
    desk.submit("apart", mps(300, isolation=APART), tenant="red")
    desk.submit("blue", mps(200), tenant="blue")
    desk.submit("red", mps(200), tenant="red")
    assert desk.tell(exited("first")) == ["start apart.0 n-0", "start red.0 n-0"]
    assert desk.tell(exited("apart")) == ["start blue.0 n-0"]


@pytest.mark.parametrize(
    ("gpu", "modes", "held"),
    [
        (A100, MPS | TIMESLICE | MIG | EXCLUSIVE, "n-0:3g.40gb@4"),
        (A100, MPS | EXCLUSIVE, "n-0:exclusive:1000"),
        (V100, MPS | TIMESLICE | MIG | EXCLUSIVE, "n-0:exclusive:1000"),
    ],
)
def test_isolation_by_hardware_takes_a_slice_or_a_whole_gpu(gpu, modes, held):
    desk = Desk("backfill", (node("n", f"1x{gpu}"),))
    desk.submit("job", Request(compute_milli=300, modes=modes, isolation=Isolation.HARDWARE))
    assert desk.holds("job") == held


def promised(limit: float | None, milli: int = 500) -> Request:
    return mps(milli, max_slowdown=limit)


# belief, who comes one by one: (profile, request) -> "+" placed, "-" waits.  Beside heavy in half a GPU,
# plain is slowed by 0.46 x 0.5 x 0.5 = 0.115, with the margin of a tenth by 0.1265.
PROMISES = {
    "own promise holds": ("additive", [("heavy", promised(None)), ("plain", promised(1.13))], "+ +"),
    "own promise breaks": ("additive", [("heavy", promised(None)), ("plain", promised(1.12))], "+ -"),
    "a neighbour's holds": ("additive", [("plain", promised(1.13)), ("heavy", promised(None))], "+ +"),
    "a neighbour's breaks": ("additive", [("plain", promised(1.12)), ("heavy", promised(None))], "+ -"),
    "a promise beside a stranger": ("additive", [(None, promised(None)), ("plain", promised(9.0))], "+ -"),
    "a stranger beside a promise": ("additive", [("plain", promised(9.0)), (None, promised(None))], "+ -"),
    "a vague one is a stranger": ("additive", [("plain", promised(9.0)), ("vague", promised(None))], "+ -"),
    "an unknown name is a stranger": (
        "additive",
        [("plain", promised(9.0)), ("nobody", promised(None))],
        "+ -",
    ),
    "a stranger who wants a promise in a share": ("additive", [(None, promised(9.0))], "-"),
    "its own share is too small": ("additive", [("heavy", promised(1.5))], "-"),
    "the third breaks the first's": (
        "additive",
        [("plain", promised(1.06, 500)), ("plain", promised(None, 200)), ("plain", promised(None, 200))],
        "+ + -",
    ),
    "belief in no interference": ("none", [("heavy", promised(1.0)), (None, promised(1.0))], "+ +"),
}


@pytest.mark.parametrize(("belief", "comers", "expected"), PROMISES.values(), ids=PROMISES)
@pytest.mark.parametrize("policy", ["backfill", "spread"])
def test_promises(belief, comers, expected, policy):
    desk = Desk(policy, (node("n", f"1x{V100}"),), belief=belief)
    desk.tell(*map(ProfileDefined, PROFILES))
    for i, (profile, request) in enumerate(comers):
        desk.submit(f"j{i}", request, profile=profile)
    assert " ".join("+" if desk.holds(f"j{i}") else "-" for i in range(len(comers))) == expected


def test_a_promise_without_a_profile_needs_a_gpu_alone():
    desk = Desk("backfill", (node("n", f"2x{V100}"),), belief="additive")
    request = Request(compute_milli=500, modes=MPS | EXCLUSIVE, max_slowdown=1.0)
    desk.submit("job", request)
    assert desk.holds("job") == "n-0:exclusive:1000"


def test_who_waited_for_a_neighbour_to_leave_comes_then():
    desk = Desk("backfill", (node("n", f"1x{V100}"),), belief="additive")
    desk.tell(*map(ProfileDefined, PROFILES))
    desk.submit("heavy", promised(None), profile="heavy")
    assert desk.submit("job", promised(1.1), profile="plain") == []
    assert desk.tell(exited("heavy")) == ["start job.0 n-0"]


def test_a_profile_that_becomes_known_is_another_chance():
    desk = Desk("backfill", (node("n", f"1x{V100}"),), belief="additive")
    assert desk.submit("job", promised(1.1), profile="late") == []
    assert desk.tell(ProfileDefined(Profile("late", sm_milli=100))) == ["start job.0 n-0"]


def test_a_profile_that_is_defined_again_counts_from_then_on():
    desk = Desk("backfill", (node("n", f"2x{V100}"),), belief="additive")
    desk.tell(ProfileDefined(Profile("p", sm_milli=100)))
    desk.submit("first", Request(modes=MPS), profile="p")
    desk.tell(ProfileDefined(Profile("p", sm_milli=700)))
    desk.submit("second", Request(modes=MPS), profile="p")
    assert (desk.holds("first"), desk.holds("second")) == ("n-0:mps:100", "n-0:mps:700")


def test_what_was_foreseen_is_kept():
    desk = Desk("backfill", (node("n", f"1x{V100}"),), belief="additive")
    desk.tell(*map(ProfileDefined, PROFILES))
    desk.submit("heavy", mps(500), profile="heavy")
    desk.submit("plain", mps(500), profile="plain")
    records = [desk.scheduler.record(job_id) for job_id in ("plain", "heavy")]
    # heavy: 0.46 x 1 x 0.5, and twice that time because its share is half of what it uses
    assert [record.predicted_slowdown for record in records] == [pytest.approx(1.115), pytest.approx(2.0)]
    assert [record.predicted_upper for record in records] == [pytest.approx(1.1265), pytest.approx(2.606)]
    assert desk.scheduler.explain("heavy").predicted_slowdown == pytest.approx(2.46)
    desk.tell(exited("plain"))
    # a second alone and a second beside plain, in which 1/2 and 1/2.46 s of work are foreseen
    assert records[1].predicted_slowdown == pytest.approx(2 / (1 / 2 + 1 / 2.46))
    assert records[1].predicted_upper == pytest.approx(2.606)
    assert desk.scheduler.explain("heavy").predicted_slowdown == pytest.approx(2.0)
    desk.submit("stranger", mps(100))
    desk.tell(exited("heavy"))
    assert records[1].predicted_slowdown is None


@pytest.mark.parametrize(
    ("rates", "foreseen"),
    [
        ({A100: 10.0, f"{A100}/3g.40gb": 4.0}, 2.5),
        ({A100: 10.0, f"{A100}/3g.40gb": 12.0}, 1.0),
        ({A100: 10.0, f"{A100}/4g.40gb": 4.0}, pytest.approx(0.5 * 1000 / 428)),  # by the model
    ],
)
def test_in_a_slice_what_the_profile_has_of_it_is_foreseen(rates, foreseen):
    desk = Desk("backfill", (node("n", f"1x{A100}"),), belief="additive")
    desk.tell(ProfileDefined(Profile("p", rates, sm_milli=500)))
    desk.submit("j", mig("3g.40gb"), profile="p")
    assert desk.scheduler.record("j").predicted_slowdown == foreseen


@pytest.mark.parametrize(
    ("asked", "limit", "held"),
    [
        (Request(compute_milli=300, modes=MIG), None, "n-0:3g.40gb@4"),
        (Request(compute_milli=300, modes=MIG), 1.5, "n-0:4g.40gb@0"),  # it would be 2.5 times slower in 3/7
        (Request(compute_milli=300, modes=MIG), 1.2, "n-0:7g.80gb@0"),
        (mig("3g.40gb"), 2.5, "n-0:3g.40gb@4"),
        (mig("3g.40gb"), 2.4, ""),
    ],
)
def test_a_promise_is_kept_in_a_slice_as_far_as_the_profile_knows_it(asked, limit, held):
    desk = Desk("backfill", (node("n", f"1x{A100}"),))
    rates = {A100: 10.0, f"{A100}/3g.40gb": 4.0, f"{A100}/4g.40gb": 7.0, f"{A100}/7g.80gb": 10.0}
    desk.tell(ProfileDefined(Profile("p", rates)))
    desk.submit("j", replace(asked, max_slowdown=limit), profile="p")
    assert desk.holds("j") == held
