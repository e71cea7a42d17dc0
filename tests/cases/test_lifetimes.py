"""Where jobs go whose lifetimes are known, and what else depends on that: only what `cotenant` decides."""

from __future__ import annotations

import pytest

from placement import columns as k
from placement.lifetimes import FEWEST
from placement.model import Lifetime
from placement.options import Options
from placement.scheduler import Scheduler
from tests.cases.desk import Desk, exited, mig, mps, node

V100, A100 = "V100-SXM2-32GB", "A100-SXM4-80GB"
HOUR_S = 3600.0
SHORT, LONG = 0.5 * HOUR_S, 50 * HOUR_S


def desk(policy: str = "cotenant", gpus: str = f"2x{V100}") -> Desk:
    return Desk(policy, (node("a", gpus), node("b", gpus)), compiled=False)


@pytest.mark.parametrize("request_", [mps(200), mps(700)], ids=["small", "large"])
@pytest.mark.parametrize(
    ("duration_s", "beside"),
    [(LONG, "lasting"), (None, "brief"), (SHORT, "lasting"), (0.0, "lasting")],
)
def test_a_job_goes_where_it_does_not_outlast_everybody(duration_s, beside, request_):
    """One of whom nothing is known goes to the first of equal places, which is that of the brief one."""
    at = Desk("cotenant", (node("a", f"1x{V100}"), node("b", f"1x{V100}")), compiled=False)
    at.submit("brief", mps(300), duration_s=SHORT)
    at.submit("full", mps(700))
    at.submit("lasting", mps(300), duration_s=LONG)
    at.tell(exited("full"))
    assert (at.holds("brief"), at.holds("lasting")) == ("a-0:mps:300", "b-0:mps:300")
    at.submit("new", request_, duration_s=duration_s)
    assert at.holds("new").split(":")[0] == at.holds(beside).split(":")[0]


def test_slices_are_minded_like_shares():
    at = Desk("cotenant", (node("a", f"1x{A100}"), node("b", f"1x{A100}")), compiled=False)
    at.submit("brief", mig("3g.40gb"), duration_s=SHORT)
    at.submit("full", mig("4g.40gb"))
    at.submit("lasting", mig("3g.40gb"), duration_s=LONG)
    at.tell(exited("full"))
    at.submit("new", mig("2g.20gb"), duration_s=LONG)
    assert at.holds("new").startswith("b-0")


def test_the_longest_of_those_who_share_a_gpu_counts():
    at = Desk("cotenant", (node("a", f"1x{V100}"),), compiled=False)

    def lasting() -> int:
        return at.scheduler.cluster.gpus.item(0, 0, k.LASTING)

    seen = [lasting()]
    for job_id, duration_s in (("u", None), ("s", SHORT), ("l", LONG), ("t", SHORT)):
        at.submit(job_id, mps(100), duration_s=duration_s)
        seen.append(lasting())
    for job_id in ("l", "s", "t", "u"):
        at.tell(exited(job_id))
        seen.append(lasting())
    assert seen == [0, k.UNTOLD, 1, 3, 3, 1, 1, k.UNTOLD, 0]


@pytest.mark.parametrize(("policy", "demands"), [("cotenant", 2), ("best-fit", 1), ("fgd", 1)])
def test_jobs_that_ask_for_the_same_share_what_was_scored_unless_their_lifetimes_differ(policy, demands):
    at = desk(policy)
    request = mps(100)
    for number, duration_s in enumerate((SHORT, SHORT / 2, LONG, LONG + 1)):
        at.submit(f"j{number}", request, duration_s=duration_s)
    jobs = [record.job for record in at.scheduler.records()]
    search = at.scheduler._search
    found = {id(search.demand(job, None)): search.demand(job, None) for job in jobs}
    assert len(found) == demands
    assert sorted(demand.crowd.size for demand in found.values()) == [4 // demands] * demands
    assert len({id(search.ask_of(demand)) for demand in found.values()}) == demands


def test_what_a_tenants_jobs_did_is_expected_of_its_next_one_also_after_a_restart():
    at = desk()
    for number in range(FEWEST):
        at.submit(f"j{number}", mps(100), tenant="red")
    at.tell(*[exited(f"j{number}") for number in range(FEWEST)], at_s=LONG)
    old = at.scheduler
    at.scheduler = Scheduler.restore(old.policy, old.belief, old.snapshot(), Options(compiled=False))
    at.submit("next", mps(100), tenant="red")
    at.submit("other", mps(100), tenant="blue")
    lifetimes = {record.job.job_id: record.job.lifetime for record in at.scheduler.records()}
    assert lifetimes == {"next": Lifetime.BELOW_100_H, "other": Lifetime.UNKNOWN}


@pytest.mark.parametrize("first", ["ends", "arrival"])
def test_what_ends_at_the_moment_of_an_arrival_does_not_count_for_it_in_any_order(first):
    at = desk()
    for number in range(FEWEST):
        at.submit(f"j{number}", mps(100))
    ends, arrival = [exited(f"j{number}") for number in range(FEWEST)], at.job("next", mps(100))
    at.tell(*((*ends, arrival) if first == "ends" else (arrival, *ends)))
    at.submit("later", mps(100))
    lifetimes = [at.scheduler.record(job_id).job.lifetime for job_id in ("next", "later")]
    assert lifetimes == [Lifetime.UNKNOWN, Lifetime.BELOW_1_H]


def test_other_placements_learn_nothing():
    at = desk("best-fit")
    at.submit("j", mps(100), duration_s=LONG)
    assert at.scheduler.record("j").job.lifetime is Lifetime.UNKNOWN
    at.tell(exited("j"))
    assert at.scheduler.snapshot().run_times == ()
