"""The manager over real HTTP: what users and agents may rely on, and how it refuses the rest."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
import uvicorn

from manager.http.app import create_app
from manager.http.guard import MAX_BODY_BYTES
from manager.main import Server, assemble
from manager.services import Services
from manager.settings import ManagerSettings
from manager.wire.agent_models import (
    CommandKind,
    GpuTelemetry,
    Heartbeat,
    HeldWorker,
    NodeReport,
    ReportKind,
    WorkerReport,
    WorkerState,
)
from manager.wire.client import Client, WrongOffset
from manager.wire.models import MASK, JobSpec, JobView, ProfileSpec, RequestSpec
from placement.lifecycle import JobState
from placement.model import Denied, ExitCause, InvalidInput, NotFound, StateError, Unreachable
from placement.model.hardware import node_from_short_form

TOKEN = "a-token-for-tests-only"
NODE = "node-a"


@dataclass(slots=True)
class Running:
    services: Services
    url: str
    client: Client

    def raw(self, method: str, path: str, **more: object) -> httpx.Response:
        headers = {"Authorization": f"Bearer {TOKEN}", **more.pop("headers", {})}  # type: ignore[dict-item]
        return httpx.request(method, self.url + path, headers=headers, timeout=10, **more)  # type: ignore[arg-type]

    def join(self, form: str = "2xA100-SXM4-80GB", node_id: str = NODE) -> None:
        report = NodeReport.of(node_from_short_form(form, node_id), simulated=True)
        self.client.register(node_id, report)

    def submit(self, **more: object) -> JobView:
        return self.client.submit(JobSpec(**{"command": ("true",), **more}))

    def report(self, job: JobView, kind: ReportKind, **more: object) -> None:
        name = f"{job.job_id}-{job.attempt}-{kind.value}-{more.get('step')}"
        report = WorkerReport(
            report_id=name, kind=kind, job_id=job.job_id, attempt=job.attempt, worker=0, **more
        )
        self.client.report(NODE, [report])


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Running]:
    with serving(tmp_path) as running:
        yield running


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One manager for all tests that must not change anything in it."""
    with serving(tmp_path_factory.mktemp("idle")) as running:
        yield running


@contextmanager
def serving(tmp_path: Path) -> Iterator[Running]:
    services = assemble(ManagerSettings(data_dir=tmp_path, token=TOKEN))
    config = uvicorn.Config(
        create_app(services), log_config=None, lifespan="off", timeout_graceful_shutdown=2
    )
    server = Server(config, services.bell)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        services.loop.start()
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            with Client(url, TOKEN) as client:
                yield Running(services, url, client)
        finally:
            server.end()
            thread.join()
            services.loop.stop()
            services.store.close()


def eventually(condition: Callable[[], bool], within_s: float = 10.0) -> None:
    deadline_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline_s, "it did not come about in time"
        time.sleep(0.01)


# Who may ask


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer wrong-token-for-tests"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": f"Bearer {TOKEN[:-1]}"},
        {"Authorization": TOKEN},
    ],
)
@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/agent/nodes/a/commands", "/openapi.json", "/nowhere"])
def test_without_the_token_nothing_is_shown(idle: Running, path: str, headers: dict[str, str]) -> None:
    response = httpx.get(idle.url + path, headers=headers)
    assert response.status_code == 401
    assert list(response.json()) == ["error"]


def test_health_needs_no_token_and_two_tokens_are_none(idle: Running) -> None:
    assert httpx.get(idle.url + "/healthz").json() == {"status": "ok"}
    twice = [("Authorization", f"Bearer {TOKEN}"), ("Authorization", "Bearer x")]
    assert httpx.get(idle.url + "/v1/jobs", headers=twice).status_code == 401


def test_health_says_that_nothing_is_decided_once_the_loop_is_gone(manager: Running) -> None:
    manager.services.store.steps.begin_epoch()
    manager.services.store.steps.epoch -= 1  # as if another manager had taken over
    manager.services.loop.wake()

    def health() -> dict[str, str]:
        found: dict[str, str] = httpx.get(manager.url + "/healthz").json()
        return found

    eventually(lambda: health()["status"] == "degraded")
    assert "loop has ended" in health()["reason"]


