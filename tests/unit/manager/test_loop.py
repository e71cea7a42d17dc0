from __future__ import annotations

import time
from collections.abc import Iterable

import pytest
from sqlalchemy import event

from manager.dispatch.commands import agent_command
from manager.leases import LeaseTimes
from manager.store import NodeState, StepWrite, Store, StoreFailed, Superseded, sqlite_url
from manager.wire.agent_models import CommandKind
from placement.lifecycle import JobRecord, JobState
from placement.model import CotenantError, ExitCause, NodeJoined, OperationFailed, StopCause
from placement.scheduler import Scheduler
from tests.unit.manager.parts import Parts, gpus, node

STARTING, RUNNING, QUEUED = JobState.STARTING, JobState.RUNNING, JobState.QUEUED


def commands(parts: Parts, node_id: str = "node-a") -> list[tuple[CommandKind, str, int, int]]:
    found = parts.store.queries.commands(node_id, 0, 100)
    return [(each.entry.kind, each.entry.job_id, each.entry.attempt, each.entry.worker) for each in found]


def test_a_job_goes_from_submission_to_its_end(parts: Parts) -> None:
    parts.join(node())
    job_id = parts.submit()
    assert parts.state(job_id) is QUEUED
    parts.turn()
    assert parts.state(job_id) is STARTING
    assert commands(parts) == [(CommandKind.START, job_id, 1, 0)]
    parts.started(job_id)
    assert parts.state(job_id) is RUNNING
    parts.clock.time_s += 10
    parts.exited(job_id, served_s=9.0)
    record = parts.job(job_id).record
    assert (record.state, record.exit_code, record.ended_s, record.held_s) == (
        JobState.SUCCEEDED,
        0,
        1010.0,
        10.0,
    )
    story = [event.transition.after for event in parts.store.queries.story(job_id)]
    assert story == [QUEUED, STARTING, RUNNING, JobState.SUCCEEDED]


def test_the_shares_of_an_ended_job_and_its_neighbours_are_remembered(parts: Parts) -> None:
    parts.join(node(form="1xA100-SXM4-80GB"))
    jobs = [
        parts.submit(request=gpus(1, compute_milli=300, memory_bytes=1 << 30, modes=("mps",)))
        for _ in range(3)
    ]
    parts.turn()
    for job_id in jobs:
        parts.exited(job_id)
    for job_id in jobs:
        stored = parts.job(job_id)
        assert set(stored.neighbours) == set(jobs) - {job_id}
        assert [share.compute_milli for share in stored.placed[0].shares] == [300]
        assert stored.record.assignments == ()


def test_ended_jobs_leave_the_scheduler_and_late_reports_on_them_change_nothing(parts: Parts) -> None:
    parts.join(node())
    job_id = parts.submit()
    parts.turn()
    parts.exited(job_id)
    parts.started(job_id)
    assert parts.state(job_id) is JobState.SUCCEEDED
    assert parts.loop.ask(lambda scheduler: list(scheduler.records())) == []


