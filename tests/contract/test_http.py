"""Who may ask the manager over HTTP, and how it refuses what is not sound."""

from __future__ import annotations

import json
import socket
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from manager.http.guard import MAX_BODY_BYTES
from tests.contract.served import TOKEN, Running, eventually

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


def test_health_says_that_nothing_is_accepted_until_a_write_succeeds(
    manager: Running, tmp_path: Path
) -> None:
    def refusing(statement: str) -> None:
        """From outside: the manager itself has written nothing."""
        with sqlite3.connect(tmp_path / "cotenant.db") as connection:
            connection.execute(statement)
        connection.close()

    full = "SELECT RAISE(ABORT, 'database or disk is full')"
    refusing(f"CREATE TRIGGER full_disk BEFORE INSERT ON jobs BEGIN {full}; END")
    assert manager.raw("POST", "/v1/jobs", json=GOOD).status_code == 503
    health = httpx.get(manager.url + "/healthz").json()
    assert (health["status"], "refused the last write" in health["reason"]) == ("degraded", True)
    assert manager.raw("POST", "/v1/jobs", json={}).status_code == 422
    assert manager.raw("POST", "/v1/jobs/job-9/cancel").status_code == 404
    assert httpx.get(manager.url + "/healthz").json() == health
    refusing("DROP TRIGGER full_disk")
    manager.submit()
    assert httpx.get(manager.url + "/healthz").json() == {"status": "ok"}


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
    "many wrong arguments": ({"command": [[]] * 5000}, "command.0: Input should be a valid string"),
    "many unknown fields": ({**GOOD, **{str(n): 1 for n in range(99)}}, "100 fields are too many"),
    "many variables": ({**GOOD, "env": {f"A{n}": "" for n in range(1001)}}, "env: 1001 entries"),
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


@pytest.mark.parametrize(
    ("method", "path", "limit"),
    [
        ("POST", "/v1/jobs", 1 << 20),
        ("PUT", "/v1/profiles/p", 1 << 20),
        ("POST", "/v1/agent/nodes/n/reports", 8 << 20),
    ],
)
def test_a_user_sends_at_most_a_mebibyte_and_an_agent_eight(
    idle: Running, method: str, path: str, limit: int
) -> None:
    for size, status in ((limit, 422), (limit + 1, 413)):
        content = b"{".ljust(size)
        response = idle.raw(method, path, content=content, headers={"Content-Type": "application/json"})
        assert response.status_code == status
    assert response.json() == {"error": f"the request is larger than {limit >> 20} MiB; send less at once"}


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