def test_every_route_is_described_and_asks_for_the_token(idle: Running) -> None:
    described = idle.raw("GET", "/openapi.json").json()
    versioned = {path: item for path, item in described["paths"].items() if path != "/healthz"}
    assert len(versioned) >= 17
    for path, item in versioned.items():
        for operation in item.values():
            assert operation["security"] == [{"HTTPBearer": []}], path


# What is refused

GOOD = {"command": ["true"]}
BAD_SPECS = {
    "no command": ({}, "command: Field required"),
    "empty command": ({"command": []}, "command:"),
    "empty program": ({"command": [""]}, "program's name is empty"),
    "unknown field": ({**GOOD, "gpus": 1}, "gpus: there is no such field"),
    "unknown nested field": ({**GOOD, "request": {"gpu": 1}}, "request.gpu: there is no such field"),
    "NUL": ({"command": ["a\0b"]}, "NUL"),
    "NUL in a variable": ({**GOOD, "env": {"A": "\0"}}, "NUL"),
    "variable name": ({**GOOD, "env": {"A=B": "x"}}, "env"),
    "lone surrogate": ({"command": ["\ud800"]}, "command"),
    "negative gpus": ({**GOOD, "request": {"gpus": -1}}, "request.gpus"),
    "gpus as text": ({**GOOD, "request": {"gpus": "1"}}, "request.gpus"),
    "gpus as a flag": ({**GOOD, "request": {"gpus": True}}, "request.gpus"),
    "half a gpu": ({**GOOD, "request": {"gpus": 0.5}}, "request.gpus"),
    "compute above a GPU": ({**GOOD, "request": {"compute_milli": 1300}}, "request.compute_milli"),
    "zero memory": ({**GOOD, "request": {"memory_bytes": 0}}, "request.memory_bytes"),
    "memory beyond int64": ({**GOOD, "request": {"memory_bytes": 1 << 70}}, "request.memory_bytes"),
    "slowdown below 1": ({**GOOD, "request": {"max_slowdown": 0.5}}, "request.max_slowdown"),
    "unknown mode": ({**GOOD, "request": {"modes": ["half"]}}, "request.modes.0"),
    "mig profile without mig": (
        {**GOOD, "request": {"modes": ["mps"], "mig_profile": "1g.10gb"}},
        "mig_profile",
    ),
    "unknown mig profile": ({**GOOD, "request": {"mig_profile": "9g.99gb"}}, "no known MIG profile"),
    "unknown GPU": ({**GOOD, "request": {"gpu_models": ["A100-SXM4-81GB"]}}, "did you mean A100-SXM4-80GB"),
    "unknown profile": ({**GOOD, "profile": "nobody"}, "no known job profile"),
    "tenant": ({**GOOD, "tenant": "../x"}, "tenant"),
    "long name": ({**GOOD, "name": "x" * 5000}, "name"),
    "zero workers": ({**GOOD, "workers": 0}, "workers"),
    "too many workers": ({**GOOD, "workers": 10**9}, "workers"),
    "time limit": ({**GOOD, "time_limit_s": -1}, "time_limit_s"),
    "large command": ({"command": ["x" * 100_000] * 20}, "characters"),
    "a list": ([], "request"),
}


@pytest.mark.parametrize(("spec", "complaint"), BAD_SPECS.values(), ids=BAD_SPECS)
def test_a_bad_submission_gets_one_clear_line(idle: Running, spec: object, complaint: str) -> None:
    response = idle.raw(
        "POST", "/v1/jobs", content=json.dumps(spec), headers={"Content-Type": "application/json"}
    )
    assert response.status_code == 422
    error = response.json()["error"]
    assert complaint in error
    assert "\n" not in error
    assert idle.client.jobs() == []


BAD_BODIES = {
    "NaN": '{"command": ["a"], "grace_s": NaN}',
    "Infinity": '{"command": ["a"], "grace_s": Infinity}',
    "minus infinity": '{"command": ["a"], "request": {"max_slowdown": -Infinity}}',
    "huge number": '{"command": ["a"], "workers": %s}' % ("9" * 10_000),
    "huge exponent": '{"command": ["a"], "grace_s": 1e999}',
    "deep": "[" * 100_000,
    "deep objects": '{"command":' * 50_000,
    "cut off": '{"command": ["a"',
    "empty": "",
    "not UTF-8": b'{"command": ["\xff\xfe"]}',
    "NUL bytes": b"\0\0\0\0",
    "a number": "7",
    "null": "null",
}


