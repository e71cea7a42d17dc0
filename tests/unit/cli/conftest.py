"""A manager that lives in memory, put in the place of the client."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from cli.main import main
from manager.wire import client as wire_client
from manager.wire import models
from placement.lifecycle import ENDED, JobState
from placement.model import NotFound, Unreachable

NOW_S = 1_000.0


def job_view(job_id: str = "j1", **fields: Any) -> models.JobView:
    """A queued job of one GPU; fields as given."""
    values: dict[str, Any] = {
        "job_id": job_id,
        "name": "",
        "tenant": "default",
        "state": JobState.QUEUED,
        "attempt": 0,
        "command": ["true"],
        "env": {},
        "workdir": None,
        "request": models.RequestSpec(),
        "workers": 1,
        "kind": "training",
        "priority": 0,
        "preemptible": True,
        "retries": 0,
        "time_limit_s": None,
        "profile": None,
        "submit_s": NOW_S - 90,
    }
    return models.JobView(**{**values, **fields})


def share(mode: str = "mps", milli: int = 300, **fields: Any) -> models.ShareView:
    return models.ShareView(
        gpu_uuid="GPU-sim-0-0", mode=mode, compute_milli=milli, gpu_model="A100-SXM4-80GB", **fields
    )


def assignment(*shares: models.ShareView, worker: int = 0, node_id: str = "sim-0") -> models.AssignmentView:
    return models.AssignmentView(worker=worker, node_id=node_id, shares=list(shares))


@dataclass
class FakeManager:
    """What the client's methods answer; ``lives`` are the views that a job goes through, one per look."""

    lives: dict[str, list[models.JobView]] = field(default_factory=dict)
    submitted: list[models.JobSpec] = field(default_factory=list)
    profiles_put: list[models.ProfileSpec] = field(default_factory=list)
    connected: list[tuple[str, str | None]] = field(default_factory=list)
    chunks: dict[tuple[str, int], list[bytes]] = field(default_factory=dict)
    node_views: list[models.NodeView] = field(default_factory=list)
    gpu_views: list[models.GpuView] = field(default_factory=list)
    explanations: dict[str, models.ExplanationView] = field(default_factory=dict)
    event_views: list[models.JobEvent] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    """The idempotency key of each try to submit."""
    silent: dict[str, int] = field(default_factory=dict)
    """How often each method does not answer before it does."""

    sent: list[models.JobView] = field(default_factory=list)
    """What went over the wire in answer to a question for jobs."""

    def answer(self, method: str) -> None:
        """Raise what the client raises while the manager is away."""
        if self.silent.get(method, 0) > 0:
            self.silent[method] -= 1
            raise Unreachable("no manager answers")

    def hold(self, *views: models.JobView) -> None:
        for view in views:
            self.lives.setdefault(view.job_id, []).append(view)


class FakeClient:
    """The methods of the client that commands use."""

    manager: FakeManager

    def __init__(self, url: str, token: str | None, timeout_s: float = 10.0) -> None:
        self.manager.connected.append((url, token))

    def __enter__(self) -> FakeClient:
        return self

    def __exit__(self, *_error: object) -> None:
        pass

    def info(self) -> models.InfoView:
        self.manager.answer("info")
        return models.InfoView(
            version="0", policy="fifo", belief="none", epoch=1, started_s=0.0, now_s=NOW_S, database="sqlite"
        )

    def submit(self, spec: models.JobSpec, idempotency_key: str | None = None) -> models.JobView:
        self.manager.keys.append(idempotency_key)
        self.manager.answer("submit")
        self.manager.submitted.append(spec)
        return self.manager.lives.get("j1", [job_view("j1")])[0]

    def put_profile(self, spec: models.ProfileSpec) -> models.ProfileSpec:
        self.manager.answer("put_profile")
        self.manager.profiles_put.append(spec)
        return spec

    def jobs(
        self, state: JobState | None = None, tenant: str | None = None, *, ended: bool | None = None
    ) -> list[models.JobView]:
        views = [life[-1] for life in self.manager.lives.values()]
        sent = [
            view
            for view in views
            if state in (None, view.state)
            and tenant in (None, view.tenant)
            and ended in (None, view.state in ENDED)
        ]
        self.manager.sent += sent
        return sent

    def job(self, job_id: str) -> models.JobView:
        life = self.manager.lives.get(job_id)
        if not life:
            raise NotFound(f"no job {job_id!r}; see 'cotenant queue --all'")
        return life.pop(0) if len(life) > 1 else life[0]

    def cancel(self, job_id: str) -> models.JobView:
        view = self.job(job_id)
        if view.state in ENDED:
            return view
        # One that runs is asked first.
        state = JobState.CANCELLED if view.state is JobState.QUEUED else JobState.STOPPING
        return view.model_copy(update={"state": state})

    def explanation(self, job_id: str) -> models.ExplanationView:
        view = self.manager.lives[job_id][-1]
        known = models.ExplanationView(
            job_id=job_id,
            outcome="fit",
            reasons={},
            candidates=0,
            predicted_slowdown=view.predicted_slowdown,
            predicted_upper=view.predicted_upper,
        )
        return self.manager.explanations.get(job_id, known)

    def events(self, job_id: str) -> list[models.JobEvent]:
        return self.manager.event_views

    def nodes(self) -> list[models.NodeView]:
        return self.manager.node_views

    def gpus(self) -> list[models.GpuView]:
        return self.manager.gpu_views

    def logs(
        self, job_id: str, worker: int = 0, attempt: int | None = None, offset: int = 0
    ) -> models.LogChunk:
        """The parts of an attempt one by one: a look between two parts finds nothing new."""
        latest = max((a for j, a in self.manager.chunks if j == job_id), default=1)
        number = attempt or latest
        whole = b"".join(self.manager.chunks.get((job_id, number), []))
        part = whole[offset : offset + 4]
        end = offset + len(part)
        return models.LogChunk(
            text_base64=base64.b64encode(part).decode(),
            attempt=number,
            next_offset=end,
            complete=end == len(whole) and (job_id, number) in self.manager.chunks,
        )


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> FakeManager:
    """A manager in memory that every command connects to; nothing of the user's own is read."""
    fake = FakeManager()
    monkeypatch.setattr(wire_client, "Client", type("BoundClient", (FakeClient,), {"manager": fake}))
    monkeypatch.setattr("cli.follow.POLL_S", 0.0)
    isolate(monkeypatch, tmp_path)
    return fake


def isolate(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Let no setting of the machine that runs the tests play a part."""
    monkeypatch.setenv("COTENANT_ENDPOINT_FILE", str(tmp_path / "endpoint.json"))
    for name in ("COTENANT_MANAGER", "COTENANT_TOKEN", "COTENANT_DEBUG"):
        monkeypatch.delenv(name, raising=False)


@dataclass(frozen=True)
class Answer:
    """What a command line left: exit status, and what it wrote."""

    status: int
    out: str
    err: str


Run = Callable[..., Answer]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Run:
    """Run a command line in this process."""
    isolate(monkeypatch, tmp_path)

    def command(*words: str) -> Answer:
        status = main(words)
        captured = capsys.readouterr()
        return Answer(status, captured.out, captured.err)

    return command


def words(line: str) -> Sequence[str]:
    return line.split()
