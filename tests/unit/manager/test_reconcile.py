from __future__ import annotations

import pytest

from manager.reconcile import Reconciler
from manager.wire.agent_models import CommandKind, HeldWorker, WorkerState
from placement.lifecycle import JobState
from tests.unit.manager.parts import Parts, node

LEASE_S = 15.0


def held(job_id: str, attempt: int = 1, state: WorkerState = WorkerState.RUNNING) -> HeldWorker:
    return HeldWorker(job_id=job_id, attempt=attempt, worker=0, state=state)


@pytest.fixture
def reconciler(parts: Parts) -> Reconciler:
    parts.join(node())
    return Reconciler(parts.store, parts.loop, parts.clock, parts.times)


def run_job(parts: Parts) -> str:
    """A job whose start the agent has acknowledged."""
    job_id = parts.submit()
    parts.turn()
    parts.store.intake.acknowledge("node-a", parts.store.queries.commands("node-a", 0, 10)[-1].sequence)
    return job_id


def beats(parts: Parts, reconciler: Reconciler, seconds: int, *workers: HeldWorker) -> None:
    """One heartbeat a second."""
    for _ in range(seconds + 1):
        reconciler.compare("node-a", workers)
        parts.turn()
        parts.clock.time_s += 1
        parts.leases.touch("node-a", parts.clock.now_s())


def stops(parts: Parts) -> list[tuple[str, int]]:
    pending = parts.store.queries.commands("node-a", 0, 10)
    return [(p.entry.job_id, p.entry.attempt) for p in pending if p.entry.kind is CommandKind.STOP]


@pytest.mark.parametrize(("seconds", "attempt"), [(29, 1), (30, 2)])
def test_a_forgotten_worker_counts_as_lost_after_two_leases(
    parts: Parts, reconciler: Reconciler, seconds: int, attempt: int
) -> None:
    job_id = run_job(parts)
    beats(parts, reconciler, seconds)
    assert parts.job(job_id).record.attempt == attempt


@pytest.mark.parametrize("state", WorkerState)
def test_a_worker_that_is_held_is_left_alone_whatever_it_does(
    parts: Parts, reconciler: Reconciler, state: WorkerState
) -> None:
    job_id = run_job(parts)
    beats(parts, reconciler, 60, held(job_id, state=state))
    assert (parts.job(job_id).record.attempt, stops(parts)) == (1, [])


def test_a_worker_that_was_away_for_a_moment_is_left_alone(parts: Parts, reconciler: Reconciler) -> None:
    job_id = run_job(parts)
    for _ in range(4):
        beats(parts, reconciler, 20)
        beats(parts, reconciler, 1, held(job_id))
    assert parts.job(job_id).record.attempt == 1


def test_a_start_that_was_not_acknowledged_is_not_missed(parts: Parts, reconciler: Reconciler) -> None:
    job_id = parts.submit()
    parts.turn()
    beats(parts, reconciler, 60)
    assert parts.job(job_id).record.attempt == 1


@pytest.mark.parametrize(
    ("seconds", "worker", "expected"),
    [
        (7, held("job-9"), []),
        (8, held("job-9"), [("job-9", 1)]),
        (60, held("job-9"), [("job-9", 1)]),
        (60, held("job-9", state=WorkerState.EXITED), []),
    ],
)
def test_a_stale_worker_is_told_to_stop_once(
    parts: Parts, reconciler: Reconciler, seconds: int, worker: HeldWorker, expected: list[tuple[str, int]]
) -> None:
    beats(parts, reconciler, seconds, worker)
    assert stops(parts) == expected


def test_the_old_attempt_is_stopped_and_the_new_one_is_not(parts: Parts, reconciler: Reconciler) -> None:
    job_id = parts.submit(retries=1)
    parts.turn()
    parts.exited(job_id, exit_code=1)
    commands = parts.store.queries.commands("node-a", 0, 10)
    parts.store.intake.acknowledge("node-a", commands[-1].sequence)
    beats(parts, reconciler, 10, held(job_id, 1), held(job_id, 2))
    assert stops(parts) == [(job_id, 1)]
    assert parts.state(job_id) is JobState.STARTING