@pytest.mark.parametrize("body", BAD_BODIES.values(), ids=BAD_BODIES)
def test_a_body_that_is_no_sound_json_is_refused(idle: Running, body: str | bytes) -> None:
    response = idle.raw("POST", "/v1/jobs", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == 422
    assert "\n" not in response.json()["error"]
    assert idle.client.jobs() == []


def test_a_body_that_is_too_large_is_refused_whether_it_says_so_or_not(idle: Running) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(MAX_BODY_BYTES // (1 << 16) + 2):
            yield b" " * (1 << 16)

    with socket.create_connection(urlsplit(idle.url).netloc.split(":")) as connection:
        lines = (
            "POST /v1/jobs HTTP/1.1",
            "Host: x",
            f"Authorization: Bearer {TOKEN}",
            "Content-Length: 99999999",
        )
        head = "".join(f"{line}\r\n" for line in (*lines, ""))
        connection.sendall(head.encode())
        assert connection.recv(1000).startswith(b"HTTP/1.1 413")
    response = idle.raw("POST", "/v1/jobs", content=endless(), headers={"Content-Type": "application/json"})
    assert response.status_code == 413
    assert "larger than" in response.json()["error"]
    assert idle.client.healthy()


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/jobs/job-99", 404),
        ("GET", "/v1/jobs/..%2f..%2fetc", 404),
        ("GET", "/v1/jobs/a%00b", 422),
        ("POST", "/v1/jobs/job-99/cancel", 404),
        ("GET", "/v1/jobs/job-99/logs", 404),
        ("GET", "/v1/jobs/job-99/events", 404),
        ("GET", "/v1/jobs/job-99/explanation", 404),
        ("GET", "/v1/jobs?state=happy", 422),
        ("GET", "/v1/jobs?tenant=%00", 422),
        ("GET", "/v1/jobs?limit=0", 422),
        ("GET", "/v1/jobs?limit=" + "9" * 5000, 422),
        ("DELETE", "/v1/jobs/job-1", 405),
        ("GET", "/v1/nowhere", 404),
        ("GET", "/v1/agent/nodes/nobody/commands?wait_s=0", 404),
        ("GET", "/v1/agent/nodes/nobody/commands?wait_s=nan", 422),
        ("GET", "/v1/agent/nodes/nobody/commands?wait_s=1e9", 422),
        ("GET", "/v1/agent/nodes/nobody/commands?after=-1", 422),
        ("POST", "/v1/agent/nodes/nobody/logs/job-1/1/0", 404),
    ],
)
def test_what_does_not_exist_or_cannot_be_gets_its_status(
    idle: Running, method: str, path: str, status: int
) -> None:
    response = idle.raw(method, path)
    assert response.status_code == status
    assert list(response.json()) == ["error"]


def test_a_secret_value_is_not_repeated_in_a_complaint(idle: Running) -> None:
    spec = {**GOOD, "env": {"PASSWORD": "hunter2\0"}}
    response = idle.raw("POST", "/v1/jobs", json=spec)
    assert response.status_code == 422
    assert "hunter2" not in response.text


# Users


def test_a_submission_is_answered_with_where_it_was_placed(manager: Running) -> None:
    manager.join()
    job = manager.submit(name="first", env={"KEY": "secret"}, tenant="blue")
    assert (job.job_id, job.state, job.env, job.position) == ("job-1", JobState.STARTING, {"KEY": MASK}, None)
    assert [(a.node_id, a.shares[0].gpu_model) for a in job.assignments] == [(NODE, "A100-SXM4-80GB")]
    assert manager.client.explanation("job-1").outcome == "fit"


def test_the_same_key_gives_the_same_job_and_never_another(manager: Running) -> None:
    spec = JobSpec(command=("true",))
    first = manager.client.submit(spec, idempotency_key="k1")
    assert manager.client.submit(spec, idempotency_key="k1").job_id == first.job_id
    assert manager.client.submit(spec, idempotency_key="k2").job_id != first.job_id
    with pytest.raises(InvalidInput, match="used for another job"):
        manager.client.submit(JobSpec(command=("false",)), idempotency_key="k1")


