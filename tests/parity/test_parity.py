"""The live manager and the simulator decide alike: one trace through both gives the same decision log."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from manager.loop import CoreSettings
from manager.metrics import outcome
from manager.roster import Worker
from manager.store import JobFilter, StoreFailed
from placement.interference import model_named
from placement.lifecycle import ACTIVE, JobRecord
from placement.lifetimes import RunTimes
from placement.model import Event
from placement.partition import TransitionCosts
from placement.report import JobOutcome
from placement.scheduler import Scheduler, Step
from simulator.cluster_spec import ClusterSpec
from simulator.engine import SimulationOptions, SimulationResult, simulate
from tests.cases.movers import moving_registered
from tests.cases.short_lives import short_lives
from tests.parity import workload
from tests.parity.live import LiveRun, Scenario

AT_ONCE = TransitionCosts(drain_s=0, restore_s=0, destroy_s=0, create_s=0)
"""The live executor moves jobs without delay."""

JOBS = 100
SEED = 18


def scenario(policy: str) -> Scenario:
    core = CoreSettings(policy=policy, belief="additive", seed=7)
    return Scenario(workload.rows(SEED, JOBS), workload.cluster(), workload.PROFILES, core)


def simulated_log(given: Scenario) -> list[str]:
    return simulated(given).decision_log


def simulated(given: Scenario) -> SimulationResult:
    options = SimulationOptions(
        policy=given.core.policy,
        truth=model_named("none"),
        belief=model_named(given.core.belief),
        seed=given.core.seed,
        profiles=given.profiles,
        keep_decision_log=True,
        costs=AT_ONCE,
    )
    return simulate(given.rows, ClusterSpec("parity", tuple(given.nodes)), options)


@pytest.mark.parametrize("policy", ["fifo", "best-fit", "srtf", "random", "fgd", "cotenant"])
def test_live_loop_and_simulator_decide_alike(policy: str, tmp_path: Path) -> None:
    given = scenario(policy)
    live = LiveRun(tmp_path, given).replay()
    assert len(live) > 3 * JOBS
    assert live == simulated_log(given)


def test_they_put_several_shares_into_slices_alike(tmp_path: Path) -> None:
    given = scenario("parvagpu")
    live = LiveRun(tmp_path, given).replay()
    assert all(any(f"{mode}/" in line for line in live) for mode in ("mps", "timeslice", "mig"))
    assert live == simulated_log(given)


@pytest.fixture(autouse=True)
def _lives_of_seconds() -> Iterator[None]:
    """So that the jobs of the workload differ in what they are taken to last."""
    with short_lives(2, 10, 30):
        yield


@pytest.mark.parametrize("policy", ["backfill+moving", "srtf+miso", "cotenant"])
def test_they_move_the_same_jobs_although_the_manager_dies_all_the_time(policy: str, tmp_path: Path) -> None:
    draw = random.Random(5)

    def disturb(run: LiveRun) -> None:
        if draw.random() < 0.3:
            run.crash()

    with moving_registered(settled_s=5.0):
        given = scenario(policy)
        live = LiveRun(tmp_path, given, disturb).replay()
        assert any(line.endswith("moved") for line in live)
        assert live == simulated_log(given)


@pytest.mark.parametrize("policy", ["fifo", "srtf"])
def test_live_and_simulated_metrics_are_of_the_same_outcomes(policy: str, tmp_path: Path) -> None:
    given = scenario(policy)
    run = LiveRun(tmp_path, given)
    run.replay()
    stored = run.store.queries.jobs(JobFilter())
    live = [figures(outcome(each, run.clock.now_s())) for each in stored]
    expected = [figures(each) for each in simulated(given).outcomes]
    assert live == expected
    assert sum(each.record.preemptions for each in stored) > 0 or policy != "srtf"


def figures(outcome: JobOutcome) -> JobOutcome:
    """Without what is measured in other ways; who never ran holds and serves nothing, however it is said."""
    served_s = round(outcome.served_s or 0.0, 6)
    return replace(outcome, slowdown=None, served_s=served_s, held_s=round(outcome.held_s, 6))


def test_the_workload_uses_what_it_is_meant_to_use() -> None:
    """Guards the tests here: a log without these proves little."""
    log = "\n".join(simulated_log(scenario("srtf")))
    for expected in (
        ":mps:",
        ":mig/2g.20gb@",
        ":timeslice:",
        ":exclusive:",
        " preempted",
        "-> rejected",
        "-> placed",
    ):
        assert expected in log


@pytest.mark.parametrize("policy", ["fifo", "best-fit", "random", "srtf", "fgd", "cotenant"])
def test_restarts_at_random_moments_change_no_decision(policy: str, tmp_path: Path) -> None:
    given = scenario(policy)
    draw = random.Random(3)
    restarts = 0

    def disturb(run: LiveRun) -> None:
        nonlocal restarts
        if draw.random() < 0.2:
            restarts += 1
            run.crash()

    live = LiveRun(tmp_path, given, disturb).replay()
    assert restarts > 20
    assert live == simulated_log(given)


@pytest.mark.parametrize("policy", ["fifo", "best-fit", "srtf"])
def test_failing_transactions_change_no_decision(
    policy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = scenario(policy)
    draw = random.Random(4)
    failures = {"before": 0, "after": 0}
    decided: list[Step] = []
    decide = Scheduler.step

    def watched(self: Scheduler, events: Sequence[Event], now_s: float) -> Step:
        decided[:] = [decide(self, events, now_s)]
        return decided[0]

    def disturb(run: LiveRun) -> None:
        steps = run.store.steps
        commit = type(steps).commit.__get__(steps)

        def unreliable(*arguments: object) -> dict[str, int]:
            chance = draw.random()
            if chance < 0.1:
                failures["before"] += 1
                raise StoreFailed("full disk, before anything was written")
            versions: dict[str, int] = commit(*arguments)
            if chance > 0.9:
                failures["after"] += 1
                run.note(decided[0], run.clock.now_s())  # it has happened, though the loop does not know
                raise StoreFailed("connection lost, after everything was written")
            return versions

        steps.commit = unreliable  # type: ignore[method-assign]

    monkeypatch.setattr(Scheduler, "step", watched)
    live = LiveRun(tmp_path, given, disturb).replay()
    monkeypatch.undo()
    assert min(failures.values()) > 10
    assert live == simulated_log(given)


@pytest.mark.parametrize("policy", ["best-fit", "srtf", "cotenant"])
def test_the_store_holds_what_the_scheduler_knows_after_every_step(policy: str, tmp_path: Path) -> None:
    checked = 0
    seen: set[Worker] = set()
    learnt: set[RunTimes] = set()

    def compare(run: LiveRun) -> None:
        nonlocal checked
        checked += 1
        stored = run.store.steps.load()
        known = run.loop.ask(lambda scheduler: scheduler.snapshot())
        assert list(stored.records) == sorted(known.records, key=lambda record: record.job.sequence)
        assert [node for node, _state in stored.nodes] == [node for node, _up in known.nodes]
        assert (stored.events, stored.decisions) == (known.events, known.decisions)
        assert set(stored.run_times) == set(known.run_times)
        learnt.update(known.run_times)
        for node, _up in known.nodes:
            expected = workers_on(node.node_id, known.records)
            assert run.loop.roster.workers_on(node.node_id) == expected
            seen.update(expected)

    LiveRun(tmp_path, scenario(policy), compare).replay()
    assert checked > JOBS
    assert len(seen) > JOBS
    assert bool(learnt) == (policy == "cotenant")


def workers_on(node_id: str, records: Iterable[JobRecord]) -> set[Worker]:
    """The long way round: what a heartbeat of that node should list."""
    return {
        (record.job.job_id, record.attempt, assignment.worker)
        for record in records
        if record.state in ACTIVE
        for assignment in record.assignments or record.vacating
        if assignment.node_id == node_id and assignment.worker not in record.exited_workers
    }
