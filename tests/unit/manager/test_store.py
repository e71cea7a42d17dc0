from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

from manager.store import StepWrite, Store, StoreFailed, sqlite_url
from manager.store.codec import NODE, RECORD, decode_event, encode, encode_event
from manager.store.tables import metadata
from manager.wire.agent_models import ReportKind, WorkerReport
from placement.lifecycle import JobRecord, JobState
from placement.lifetimes import RunTimes
from placement.model import (
    Assignment,
    Devices,
    ExitCause,
    InvalidInput,
    Isolation,
    Job,
    JobCancelled,
    JobKind,
    JobSubmitted,
    Level,
    Lifetime,
    Mode,
    NodeJoined,
    OperationFailed,
    Profile,
    ProfileDefined,
    Request,
    Share,
    StopCause,
    Together,
    WorkerExited,
    WorkerStarted,
)
from tests.unit.manager.parts import Parts, node

AWKWARD_S = 0.1 + 0.2
SHARE = Share("GPU-1", Mode.MIG, 285, 20 << 30, "2g.20gb", 4)
REQUEST = Request(
    gpus=2,
    memory_bytes=7,
    modes=frozenset({Mode.MIG, Mode.MPS}),
    isolation=Isolation.TENANT,
    max_slowdown=1.1,
    devices=Devices.SAME,
    together=Together(Level.RACK, required=True),
)
JOB = Job(
    *("job-1", REQUEST, AWKWARD_S, 3),
    workers=2,
    time_limit_s=1e-7,
    duration_s=1 / 3,
    lifetime=Lifetime.BELOW_10_H,
)


def test_a_record_is_read_as_it_was_written() -> None:
    record = JobRecord(
        JOB,
        state=JobState.STOPPING,
        attempt=3,
        vacating=(Assignment(0, "node-a", (SHARE,)), Assignment(1, "node-b", ())),
        started_workers={0, 1},
        waits_for={"job-9"},
        stop_cause=StopCause.PREEMPTED,
        served_s=AWKWARD_S,
        predicted_slowdown=1 / 7,
    )
    assert RECORD.validate_json(encode(RECORD, record)) == record


def test_what_was_written_before_there_was_a_topology_is_read() -> None:
    """Fields that came later have defaults: databases of earlier versions need no change."""
    for adapter, value, later in (
        (RECORD, JobRecord(Job("j", Request(gpus=2), 0.0, 1)), ("devices", "together")),
        (NODE, node(), ("rack", "nvlink_domain")),
    ):
        written = json.loads(encode(adapter, value))
        if adapter is RECORD:
            del written["job"]["lifetime"]
        for name in later:
            del (written if adapter is NODE else written["job"]["request"])[name]
        assert adapter.validate_json(json.dumps(written)) == value


@pytest.mark.parametrize(
    "event",
    [
        NodeJoined(replace(node(), rack="r1", nvlink_domain="n1")),
        ProfileDefined(Profile("p", {"*": 1 / 3}, sm_milli=5)),
        JobSubmitted(JOB),
        JobCancelled("job-1"),
        WorkerStarted("job-1", 2, 1),
        WorkerExited("job-1", 2, 1, ExitCause.LOST, None, "the node\nis gone", AWKWARD_S),
    ],
    ids=lambda event: type(event).__name__,
)
def test_an_event_is_read_as_it_was_written(event: object) -> None:
    assert decode_event(*encode_event(event)) == event  # type: ignore[arg-type]


def test_what_cannot_be_read_is_named() -> None:
    with pytest.raises(OperationFailed, match="unknown kind"):
        decode_event("Earthquake", "{}")
    with pytest.raises(OperationFailed, match="broken WorkerStarted"):
        decode_event("WorkerStarted", "{")


def test_the_migrations_lead_to_the_tables_that_the_code_uses(parts: Parts) -> None:
    with parts.store.database.read() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_a_database_keeps_its_random_id_also_from_before_it_had_one(parts: Parts, tmp_path: Path) -> None:
    first = parts.store.steps.database_id
    parts.restart()
    assert (parts.store.steps.database_id, parts.store.steps.epoch) == (first, 2)
    with parts.store.database.write() as connection:
        connection.exec_driver_sql("ALTER TABLE manager_state DROP COLUMN database_id")
        connection.exec_driver_sql("ALTER TABLE manager_state DROP COLUMN price_levels")
        connection.exec_driver_sql("DROP TABLE run_times")
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0002'")
    parts.restart()
    second = parts.store.steps.database_id
    assert (len(second), parts.store.steps.epoch) == (32, 3)
    (tmp_path / "other").mkdir()
    assert len({first, second, Parts(tmp_path / "other").store.steps.database_id}) == 3


def test_what_was_learnt_of_run_times_is_read_as_it_was_written_and_overwritten(parts: Parts) -> None:
    def of(kind: JobKind, *lifetimes: Lifetime) -> RunTimes:
        return RunTimes("red", kind, lifetimes)

    brief, longer = Lifetime.BELOW_1_H, Lifetime.LONGER
    for learnt in (of(JobKind.TRAINING, brief), of(JobKind.INFERENCE), of(JobKind.TRAINING, brief, longer)):
        parts.store.steps.commit(StepWrite(now_s=1.0, run_times=(learnt,)), {})
    parts.restart()
    stored = parts.store.steps.load().run_times
    assert set(stored) == {of(JobKind.INFERENCE), of(JobKind.TRAINING, brief, longer)}


