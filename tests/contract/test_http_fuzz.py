"""Whatever is sent, the manager answers with a line and goes on."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.contract.served import Running, serving

ROUTES: dict[str, tuple[str, str, Any]] = {
    "submit": (
        "POST",
        "/v1/jobs",
        {
            "command": ["a", "b"],
            "env": {"A": "b"},
            "workers": 1,
            "tenant": "t",
            "time_limit_s": 5.0,
            "request": {
                "gpus": 1,
                "memory_bytes": 5,
                "modes": ["mps"],
                "gpu_models": ["A100"],
                "max_slowdown": 1.5,
            },
        },
    ),
    "profile": ("PUT", "/v1/profiles/p", {"name": "p", "steps_per_s": {"*": 1.5}, "sm_milli": 5}),
    "node": (
        "PUT",
        "/v1/agent/nodes/n",
        {
            "gpus": [{"uuid": "G", "model": "A100-SXM4-80GB", "memory_bytes": 5}],
            "cpu_milli": 5,
            "simulated": True,
        },
    ),
    "heartbeat": (
        "POST",
        "/v1/agent/nodes/n/heartbeat",
        {
            "epoch": 1,
            "workers": [{"job_id": "job-1", "attempt": 1, "worker": 0, "state": "running"}],
            "telemetry": [{"gpu_uuid": "G", "sm_milli": 5, "memory_used_bytes": 5}],
        },
    ),
    "reports": (
        "POST",
        "/v1/agent/nodes/n/reports",
        {
            "reports": [
                {
                    "report_id": "r",
                    "kind": "exited",
                    "job_id": "job-1",
                    "attempt": 1,
                    "worker": 0,
                    "cause": "exited",
                    "exit_code": 1,
                    "served_s": 1.5,
                    "step": 4,
                }
            ]
        },
    ),
    "ack": ("POST", "/v1/agent/nodes/n/acks", {"sequence": 1}),
}
HOSTILE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from([-1, 0, 1 << 31, 1 << 53, 1 << 62, 1 << 63, 1 << 64, 10**400, -(10**400)]),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(
        [
            "",
            "\0",
            "..",
            "../..",
            "\ud800",
            "x" * 70,
            "\U0001d7d9",
            "job-1\n",
            "%00",
            "mps",
            "exited",
            "A100-SXM4-80GB",
        ]
    ),
    st.lists(st.integers() | st.text(max_size=3), max_size=3),
    st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=3), max_size=3),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield from places(each, (*path, key))


def with_change(body: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    changed = copy.deepcopy(body)
    target = changed
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    return changed


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(tmp_path_factory.mktemp("fuzzed")) as running:
        running.join(node_id="n")
        running.submit()
        yield running


@pytest.mark.parametrize("route", ROUTES.values(), ids=ROUTES)
@settings(
    max_examples=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_no_body_makes_the_manager_fail(
    manager: Running, route: tuple[str, str, Any], data: st.DataObject
) -> None:
    method, path, body = route
    place = data.draw(st.sampled_from(sorted(places(body), key=repr)), label="place")
    changed = with_change(body, place, data.draw(HOSTILE, label="value"))
    content = json.dumps(changed).encode()
    response = manager.raw(method, path, content=content, headers={"Content-Type": "application/json"})
    assert response.status_code < 500, response.text
    if response.status_code >= 400:
        assert list(response.json()) == ["error"]
        assert "\n" not in response.json()["error"]
    assert manager.services.loop.counters.failures == 0
    with manager.services.store.database.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM quarantine").scalar_one() == 0
