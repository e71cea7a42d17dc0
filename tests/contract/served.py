"""A manager over real HTTP, for the tests of its contract."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import uvicorn

from manager.http.app import create_app
from manager.main import Server, assemble
from manager.services import Services
from manager.settings import ManagerSettings
from manager.wire.agent_models import (
    NodeReport,
    ReportKind,
    WorkerReport,
)
from manager.wire.client import Client
from manager.wire.models import JobSpec, JobView
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
