"""What a job has served and held counts whatever became of it, and while it runs."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from manager.metrics import outcome
from manager.store import Store, sqlite_url
from manager.wire.agent_models import ReportKind, WorkerReport
from placement.model import ExitCause
from placement.report import JobOutcome
from tests.unit.manager.parts import Parts, gpus, node


def now(parts: Parts, job_id: str) -> JobOutcome:
    return outcome(parts.job(job_id), parts.clock.now_s())


def run(parts: Parts, job_id: str, seconds: float) -> None:
    parts.turn()
    parts.started(job_id)
    parts.clock.time_s += seconds
    parts.leases.touch("node-a", parts.clock.now_s())


def progress(parts: Parts, job_id: str, step: int, slowdown: float) -> None:
    report = WorkerReport(
        report_id=f"{job_id}-{step}",
        kind=ReportKind.PROGRESS,
        job_id=job_id,
        attempt=1,
        worker=0,
        step=step,
        observed_slowdown=slowdown,
    )
    parts.store.intake.report("node-a", [report], parts.clock.now_s())


def test_an_attempt_that_is_tried_again_has_served(parts: Parts) -> None:
    parts.join(node())
    job_id = parts.submit(retries=1, request=gpus(2))
    run(parts, job_id, 5.0)
    parts.exited(job_id, exit_code=1, served_s=4.0)
    run(parts, job_id, 7.0)
    parts.exited(job_id, served_s=6.0)
    found = now(parts, job_id)
    assert (found.served_s, found.held_s, found.gpu_milli) == (10.0, 12.0, 2000)


@pytest.mark.parametrize(
    ("end", "served_s"),
    [
        ({"exit_code": 1, "served_s": 4.0}, 4.0),
        ({"cause": ExitCause.STOPPED, "exit_code": None, "served_s": 3.0}, 3.0),
        ({"exit_code": 0, "served_s": 0.0}, 0.0),
        ({"exit_code": 0}, None),
    ],
    ids=["failed", "stopped", "served nothing", "not measured"],
)
def test_the_end_of_a_job_does_not_matter(
    parts: Parts, end: dict[str, object], served_s: float | None
) -> None:
    parts.join(node())
    job_id = parts.submit()
    run(parts, job_id, 5.0)
    parts.exited(job_id, **end)
    assert now(parts, job_id).served_s == served_s


def test_a_job_that_runs_has_served_what_its_progress_shows(parts: Parts) -> None:
    parts.join(node())
    job_id = parts.submit()
    run(parts, job_id, 6.0)
    assert (now(parts, job_id).served_s, now(parts, job_id).held_s) == (None, 6.0)
    progress(parts, job_id, step=9, slowdown=1.5)
    assert (now(parts, job_id).served_s, now(parts, job_id).slowdown) == (4.0, 1.5)
    parts.exited(job_id, served_s=3.5, step=2)
    assert (now(parts, job_id).served_s, parts.job(job_id).progress.step) == (3.5, 9)


def test_a_gang_has_served_what_its_slowest_worker_has(parts: Parts) -> None:
    parts.join(node())
    job_id = parts.submit(workers=2)
    run(parts, job_id, 5.0)
    parts.exited(job_id, served_s=4.0)
    assert now(parts, job_id).served_s is None
    parts.exited(job_id, worker=1, served_s=3.0)
    assert now(parts, job_id).served_s == 3.0


def test_a_database_from_before_gains_the_column_and_keeps_its_rows(tmp_path: Path) -> None:
    parts = Parts(tmp_path)
    parts.join(node())
    job_id = parts.submit()
    run(parts, job_id, 1.0)
    progress(parts, job_id, step=5, slowdown=2.0)
    parts.store.close()
    with sqlite3.connect(tmp_path / "cotenant.db") as connection:
        connection.execute("ALTER TABLE progress DROP COLUMN served_s")
        connection.execute("ALTER TABLE manager_state DROP COLUMN database_id")
        connection.execute("ALTER TABLE manager_state DROP COLUMN price_levels")
        connection.execute("DROP TABLE run_times")
        connection.execute("UPDATE alembic_version SET version_num = '0001'")
    connection.close()
    store = Store.open(sqlite_url(tmp_path / "cotenant.db"), durable=False)
    assert (store.queries.job(job_id).progress.step, store.queries.job(job_id).served_s) == (5, {})
    store.close()