def test_a_failed_transaction_loses_nothing_and_doubles_nothing(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts.join(node())
    job_id = parts.submit()

    def full(*_: object) -> None:
        raise StoreFailed("the database refused: database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(parts.store.steps, "commit", full)
        for _ in range(3):
            with pytest.raises(StoreFailed):
                parts.loop.run_once()
        assert commands(parts) == []
    parts.turn()
    assert commands(parts) == [(CommandKind.START, job_id, 1, 0)]


def test_a_step_that_fails_after_its_commit_has_happened_once_and_its_commands_are_rung_for(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts.join(node())
    job_id = parts.submit()
    commit, rung = parts.store.steps.commit, list[str]()
    parts.loop.listeners.commands = rung.extend

    def cut_off(*arguments: object) -> None:
        commit(*arguments)  # type: ignore[arg-type]
        raise StoreFailed("the database refused: connection lost")

    with monkeypatch.context() as patch:
        patch.setattr(parts.store.steps, "commit", cut_off)
        with pytest.raises(StoreFailed):
            parts.loop.run_once()
    assert parts.state(job_id) is STARTING
    assert rung == []
    parts.turn()
    assert rung == ["node-a"]
    assert commands(parts) == [(CommandKind.START, job_id, 1, 0)]
    assert [event.transition.after for event in parts.store.queries.story(job_id)] == [QUEUED, STARTING]


def test_a_full_disk_is_met_in_the_middle_of_a_transaction(parts: Parts) -> None:
    parts.join(node())
    job_id = parts.submit()
    parts.store.close()
    parts.restart()
    with parts.store.database.read() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
    limit = f"PRAGMA max_page_count = {pages}"

    @event.listens_for(parts.store.database.engine, "begin")
    def small(connection: object) -> None:
        connection.connection.driver_connection.execute(limit)  # type: ignore[attr-defined]

    def fill() -> None:
        for _ in range(2000):
            parts.submit(name="x" * 4000)

    with pytest.raises(StoreFailed, match="full"):
        fill()
    event.remove(parts.store.database.engine, "begin", small)
    parts.store.close()
    parts.restart()
    parts.turn()
    assert parts.state(job_id) is STARTING


def test_an_event_that_the_core_fails_on_is_put_away_and_the_others_are_taken(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts.join(node())
    good, bad, last = parts.submit(), parts.submit(name="bad"), parts.submit()
    step = Scheduler.step

    def fragile(self: Scheduler, events: object, now_s: float) -> object:
        if any(getattr(getattr(each, "job", None), "name", "") == "bad" for each in events):  # type: ignore[attr-defined]
            raise ZeroDivisionError("a bug")
        return step(self, events, now_s)  # type: ignore[arg-type]

    monkeypatch.setattr(Scheduler, "step", fragile)
    parts.turn()
    assert [parts.state(job_id) for job_id in (good, bad, last)] == [STARTING, JobState.REJECTED, STARTING]
    assert "a bug" in parts.job(bad).record.failure
    assert [event.transition.after for event in parts.store.queries.story(bad)] == [QUEUED, JobState.REJECTED]


@pytest.mark.parametrize("method", ["step", "restore"])
def test_a_waiting_job_that_the_core_fails_on_later_is_rejected_and_the_others_run(
    parts: Parts, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    first, bad, last = parts.submit(), parts.submit(name="bad"), parts.submit()
    parts.turn()
    step, restore = Scheduler.step, Scheduler.restore

    def fragile_step(self: Scheduler, *arguments: object) -> object:
        if any(isinstance(each, NodeJoined) for each in arguments[0]):  # type: ignore[attr-defined]
            refuse(self.records())
        return step(self, *arguments)  # type: ignore[arg-type]

    def fragile_restore(*arguments: object, **more: object) -> object:
        refuse(arguments[2].records)  # type: ignore[attr-defined]
        return restore(*arguments, **more)  # type: ignore[arg-type]

    def refuse(records: Iterable[JobRecord]) -> None:
        if any(record.job.name == "bad" for record in records):
            raise ZeroDivisionError("a bug")

    if method == "step":
        monkeypatch.setattr(Scheduler, "step", fragile_step)
    else:
        parts.restart()
        monkeypatch.setattr(Scheduler, "restore", fragile_restore)
    parts.join(node())
    assert [parts.state(job_id) for job_id in (first, bad, last)] == [STARTING, JobState.REJECTED, STARTING]
    assert parts.leases.state("node-a") is NodeState.UP


def test_no_event_is_blamed_for_a_core_that_fails_anyway(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts.join(node())
    job_id = parts.submit()

    def broken(*_: object) -> object:
        raise ZeroDivisionError("a bug")

    with monkeypatch.context() as patch:
        patch.setattr(Scheduler, "step", broken)
        with pytest.raises(OperationFailed, match="no event or waiting job is to blame"):
            parts.loop.run_once()
    parts.turn()
    assert parts.state(job_id) is STARTING


def test_a_superseded_manager_cannot_commit(parts: Parts) -> None:
    parts.join(node())
    old_loop, old_store = parts.loop, parts.store
    job_id = parts.submit()
    parts.restart()
    with pytest.raises(Superseded):
        old_loop.run_once()
    with pytest.raises(Superseded):
        old_store.steps.commit(StepWrite(now_s=1.0), {})
    old_store.close()
    parts.turn()
    assert commands(parts) == [(CommandKind.START, job_id, 1, 0)]


def test_a_row_that_changed_underneath_fails_the_whole_step(parts: Parts) -> None:
    parts.join(node())
    first = parts.submit()
    parts.turn()
    with parts.store.database.write() as connection:
        connection.exec_driver_sql("UPDATE jobs SET version = version + 1")
    second = parts.submit()
    parts.store.intake.cancel(first)
    with pytest.raises(OperationFailed, match="version"):
        parts.loop.run_once()
    assert parts.state(second) is QUEUED
    parts.turn()
    assert (parts.state(first), parts.state(second)) == (JobState.STOPPING, STARTING)


def test_commands_survive_a_restart_and_carry_the_new_epoch(parts: Parts) -> None:
    parts.join(node())
    job_id = parts.submit(env={"KEY": "value"}, command=("python", "x.py"))
    parts.turn()
    parts.restart()
    (pending,) = parts.store.queries.commands("node-a", 0, 10)
    command = agent_command(pending, parts.store.steps.epoch, {})
    assert (command.job_id, command.epoch, command.command, command.env) == (
        job_id,
        2,
        ("python", "x.py"),
        {"KEY": "value"},
    )


def test_acknowledged_commands_are_gone_and_their_numbers_are_not_given_again(parts: Parts) -> None:
    parts.join(node())
    parts.submit()
    parts.turn()
    (first,) = parts.store.queries.commands("node-a", 0, 10)
    parts.store.intake.acknowledge("node-a", first.sequence)
    assert commands(parts) == []
    parts.submit()
    parts.turn()
    (second,) = parts.store.queries.commands("node-a", first.sequence, 10)
    assert second.sequence > first.sequence


def test_a_time_limit_is_kept_without_any_event(parts: Parts) -> None:
    parts.join(node())
    job_id = parts.submit(time_limit_s=30.0)
    parts.turn()
    parts.started(job_id)
    parts.clock.time_s += 29.9
    parts.leases.touch("node-a", parts.clock.now_s())
    assert parts.loop.run_once() is False
    assert parts.loop.next_turn_s() == pytest.approx(0.1)
    parts.clock.time_s += 0.1
    assert parts.loop.run_once() is True
    assert commands(parts)[-1] == (CommandKind.STOP, job_id, 1, 0)
    parts.exited(job_id, cause=ExitCause.STOPPED, exit_code=None)
    assert parts.state(job_id) is JobState.FAILED


@pytest.mark.parametrize("restarts", [False, True])
def test_a_silent_node_is_lost_then_fenced_and_its_job_starts_elsewhere(parts: Parts, restarts: bool) -> None:
    parts.times = LeaseTimes(lease_s=15.0, fence_s=120.0)
    parts.join(node())
    job_id = parts.submit()
    parts.turn()
    parts.started(job_id)
    parts.join(node("node-b"))
    silent_s, restarted_s = 0.0, 0.0
    while parts.job(job_id).record.attempt == 1:
        assert silent_s - restarted_s <= 135
        assert commands(parts, "node-b") == []
        parts.clock.time_s += 1
        silent_s += 1
        parts.leases.touch("node-b", parts.clock.now_s())
        if restarts and silent_s == 60:
            parts.restart()
            parts.loop.run_once()
            restarted_s = silent_s
        parts.turn()
    assert silent_s - restarted_s == 135  # a new manager gives it all the time again
    assert commands(parts, "node-b") == [(CommandKind.START, job_id, 2, 0)]
    states = {stored.node.node_id: stored.state for stored in parts.store.queries.nodes()}
    assert states == {"node-a": NodeState.FENCED, "node-b": NodeState.UP}


def test_a_fenced_node_never_gets_the_commands_that_it_did_not_fetch(parts: Parts) -> None:
    parts.join(node())
    parts.submit()
    parts.turn()
    assert len(commands(parts)) == 1
    parts.clock.time_s += 15
    parts.turn()
    assert len(commands(parts)) == 1
    parts.clock.time_s += 120
    parts.turn()
    assert commands(parts) == []


def test_a_lost_node_that_answers_again_keeps_its_jobs(parts: Parts) -> None:
    parts.join(node())
    job_id = parts.submit()
    parts.turn()
    parts.started(job_id)
    parts.clock.time_s += 20
    parts.turn()
    assert parts.leases.state("node-a") is NodeState.LOST
    parts.leases.touch("node-a", parts.clock.now_s())
    parts.join(node())
    assert parts.leases.state("node-a") is NodeState.UP
    assert (parts.state(job_id), parts.job(job_id).record.attempt) == (RUNNING, 1)


def test_cancelling_a_running_job_stops_it(parts: Parts) -> None:
    parts.join(node())
    job_id = parts.submit(grace_s=7.0)
    parts.turn()
    parts.started(job_id)
    parts.store.intake.cancel(job_id)
    parts.turn()
    stop = agent_command(parts.store.queries.commands("node-a", 0, 10)[-1], 1, {})
    assert (stop.kind, stop.cause, stop.grace_s) == (CommandKind.STOP, StopCause.CANCELLED, 7.0)
    parts.exited(job_id, cause=ExitCause.STOPPED, exit_code=-15)
    assert parts.state(job_id) is JobState.CANCELLED


def test_the_thread_goes_on_after_failures_and_wakes_for_new_work(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts.join(node())
    steps = parts.store.steps
    commit, failures = steps.commit, iter([StoreFailed("locked"), RuntimeError("a bug")])

    def unreliable(*arguments: object) -> dict[str, int]:
        error = next(failures, None)
        if error is not None:
            raise error
        return commit(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(steps, "commit", unreliable)
    parts.loop.start()
    receipt_of = parts.store.intake.cancel(parts.submit())
    parts.loop.wake()
    assert parts.loop.wait_for(receipt_of.sequence, 10)
    assert parts.loop.counters.failures == 2
    parts.loop.stop()


def test_a_loop_that_ends_says_so_whatever_ended_it(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[CotenantError] = []
    parts.loop.listeners.fatal = told.append

    def broken() -> float:
        raise ZeroDivisionError("a bug outside of a turn")

    monkeypatch.setattr(parts.loop, "next_turn_s", broken)
    assert parts.loop.trouble() == ""
    parts.loop.start()
    deadline_s = time.monotonic() + 10
    while not told or not parts.loop.trouble():
        assert time.monotonic() < deadline_s
        time.sleep(0.005)
    assert "a bug outside" in str(told[0])
    assert "loop has ended" in parts.loop.trouble()


def test_the_database_of_a_newer_version_is_refused(parts: Parts) -> None:
    with parts.store.database.write() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(OperationFailed, match="does not know"):
        Store.open(sqlite_url(parts.folder / "cotenant.db"))
