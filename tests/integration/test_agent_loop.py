"""The agent's threads with real shims, under a manager that answers as the test says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent import attempt
from agent.journal import Journal
from agent.uplink import CHUNK_BYTES, MOST_CHUNKS
from manager.wire.agent_models import (
    WorkerState,
)
from manager.wire.models import ProfileSpec
from placement.model import (
    CotenantError,
    ExitCause,
    NotFound,
    OperationFailed,
    StateError,
    Unreachable,
)
from tests.integration.fake_manager import FakeManager, agent_on, folder_of, start, stop
from tests.integration.shim_job import until

pytestmark = pytest.mark.integration
CALLS = ("register", "heartbeat", "commands", "ack", "report", "append_log")


@pytest.fixture
def manager() -> FakeManager:
    return FakeManager()


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "agent"


def test_a_job_from_its_command_to_its_exit_report(manager: FakeManager, data_dir: Path) -> None:
    manager.outbox = [start(1, "echo hello; exit 3")]
    with agent_on(manager, data_dir):
        report = manager.exit_of("job-1")
        until(lambda: manager.acked == [1], "the command is acknowledged")
    assert (report.cause, report.exit_code) == (ExitCause.EXITED, 3)
    assert report.served_s is not None
    assert "job-1/1/0/started" in manager.reports
    assert manager.log("job-1") == "hello\n"
    assert manager.registered[0].simulated
    assert len(manager.registered[0].gpus) == 2


def test_a_command_that_comes_again_is_done_once(
    manager: FakeManager, data_dir: Path, tmp_path: Path
) -> None:
    again = start(1, f"echo run >> {tmp_path}/runs")
    manager.outbox = [again]
    manager.failing["ack"] = Unreachable("gone")
    with agent_on(manager, data_dir):
        manager.exit_of("job-1")
        until(lambda: not folder_of(data_dir).exists(), "it is tidied away")
        seen = manager.called["commands"]
        until(lambda: manager.called["commands"] > seen + 2, "the command came again")
    with agent_on(manager, data_dir):  # and after a restart
        seen = manager.called["commands"]
        until(lambda: manager.called["commands"] > seen + 2, "the command came again")
    assert (tmp_path / "runs").read_text() == "run\n"


def test_a_stop_for_a_worker_that_never_came_keeps_it_from_starting(
    manager: FakeManager, data_dir: Path, tmp_path: Path
) -> None:
    manager.outbox = [stop(2)]
    with agent_on(manager, data_dir):
        assert manager.exit_of("job-1").cause is ExitCause.STOPPED
        until(lambda: not folder_of(data_dir).exists(), "it is tidied away")
        manager.outbox = [start(3, f"echo run >> {tmp_path}/runs"), start(4, "exit 0", "job-2")]
        manager.exit_of("job-2")
    assert not (tmp_path / "runs").exists()


def test_a_stop_reaches_a_running_worker(manager: FakeManager, data_dir: Path) -> None:
    manager.outbox = [start(1, "echo ready; exec sleep 1000")]
    with agent_on(manager, data_dir):
        until(lambda: manager.log("job-1"), "it runs")
        manager.outbox = [stop(2)]
        report = manager.exit_of("job-1")
    assert (report.cause, report.message) == (ExitCause.STOPPED, "cancelled")


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    "error", [Unreachable("gone"), OperationFailed("the disk for logs is full")], ids=["away", "out-of-order"]
)
def test_nothing_is_lost_while_a_call_fails(
    manager: FakeManager, data_dir: Path, call: str, error: CotenantError
) -> None:
    manager.outbox = [start(1, "echo one; sleep 0.2; echo two; exit 5")]
    manager.failing[call] = error
    with agent_on(manager, data_dir):
        until(lambda: manager.called.get(call, 0) >= 2, f"{call} is tried again")
        manager.failing.clear()
        assert manager.exit_of("job-1").exit_code == 5
    assert manager.log("job-1") == "one\ntwo\n"


@pytest.mark.parametrize("call", ["heartbeat", "commands", "report", "append_log"])
def test_a_call_that_succeeds_renews_the_lease_though_all_others_fail(
    manager: FakeManager, data_dir: Path, call: str
) -> None:
    lease = data_dir / "lease"
    script = "while :; do echo step=$((n += 1)) >> $COTENANT_PROGRESS; echo $n; sleep 0.05; done"
    manager.outbox = [start(1, script)]
    with agent_on(manager, data_dir):
        until(lambda: manager.acked and manager.log("job-1"), "it runs")
        manager.failing = {name: OperationFailed("no room") for name in CALLS if name != call}
        for _ in range(3):  # the first time it may be another call that was on its way
            os.utime(lease, (1.0, 1.0))
            until(lambda: lease.stat().st_mtime > 1.0, f"{call} renews the lease")
        manager.failing = {}
        manager.outbox = [stop(2)]
        manager.exit_of("job-1")


def test_a_manager_that_refuses_the_agent_renews_no_lease(manager: FakeManager, data_dir: Path) -> None:
    lease = data_dir / "lease"
    with agent_on(manager, data_dir):
        until(lambda: len(manager.beats) > 1, "it has joined")
        seen = manager.called["register"]
        manager.failing |= dict.fromkeys(("heartbeat", "register"), StateError("another agent speaks for n"))
        until(lambda: manager.called["register"] > seen, "it was refused")
        os.utime(lease, (1.0, 1.0))
        asked = manager.called["commands"]
        until(lambda: manager.called["register"] > seen + 3, "it tries again and again")
        assert manager.called["commands"] <= asked + 1, "it goes on asking for commands"
        assert lease.stat().st_mtime == 1.0
        manager.failing.clear()
        until(lambda: lease.stat().st_mtime > 1.0, "it is taken again")


def test_what_ended_without_the_agent_is_told_by_the_next_one(manager: FakeManager, data_dir: Path) -> None:
    manager.outbox = [start(1, "echo begun; sleep 0.5; echo done; exit 6")]
    with agent_on(manager, data_dir):
        until(lambda: "begun" in manager.log("job-1"), "it runs")
    until((folder_of(data_dir) / attempt.EXIT).exists, "it has ended")
    with agent_on(manager, data_dir):
        assert manager.exit_of("job-1").exit_code == 6
    assert manager.log("job-1") == "begun\ndone\n"


def test_a_folder_left_before_its_shim_was_started_is_started_by_the_next_agent(
    manager: FakeManager, data_dir: Path
) -> None:
    journal = Journal(data_dir)
    order = attempt.Order("job-1", 1, 0, ("sh", "-c", "exit 8"), {"PATH": "/bin:/usr/bin"})
    journal.begin(start(1, "exit 8"), order)
    journal.close()
    with agent_on(manager, data_dir):
        assert manager.exit_of("job-1").exit_code == 8


def test_a_restarted_agent_goes_on_with_the_output_where_the_manager_is(
    manager: FakeManager, data_dir: Path
) -> None:
    manager.outbox = [start(1, "seq 1 20000; echo ready; sleep 0.5; seq 1 20000")]
    with agent_on(manager, data_dir):
        until(lambda: "ready" in manager.log("job-1"), "half of it is there")
    with agent_on(manager, data_dir):
        manager.exit_of("job-1")
    half = "".join(f"{n}\n" for n in range(1, 20_001))
    assert manager.log("job-1") == f"{half}ready\n{half}"


def test_all_output_is_there_before_the_exit_is_told(manager: FakeManager, data_dir: Path) -> None:
    size = MOST_CHUNKS * CHUNK_BYTES + 12_345  # more than one turn sends
    manager.outbox = [start(1, f"head -c {size} /dev/zero | tr '\\0' x")]
    manager.failing["append_log"] = Unreachable("gone")
    with agent_on(manager, data_dir):
        until(
            lambda: manager.beats and [w.state for w in manager.beats[-1].workers] == [WorkerState.EXITED],
            "the agent knows that it has ended",
        )
        manager.failing.clear()
        manager.exit_of("job-1")
    assert manager.held_at_exit["job-1"] == size


def test_commands_of_an_older_manager_are_refused(
    manager: FakeManager, data_dir: Path, tmp_path: Path
) -> None:
    manager.epoch = 5
    with agent_on(manager, data_dir):
        until(lambda: len(manager.beats) > 1, "the epoch is known")
        manager.outbox = [start(1, f"echo run >> {tmp_path}/runs")]  # of epoch 1
        seen = manager.called["commands"]
        until(lambda: manager.called["commands"] > seen + 1, "the command was seen")
    manager.outbox, manager.epoch = [], 4
    with agent_on(manager, data_dir):  # the newest epoch survives a restart
        until(lambda: manager.called["register"] >= 3, "it does not join an older manager")
    assert manager.acked == []
    assert not (tmp_path / "runs").exists()


def test_a_manager_that_does_not_know_the_node_is_joined_again(manager: FakeManager, data_dir: Path) -> None:
    with agent_on(manager, data_dir):
        until(lambda: len(manager.beats) > 1, "it has joined")
        manager.failing["heartbeat"] = NotFound("node n is not known")
        until(lambda: len(manager.registered) > 1, "it joins again")


def test_heartbeats_tell_what_is_held_and_how_busy_the_gpus_are(manager: FakeManager, data_dir: Path) -> None:
    profile = ProfileSpec(name="p", steps_per_s={"*": 10.0}, sm_milli=400, dram_milli=0, memory_bytes=7 << 30)
    jobs = ("job-1", "job-2")
    manager.outbox = [start(n, "exec sleep 1000", jobs[n - 1], profile=profile) for n in (1, 2)]

    def busy() -> bool:
        return len(manager.beats[-1].workers) == 2 and manager.beats[-1].telemetry[0].sm_milli == 2 * round(
            400 / (1 + 1.12 * 0.4)
        )

    with agent_on(manager, data_dir):
        until(lambda: manager.beats and busy(), "both are seen, slowed by each other")
        assert manager.beats[-1].telemetry[0].memory_used_bytes == 14 << 30
        assert manager.beats[-1].telemetry[1].sm_milli == 0
        for job_id in jobs:
            speed = float((folder_of(data_dir, job_id) / attempt.SPEED).read_text())
            assert speed == pytest.approx(1 / (1 + 1.12 * 0.4), abs=1e-5)
        manager.outbox = [stop(3)]
        manager.exit_of("job-1")
        until(
            lambda: float((folder_of(data_dir, "job-2") / attempt.SPEED).read_text()) == 1.0,
            "the other one is at full speed again",
        )
        manager.outbox = [stop(4, "job-2")]
        manager.exit_of("job-2")


def test_progress_is_told_while_the_job_runs(manager: FakeManager, data_dir: Path) -> None:
    profile = ProfileSpec(name="p", steps_per_s={"*": 10.0}, sm_milli=400)
    script = "printf 'step=1 t=100.0\\nstep=21 t=104.0\\n' >> $COTENANT_PROGRESS; sleep 1000"
    manager.outbox = [start(1, script, profile=profile)]
    with agent_on(manager, data_dir):
        until(lambda: "job-1/1/0/progress/21" in manager.reports, "progress is told")
        manager.outbox = [stop(2)]
        manager.exit_of("job-1")
    told = manager.reports["job-1/1/0/progress/21"]
    assert (told.step, told.steps_per_s, told.observed_slowdown) == (21, 5.0, 2.0)


def test_an_adopted_job_whose_neighbour_ended_meanwhile_gets_its_speed_back(
    manager: FakeManager, data_dir: Path
) -> None:
    profile = ProfileSpec(name="p", steps_per_s={"*": 10.0}, sm_milli=400, dram_milli=0)
    manager.outbox = [
        start(1, "exec sleep 1000", profile=profile),
        start(2, "read line < $FIFO", "job-2", profile=profile, env={"FIFO": str(data_dir / "fifo")}),
    ]
    speed = folder_of(data_dir) / attempt.SPEED
    data_dir.mkdir(mode=0o700)
    os.mkfifo(data_dir / "fifo")
    with agent_on(manager, data_dir):
        until(lambda: speed.exists() and float(speed.read_text()) < 1.0, "they slow each other down")
        until((folder_of(data_dir, "job-2") / attempt.STARTED).exists, "the neighbour runs")
    (data_dir / "fifo").write_text("go\n")
    until((folder_of(data_dir, "job-2") / attempt.EXIT).exists, "the neighbour has ended")
    with agent_on(manager, data_dir):
        until(lambda: float(speed.read_text()) == 1.0, "the other one is at full speed again")
        manager.outbox = [stop(3)]
        manager.exit_of("job-1")