def test_the_same_key_from_many_at_once_makes_one_job(manager: Running) -> None:
    found: list[str] = []
    spec = JobSpec(command=("true",))

    def submit() -> None:
        found.append(manager.client.submit(spec, idempotency_key="same").job_id)

    threads = [threading.Thread(target=submit) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == ["job-1"] * 8


def test_a_job_that_could_never_fit_is_rejected_with_reasons(manager: Running) -> None:
    manager.join()
    job = manager.submit(request=RequestSpec(gpus=1, memory_bytes=1 << 40))
    assert job.state is JobState.REJECTED
    assert "memory" in job.failure
    assert manager.client.cancel(job.job_id).state is JobState.REJECTED
    assert job.failure in manager.client.explanation(job.job_id).note


def test_waiting_jobs_have_places_and_reasons(manager: Running) -> None:
    manager.join()
    jobs = [manager.submit(request=RequestSpec(gpus=2, modes=("exclusive",))) for _ in range(3)]
    shown = manager.client.jobs(state=JobState.QUEUED)
    assert [(job.job_id, job.position) for job in shown] == [(jobs[1].job_id, 0), (jobs[2].job_id, 1)]
    why = manager.client.explanation(jobs[1].job_id)
    assert why.outcome != "fit"
    assert sum(why.reasons.values()) > 0


def test_listings_can_be_narrowed(manager: Running) -> None:
    for tenant in ("blue", "red", "blue"):
        manager.submit(tenant=tenant)
    assert [job.job_id for job in manager.client.jobs(tenant="blue")] == ["job-1", "job-3"]
    assert manager.client.jobs(state=JobState.RUNNING) == []


def test_a_listing_shows_only_jobs_that_have_not_ended_or_the_latest(manager: Running) -> None:
    jobs = [manager.submit().job_id for _ in range(4)]
    manager.client.cancel(jobs[1])
    assert [job.job_id for job in manager.client.jobs(ended=False)] == [jobs[0], jobs[2], jobs[3]]
    assert [job.job_id for job in manager.client.jobs(ended=True)] == [jobs[1]]
    assert [job.job_id for job in manager.client.jobs(limit=2)] == [jobs[2], jobs[3]]
    assert [job.job_id for job in manager.client.jobs(ended=False, limit=3)] == [jobs[0], jobs[2], jobs[3]]


def test_a_profile_can_be_used_as_soon_as_it_is_accepted(manager: Running) -> None:
    profile = ProfileSpec(name="vision", steps_per_s={"*": 10.0}, sm_milli=500)
    manager.client.put_profile(profile)
    assert manager.submit(profile="vision").profile == "vision"
    assert manager.client.profiles() == [profile]
    response = manager.raw("PUT", "/v1/profiles/other", json=profile.model_dump())
    assert (response.status_code, "make them equal" in response.json()["error"]) == (422, True)


def test_metrics_and_info_are_complete(manager: Running) -> None:
    manager.join()
    manager.submit()
    metrics = manager.client.metrics()
    assert (metrics["jobs_total"], metrics["jobs_completed"], metrics["avg_jct_s"]) == (1, 0, None)
    info = manager.client.info()
    assert (info.epoch, info.policy, info.database) == (1, "backfill", "sqlite")


# Agents


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


# The client


def test_errors_of_the_client_are_of_the_tree(manager: Running) -> None:
    with Client(manager.url, "wrong-token-for-tests") as stranger, pytest.raises(Denied):
        stranger.info()
    with Client(manager.url, None) as nobody, pytest.raises(Denied):
        nobody.info()
    with pytest.raises(NotFound, match="job-5"):
        manager.client.job("job-5")
    with (
        Client("http://127.0.0.1:9", TOKEN, timeout_s=2) as lost,
        pytest.raises(Unreachable, match=r"127\.0\.0\.1:9"),
    ):
        lost.info()


def test_a_store_that_refuses_is_told_and_nothing_is_accepted(manager: Running) -> None:
    with manager.services.store.database.write() as connection:
        connection.exec_driver_sql("ALTER TABLE inbox RENAME TO gone")
    response = manager.raw("POST", "/v1/jobs", json=GOOD)
    assert response.status_code == 503
    assert "\n" not in response.json()["error"]
    with manager.services.store.database.write() as connection:
        connection.exec_driver_sql("ALTER TABLE gone RENAME TO inbox")
    assert manager.client.jobs() == []
    assert manager.submit().job_id == "job-1"
