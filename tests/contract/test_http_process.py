"""The manager as a process: how it starts, ends, and goes on after being killed."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from manager.wire.agent_models import CommandKind, NodeReport, ReportKind, WorkerReport
from manager.wire.client import Client, WrongOffset
from manager.wire.models import JobSpec, RequestSpec
from placement.lifecycle import ENDED, JobState
from placement.model import CotenantError, ExitCause
from placement.model.hardware import node_from_short_form

pytestmark = pytest.mark.integration
PROGRAM = """
import sys
from pathlib import Path
from manager.main import ManagerSettings, serve
from placement.model import CotenantError
try:
    serve(ManagerSettings(data_dir=Path(sys.argv[1]), listen=sys.argv[2], **eval(sys.argv[3])))
except CotenantError as error:
    sys.exit(f"error: {error}")
"""
START_S = 60.0
KILLS = 5


class Manager:
    """A manager process on one data folder, started again at will."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.process: subprocess.Popen[str] | None = None

    def start(self, listen: str = "127.0.0.1:0", **settings: object) -> subprocess.Popen[str]:
        (self.data_dir / "endpoint.json").unlink(missing_ok=True)
        command = [sys.executable, "-c", PROGRAM, str(self.data_dir), listen, repr(settings)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        return self.process

    def client(self) -> Client:
        """A client of the manager that was started last, once it answers."""
        endpoint = self.data_dir / "endpoint.json"
        wait_for(endpoint.exists)
        found = json.loads(endpoint.read_text())
        client = Client(found["url"], Path(found["token_file"]).read_text().strip())
        wait_for(client.healthy)
        return client

    def end(self, sig: signal.Signals) -> int:
        assert self.process is not None
        self.process.send_signal(sig)
        return self.process.wait(timeout=START_S)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + START_S
    while not condition():
        assert time.monotonic() < deadline_s, "it did not come about in time"
        time.sleep(0.02)


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    made = Manager(tmp_path / "data")
    yield made
    if made.process is not None and made.process.poll() is None:
        made.process.kill()
        made.process.wait()


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_at_once_and_without_failure_when_told_even_with_a_long_poll(
    manager: Manager, sig: signal.Signals
) -> None:
    manager.start(fence_s=90.5)
    client = manager.client()
    client.register("node-a", NodeReport())
    poll = subprocess.Popen(
        [sys.executable, "-c", POLL, str(manager.data_dir)], stdout=subprocess.PIPE, text=True
    )
    assert poll.stdout is not None
    assert poll.stdout.readline() == "polling\n"
    began_s = time.monotonic()
    assert manager.end(sig) == 0
    assert time.monotonic() - began_s < 10
    poll.wait(timeout=START_S)
    assert manager.process is not None
    assert manager.process.stderr is not None
    assert "running jobs go on for up to 90.5 s without a manager" in manager.process.stderr.read()


POLL = """
import json, sys
from pathlib import Path
from manager.wire.client import Client
found = json.loads((Path(sys.argv[1]) / "endpoint.json").read_text())
client = Client(found["url"], Path(found["token_file"]).read_text().strip())
client.info()
print("polling", flush=True)
client.commands("node-a", wait_s=60)
"""


def test_a_second_manager_on_the_same_folder_is_refused(manager: Manager) -> None:
    manager.start()
    manager.client().close()
    second = Manager(manager.data_dir)
    command = [sys.executable, "-c", PROGRAM, str(second.data_dir), "127.0.0.1:0", "{}"]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=START_S, check=False)
    assert refused.returncode == 1
    assert manager.process is not None
    owner = f"another manager (process {manager.process.pid}) is running on {manager.data_dir}"
    assert f"{owner}; stop that one first" in refused.stderr


@pytest.mark.parametrize(
    ("listen", "settings", "complaint"),
    [
        ("0.0.0.0:0", {}, "open to other machines"),
        ("203.0.113.7:7077", {"token": "0123456789abcdef"}, "cannot listen on"),
        ("127.0.0.1:0", {"policy": "nobody"}, "policy 'nobody' is unknown"),
        ("127.0.0.1:0", {"database_url": "sqlite:////nowhere/x.db"}, "unable to open database file"),
    ],
)
def test_what_cannot_work_ends_in_one_line(
    manager: Manager, listen: str, settings: dict[str, object], complaint: str
) -> None:
    process = manager.start(listen, **settings)
    _out, err = process.communicate(timeout=START_S)
    assert process.returncode == 1
    assert complaint in err.splitlines()[-1]
    assert "Traceback" not in err


def test_a_manager_that_was_superseded_ends_by_itself_and_says_why(manager: Manager, tmp_path: Path) -> None:
    database_url = f"sqlite:///{tmp_path}/shared.db"
    old = manager.start(database_url=database_url)
    manager.client().close()
    new = Manager(tmp_path / "other")
    new.start(database_url=database_url)
    client = new.client()
    _out, err = old.communicate(timeout=START_S)
    assert (old.returncode, "another manager leads" in err.splitlines()[-1]) == (1, True)
    assert client.submit(JobSpec(command=("true",))).job_id == "job-1"
    client.close()
    assert new.end(signal.SIGTERM) == 0


def test_a_manager_that_is_superseded_before_it_serves_ends_all_the_same(tmp_path: Path) -> None:
    """The loop may find out before the server is up; a server without a loop would serve on for ever."""
    url, program = f"sqlite:///{tmp_path}/shared.db", SUPERSEDED_EARLY
    command = [sys.executable, "-c", program, str(tmp_path / "data"), url]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=START_S, check=False)
    assert (ended.returncode, "another manager leads" in ended.stderr.splitlines()[-1]) == (1, True)


