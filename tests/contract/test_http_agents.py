"""The manager over real HTTP: what agents may rely on."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from manager.leases import LeaseTimes
from manager.wire.agent_models import (
    CommandKind,
    GpuTelemetry,
    Heartbeat,
    HeldWorker,
    NodeReport,
    ReportKind,
    Welcome,
    WorkerState,
)
from manager.wire.client import Client, WrongOffset
from placement.lifecycle import JobState
from placement.model import ExitCause, InvalidInput, NotFound, StateError
from placement.model.hardware import node_from_short_form
from tests.contract.served import NODE, TOKEN, Running, eventually, serving


def test_an_agent_learns_of_a_job_at_once_and_ends_it(manager: Running) -> None:
    manager.join()
    found: list[float] = []

    def poll() -> None:
        manager.client.commands(NODE, wait_s=30)
        found.append(time.monotonic())

    thread = threading.Thread(target=poll)
    thread.start()
    eventually(lambda: bool(manager.services.bell._listeners))
    submitted_s = time.monotonic()
    job = manager.submit(env={"KEY": "secret"})
    thread.join(timeout=10)
    assert found[0] - submitted_s < 5
    job = manager.client.job(job.job_id)  # a busy manager may have answered before it decided
    (command,) = manager.client.commands(NODE)
    assert (command.kind, command.env, command.epoch) == (CommandKind.START, {"KEY": "secret"}, 1)
    assert manager.client.commands(NODE, after=command.sequence, wait_s=0) == []
    manager.client.ack(NODE, command.sequence)
    assert manager.client.commands(NODE, wait_s=0) == []
    manager.report(job, ReportKind.STARTED)
    manager.report(job, ReportKind.PROGRESS, step=7, steps_per_s=2.5, observed_slowdown=1.25)
    for _twice in range(2):
        manager.report(job, ReportKind.EXITED, cause=ExitCause.EXITED, exit_code=3)
    eventually(lambda: manager.client.job(job.job_id).state is JobState.FAILED)
    ended = manager.client.job(job.job_id)
    assert (ended.exit_code, ended.step, ended.steps_per_s, ended.observed_slowdown) == (3, 7, 2.5, 1.25)
    assert len(ended.assignments) == 1
    states = [event.after.value for event in manager.client.events(job.job_id)]
    assert states == ["queued", "starting", "running", "failed"]


def test_output_is_complete_and_never_doubled(manager: Running) -> None:
    manager.join()
    job = manager.submit()
    worker = (job.job_id, 1, 0)
    assert manager.client.append_log(NODE, worker, 0, b"one\n") == 4
    for offset in (0, 3, 5):
        with pytest.raises(WrongOffset) as caught:
            manager.client.append_log(NODE, worker, offset, b"again")
        assert caught.value.size == 4
    assert manager.client.append_log(NODE, worker, 4, b"\xff\0two") == 9
    chunk = manager.client.logs(job.job_id)
    assert (chunk.data, chunk.next_offset, chunk.complete) == (b"one\n\xff\0two", 9, False)
    manager.report(job, ReportKind.EXITED, cause=ExitCause.EXITED, exit_code=0)
    eventually(lambda: manager.client.logs(job.job_id, offset=9).complete)
    assert manager.client.logs(job.job_id, offset=4).data == b"\xff\0two"


@pytest.mark.parametrize("worker", [("job-1", 2, 0), ("job-1", 1, 1), ("job-2", 1, 0), ("..", 1, 0)])
def test_output_of_what_does_not_run_is_not_taken(manager: Running, worker: tuple[str, int, int]) -> None:
    manager.join()
    manager.submit()
    with pytest.raises((NotFound, InvalidInput)):
        manager.client.append_log(NODE, worker, 0, b"x")
    with pytest.raises((NotFound, InvalidInput)):
        manager.client.logs(worker[0], worker[2], worker[1])


def test_a_gpu_cannot_be_on_two_nodes(manager: Running) -> None:
    manager.join()
    report = NodeReport.of(node_from_short_form("2xA100-SXM4-80GB", NODE), simulated=True)
    with pytest.raises(InvalidInput, match="belongs to node"):
        manager.client.register("node-b", report)


def test_an_unknown_node_is_told_to_report_itself(manager: Running) -> None:
    with pytest.raises(NotFound, match="report what it is made of"):
        manager.client.heartbeat("stranger", Heartbeat())


def test_telemetry_of_a_node_shows_on_its_own_gpus_alone(manager: Running) -> None:
    manager.join()
    manager.join("1xH100-SXM5-80GB", "node-b")
    mine, foreign = f"GPU-{NODE}-0", "GPU-node-b-0"
    telemetry = tuple(GpuTelemetry(gpu_uuid=uuid, sm_milli=420) for uuid in (mine, foreign))
    manager.client.heartbeat(NODE, Heartbeat(telemetry=telemetry))
    assert {gpu.uuid: gpu.sm_milli for gpu in manager.client.gpus()} == {
        mine: 420,
        f"GPU-{NODE}-1": None,
        foreign: None,
    }


def test_a_worker_of_an_attempt_that_is_over_is_stopped(manager: Running) -> None:
    manager.services.reconciler._times = manager.services.reconciler._times.__class__(
        lease_s=0.0, fence_s=1.0
    )
    manager.join()
    job = manager.submit()
    manager.client.ack(NODE, manager.client.commands(NODE)[-1].sequence)
    stale = HeldWorker(job_id="job-77", attempt=1, worker=0, state=WorkerState.RUNNING)
    mine = HeldWorker(job_id=job.job_id, attempt=1, worker=0, state=WorkerState.RUNNING)
    manager.client.heartbeat(NODE, Heartbeat(workers=(mine, stale)))
    (command,) = manager.client.commands(NODE, wait_s=0)
    assert (command.kind, command.job_id, command.attempt) == (CommandKind.STOP, "job-77", 1)


def test_a_worker_that_its_agent_has_forgotten_starts_again(manager: Running) -> None:
    manager.services.reconciler._times = manager.services.reconciler._times.__class__(
        lease_s=0.0, fence_s=1.0
    )
    manager.join()
    job = manager.submit()
    manager.client.heartbeat(NODE, Heartbeat())
    assert manager.client.job(job.job_id).attempt == 1  # the start has not been acknowledged yet
    manager.client.ack(NODE, manager.client.commands(NODE)[-1].sequence)
    manager.client.heartbeat(NODE, Heartbeat())
    eventually(lambda: manager.client.job(job.job_id).attempt == 2)


def test_an_agent_that_has_seen_a_later_epoch_is_refused(manager: Running) -> None:
    manager.join()
    with pytest.raises(StateError, match="epoch 41"):
        manager.client.heartbeat(NODE, Heartbeat(epoch=41))


def told(**more: object) -> NodeReport:
    node = node_from_short_form("2xA100-SXM4-80GB", NODE)
    return NodeReport.of(node, simulated=True).model_copy(update=more)


def test_a_second_agent_of_a_node_is_refused_and_keeps_no_lease_alive(manager: Running) -> None:
    client, leases = manager.client, manager.services.leases
    client.register(NODE, told(instance="one"))
    seen_s = leases.last_seen_s(NODE)
    for contact in (
        lambda: client.register(NODE, told(instance="two")),
        lambda: client.heartbeat(NODE, Heartbeat(instance="two")),
    ):
        with pytest.raises(StateError, match="another agent is running as node node-a; stop that one"):
            contact()
    assert leases.last_seen_s(NODE) == seen_s
    client.register(NODE, told(instance="one"))
    client.register(NODE, told())
    client.heartbeat(NODE, Heartbeat())
    leases.times = LeaseTimes(lease_s=0.0, fence_s=1.0)
    client.register(NODE, told(instance="two"))
    leases.times = LeaseTimes()
    with pytest.raises(StateError, match="another agent"):
        client.heartbeat(NODE, Heartbeat(instance="one"))


def test_a_node_of_the_managers_last_life_is_seen_once_its_agent_has_said_what_it_is(tmp_path: Path) -> None:
    with serving(tmp_path) as former:
        former.join("4xA100-SXM4-80GB")
    with serving(tmp_path) as manager:
        eventually(lambda: manager.services.leases.state(NODE) is not None)
        (remembered,) = manager.client.nodes()
        assert (remembered.state, len(remembered.gpus), remembered.last_seen_s) == ("up", 4, None)
        # Who speaks for it is known before what it is made of.
        assert manager.services.leases.claim(NODE, "one", manager.services.clock.now_s())
        assert manager.client.nodes() == [remembered]
        manager.join("2xH100-SXM5-80GB")
        (joined,) = manager.client.nodes()
        assert joined.gpus == ("H100-SXM5-80GB",) * 2
        assert joined.last_seen_s is not None


@pytest.mark.parametrize(
    ("more", "why"), [({"epoch": 41}, "epoch 41"), ({"database_id": "old"}, "database old")]
)
def test_an_agent_of_another_database_does_not_bring_its_node_up(
    manager: Running, more: dict[str, object], why: str
) -> None:
    with pytest.raises(StateError, match=why):
        manager.client.register(NODE, told(**more))
    assert manager.client.nodes() == []
    assert manager.services.leases.last_seen_s(NODE) is None
    welcome = manager.client.register(NODE, told())
    seen_s = manager.services.leases.last_seen_s(NODE)
    with pytest.raises(StateError, match=why):
        manager.client.register(NODE, told(**more))
    assert manager.services.leases.last_seen_s(NODE) == seen_s
    same = told(epoch=welcome.epoch, database_id=welcome.database_id)
    assert manager.client.register(NODE, same).database_id == welcome.database_id != ""


def test_a_heartbeat_does_not_wait_for_a_loop_that_thinks_for_long(manager: Running) -> None:
    manager.join()
    job = manager.submit()
    mine = HeldWorker(job_id=job.job_id, attempt=1, worker=0, state=WorkerState.RUNNING)
    seen_s = manager.services.leases.last_seen_s(NODE)

    def think(_scheduler: object) -> Welcome:
        """The scheduler is locked meanwhile, as in a step that takes its time."""
        with Client(manager.url, TOKEN, timeout_s=5) as agent:
            return agent.heartbeat(NODE, Heartbeat(workers=(mine,)))

    assert manager.services.loop.ask(think).epoch == 1
    assert manager.services.leases.last_seen_s(NODE) != seen_s