def test_the_tables_can_be_made_on_another_database_too() -> None:
    statements = [str(CreateTable(t).compile(dialect=postgresql.dialect())) for t in metadata.tables.values()]
    assert any("BIGSERIAL" in statement for statement in statements)
    assert all("AUTOINCREMENT" not in statement for statement in statements)


def test_the_embedded_database_is_durable_and_readers_do_not_take_the_lock(parts: Parts) -> None:
    store = Store.open(sqlite_url(parts.folder / "cotenant.db"))
    with store.database.read() as reader, store.database.write() as writer:
        assert writer.exec_driver_sql("PRAGMA synchronous").scalar_one() == 2
        assert writer.exec_driver_sql("PRAGMA journal_mode").scalar_one() == "wal"
        assert reader.exec_driver_sql("SELECT count(*) FROM jobs").scalar_one() == 0
    store.close()


def test_a_reader_sees_one_state_whatever_is_written_meanwhile(parts: Parts) -> None:
    count = "SELECT count(*) FROM jobs"
    with parts.store.database.read() as reader:
        assert reader.exec_driver_sql(count).scalar_one() == 0
        parts.submit()
        assert reader.exec_driver_sql(count).scalar_one() == 0
    with parts.store.database.read() as reader:
        assert reader.exec_driver_sql(count).scalar_one() == 1


def test_a_transaction_that_fails_in_the_middle_leaves_nothing(parts: Parts) -> None:
    def half() -> None:
        with parts.store.database.write() as connection:
            connection.exec_driver_sql("INSERT INTO inbox (kind, body) VALUES ('x', '{}')")
            connection.exec_driver_sql("INSERT INTO nowhere VALUES (1)")

    with pytest.raises(StoreFailed, match="nowhere"):
        half()
    assert parts.store.steps.pending(10) == []


def test_a_locked_database_is_told_and_not_waited_for_for_ever(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manager.store.database.BUSY_TIMEOUT_S", 0)
    other = Store.open(sqlite_url(parts.folder / "cotenant.db"), durable=False)
    with parts.store.database.write(), pytest.raises(StoreFailed, match="locked"):
        other.intake.cancel("job-1")
    other.close()


@pytest.mark.parametrize("url", ["nonsense", "nosuchdb://x", "postgresql+nosuchdriver://x"])
def test_a_database_that_cannot_be_used_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="database URL"):
        Store.open(url)


def report(kind: ReportKind = ReportKind.STARTED, **more: object) -> WorkerReport:
    values: dict[str, object] = {"report_id": "r1", "job_id": "job-1", "attempt": 1, "worker": 0, **more}
    return WorkerReport(kind=kind, **values)


@pytest.mark.parametrize(
    ("batches", "events"),
    [
        ([[report()], [report()]], 1),
        ([[report(), report()]], 1),
        ([[report(), report(report_id="r2", worker=1)], [report()]], 2),
        ([[report(job_id="job-404")]], 0),
        ([[report(ReportKind.PROGRESS, step=3)]], 0),
    ],
)
def test_a_report_counts_once(parts: Parts, batches: list[list[WorkerReport]], events: int) -> None:
    parts.submit(workers=2)
    before = len(parts.store.steps.pending(10))
    for batch in batches:
        parts.store.intake.report("node-a", batch, 1.0)
    assert len(parts.store.steps.pending(10)) - before == events


def test_a_gang_is_as_fast_as_its_slowest_worker_of_the_latest_attempt(parts: Parts) -> None:
    parts.join(node())
    job_id = parts.submit(workers=2, retries=1)
    parts.turn()

    def tell(name: str, worker: int, **more: object) -> None:
        attempt = parts.job(job_id).record.attempt
        progress = report(ReportKind.PROGRESS, report_id=name, attempt=attempt, worker=worker, **more)
        parts.store.intake.report("node-a", [progress], 1.0)

    tell("a", 0, step=10, steps_per_s=2.0, observed_slowdown=1.1)
    tell("b", 1, step=8, steps_per_s=1.5)
    tell("c", 1, observed_slowdown=1.3)
    seen = parts.job(job_id).progress
    assert (seen.step, seen.steps_per_s, seen.observed_slowdown) == (8, 1.5, 1.3)
    for worker in (0, 1):
        parts.exited(job_id, worker=worker, exit_code=1)
    assert parts.job(job_id).record.attempt == 2
    assert parts.job(job_id).progress.step is None


def test_progress_never_goes_back_and_leaves_no_trace_for_each_report(parts: Parts) -> None:
    job_id = parts.submit()
    for number, step in enumerate((1, 5, 3, None)):
        progress = report(ReportKind.PROGRESS, report_id=f"p{number}", step=step, steps_per_s=float(number))
        parts.store.intake.report("node-a", [progress], 1.0)
    with parts.store.database.read() as connection:
        rows = connection.exec_driver_sql("SELECT step, steps_per_s FROM progress").all()
        ids = connection.exec_driver_sql("SELECT count(*) FROM reports").scalar_one()
    assert (rows, ids, job_id) == ([(5, 3.0)], 0, "job-1")


def test_old_report_ids_are_forgotten_and_young_ones_kept(parts: Parts) -> None:
    parts.submit()
    parts.store.intake.report("node-a", [report()], now_s=0.0)
    parts.store.intake.report("node-a", [report(report_id="r2")], now_s=600_000.0)
    parts.store.intake.forget_reports(now_s=700_000.0)
    with parts.store.database.read() as connection:
        ids = connection.exec_driver_sql("SELECT report_id FROM reports").scalars().all()
    assert list(ids) == ["r2"]