SUPERSEDED_EARLY = """
import sys
from pathlib import Path
from manager import main
from manager.store import Store
from placement.model import CotenantError

assembled = main.assemble

def overtaken(settings):
    services = assembled(settings)
    Store.open(settings.url).steps.begin_epoch()
    if services.loop._thread is not None:
        services.loop._thread.join(5)  # it had time to find out
    return services

main.assemble = overtaken
try:
    main.serve(main.ManagerSettings(Path(sys.argv[1]), "127.0.0.1:0", database_url=sys.argv[2]))
except CotenantError as error:
    sys.exit(f"error: {error}")
"""


def test_secrets_are_the_owner_s_alone(manager: Manager) -> None:
    manager.start()
    manager.client().close()
    for name in ("token", "endpoint.json", "cotenant.db", "manager.lock"):
        assert (manager.data_dir / name).stat().st_mode & 0o077 == 0, name


class FakeAgent:
    """Does what an agent has to: remembers a command, then acknowledges; repeats what was not answered."""

    def __init__(self, node_id: str) -> None:
        self.node_id = node_id
        self.ran: dict[tuple[str, int, int], int] = {}
        self.outbox: list[WorkerReport] = []

    def turn(self, client: Client) -> None:
        client.register(
            self.node_id,
            NodeReport.of(node_from_short_form("2xA100-SXM4-80GB", self.node_id), simulated=True),
        )
        for command in client.commands(self.node_id, wait_s=0):
            worker = (command.job_id, command.attempt, command.worker)
            if command.kind is CommandKind.START and worker not in self.ran:
                self.ran[worker] = 1
                self._tell(worker, ReportKind.STARTED)
                self._tell(
                    worker, ReportKind.EXITED, cause=ExitCause.EXITED, exit_code=int(command.env["CODE"])
                )
            client.ack(self.node_id, command.sequence)
        for worker in self.ran:
            self._send_log(client, worker)
        if self.outbox:
            client.report(self.node_id, self.outbox)
            self.outbox.clear()

    def _tell(self, worker: tuple[str, int, int], kind: ReportKind, **more: object) -> None:
        job_id, attempt, index = worker
        name = f"{self.node_id}/{job_id}/{attempt}/{index}/{kind.value}"
        report = WorkerReport(report_id=name, kind=kind, job_id=job_id, attempt=attempt, worker=index, **more)
        self.outbox.append(report)

    def _send_log(self, client: Client, worker: tuple[str, int, int]) -> None:
        text = log_of(worker[0])
        offset = 0
        while offset < len(text):
            try:
                offset = client.append_log(self.node_id, worker, offset, text[offset : offset + 7])
            except WrongOffset as error:
                offset = error.size


def log_of(job_id: str) -> bytes:
    return f"output of {job_id}, every byte once\n".encode()


@pytest.mark.timeout(120)
def test_killed_at_random_moments_every_job_is_accepted_once_and_ends_once(manager: Manager) -> None:
    draw, agents = random.Random(8), [FakeAgent("node-a"), FakeAgent("node-b")]
    codes = {f"key-{number}": draw.choice((0, 0, 3)) for number in range(KILLS * 3)}
    accepted: dict[str, str] = {}
    for kill in range(KILLS):
        manager.start()
        client = manager.client()
        killer = subprocess.Popen(
            [sys.executable, "-c", KILL, str(process_id(manager)), str(draw.random() * 0.2)]
        )
        with pytest.raises(CotenantError):
            work(client, agents, accepted, dict(list(codes.items())[: 3 * (kill + 1)]))
        killer.wait()
        assert manager.end(signal.SIGKILL) == -signal.SIGKILL
        client.close()
    manager.start()
    client = manager.client()
    wait_for(lambda: work_once(client, agents, accepted, codes))
    for key, job_id in accepted.items():
        job = client.job(job_id)
        expected = JobState.SUCCEEDED if codes[key] == 0 else JobState.FAILED
        assert (job.state, job.exit_code, job.attempt) == (expected, codes[key], 1)
        assert client.logs(job_id).data == log_of(job_id)
        assert sum(event.after in ENDED for event in client.events(job_id)) == 1
        assert sum((job_id, 1, 0) in agent.ran for agent in agents) == 1
    assert sorted(accepted.values()) == sorted(job.job_id for job in client.jobs())
    assert client.info().epoch == KILLS + 1


def work(client: Client, agents: list[FakeAgent], accepted: dict[str, str], codes: dict[str, int]) -> None:
    """Work until the manager is gone."""
    deadline_s = time.monotonic() + START_S
    while time.monotonic() < deadline_s:
        work_once(client, agents, accepted, codes)


def work_once(
    client: Client, agents: list[FakeAgent], accepted: dict[str, str], codes: dict[str, int]
) -> bool:
    """One round of a user and the agents; gives whether all jobs have ended."""
    for key, code in codes.items():
        if key not in accepted:
            spec = JobSpec(command=("x",), env={"CODE": str(code)}, request=RequestSpec(gpus=1))
            accepted[key] = client.submit(spec, idempotency_key=key).job_id
    for agent in agents:
        agent.turn(client)
    return all(job.state in ENDED for job in client.jobs())


def process_id(manager: Manager) -> int:
    assert manager.process is not None
    return manager.process.pid


KILL = (
    "import os, signal, sys, time; time.sleep(float(sys.argv[2])); os.kill(int(sys.argv[1]), signal.SIGKILL)"
)
