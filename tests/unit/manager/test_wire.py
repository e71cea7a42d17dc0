"""What is sent to the manager cannot keep it busy: few errors are made of a body, however wrong it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError

from manager.http import agents, cluster, jobs
from manager.wire.agent_models import Ack, GpuReport, GpuTelemetry, HeldWorker, NodeReport, WorkerReport
from manager.wire.fields import Body
from manager.wire.models import MAX_COMMAND_CHARS, JobSpec, ProfileSpec, RequestSpec, TogetherSpec
from placement.model import Devices, Level, Request, Together, node_from_short_form

MANY = 5000
FEW = 40
WRONG: dict[str, Any] = {
    "list": [[]] * MANY,
    "mapping": {str(number): [] for number in range(MANY)},
    "mappings": [{str(number): [] for number in range(MANY)}] * 2,
}


def bodies() -> list[type[BaseModel]]:
    """The shapes of all JSON bodies, and what they are made of."""
    routes = [*jobs.router.routes, *cluster.router.routes, *agents.router.routes]
    outer = {r.body_field.field_info.annotation for r in routes if isinstance(r, APIRoute) and r.body_field}
    inner = {RequestSpec, TogetherSpec, GpuReport, HeldWorker, GpuTelemetry, WorkerReport}
    return sorted(outer | inner, key=lambda shape: shape.__name__)


def test_these_are_the_bodies() -> None:
    assert {JobSpec, ProfileSpec, NodeReport, Ack} < set(bodies())
    assert all(issubclass(shape, Body) for shape in bodies())


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("shape", bodies(), ids=lambda shape: shape.__name__)
def test_validation_stops_at_the_first_errors(shape: type[BaseModel], wrong: Any) -> None:
    for body in ({name: wrong} for name in shape.model_fields):
        with pytest.raises(ValidationError) as caught:
            shape.model_validate(body)
        assert caught.value.error_count() <= FEW
    for body in (WRONG["mapping"], dict.fromkeys(shape.model_fields, wrong)):
        with pytest.raises(ValidationError) as caught:
            shape.model_validate(body)
        assert caught.value.error_count() <= FEW


def test_a_command_that_no_request_could_carry_is_refused_where_it_is_made() -> None:
    with pytest.raises(ValidationError, match="characters"):
        JobSpec(command=("x" * 100_000,) * (MAX_COMMAND_CHARS // 100_000 + 1))


REQUESTS = {
    "nothing said": Request(),
    "several shares of one GPU": Request(gpus=2, compute_milli=300, devices=Devices.SAME),
    "a wish": Request(together=Together(Level.NVLINK)),
    "a condition": Request(together=Together(Level.GPU_TYPE, required=True)),
}


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
def test_a_request_comes_back_as_it_was_sent(request_: Request) -> None:
    sent = RequestSpec.of(request_).model_dump_json()
    assert RequestSpec.model_validate_json(sent).to_request() == request_


def test_a_node_comes_back_as_it_was_reported() -> None:
    made_of = replace(node_from_short_form("2xT4-16GB", "a"), rack="r1", nvlink_domain="n.1")
    sent = NodeReport.of(made_of, simulated=True).model_dump_json()
    assert NodeReport.model_validate_json(sent).to_node("a") == made_of
