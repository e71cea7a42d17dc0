"""The manager's client: one method per route, errors of the one tree."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel, TypeAdapter, ValidationError

from manager.wire.agent_models import (
    Ack,
    AgentCommand,
    CommandBatch,
    Heartbeat,
    LogSize,
    NodeReport,
    ReportBatch,
    Welcome,
    WorkerReport,
)
from manager.wire.models import (
    ExplanationView,
    GpuView,
    InfoView,
    JobEvent,
    JobSpec,
    JobView,
    LogChunk,
    NodeView,
    ProfileSpec,
)
from placement.lifecycle import JobState
from placement.model import (
    CotenantError,
    Denied,
    InvalidInput,
    NotFound,
    OperationFailed,
    StateError,
    Unreachable,
)

T = TypeVar("T", bound=BaseModel)
V = TypeVar("V")
POLL_MARGIN_S = 10.0
"""How much longer than the agreed wait a long poll may take."""


class WrongOffset(StateError):
    """The manager holds ``size`` bytes of that log, not what the caller thought; go on from there."""

    def __init__(self, message: str, size: int) -> None:
        super().__init__(message)
        self.size = size


@dataclass(frozen=True, slots=True)
class _Call:
    """One request; ``timeout_s`` None takes the client's."""

    method: str
    path: str
    params: Mapping[str, str | int | float] = field(default_factory=dict)
    body: BaseModel | bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float | None = None


class Client:
    """Talks to one manager; may be used by several threads.

    Every call raises :class:`Unreachable` (no answer), :class:`Denied` (token), :class:`NotFound`,
    :class:`InvalidInput` (refused with the manager's message) or :class:`OperationFailed`.  A request that is
    cut off is sent once more: every route may be called twice with the effect of once.
    """

    def __init__(self, url: str, token: str | None, timeout_s: float = 10.0) -> None:
        self._url = url.rstrip("/")
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        try:
            self._http = httpx.Client(base_url=self._url, headers=headers, timeout=timeout_s, trust_env=False)
        except (httpx.InvalidURL, UnicodeEncodeError) as error:
            raise InvalidInput(f"manager address or token is not valid: {error}") from None
        self._timeout_s = timeout_s

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    # Users

    def healthy(self) -> bool:
        """Whether a manager answers at that address."""
        try:
            self._send(_Call("GET", "/healthz"))
        except CotenantError:
            return False
        return True

    def info(self) -> InfoView:
        """What this manager is."""
        return self._one(InfoView, _Call("GET", "/v1/info"))

    def submit(self, spec: JobSpec, idempotency_key: str | None = None) -> JobView:
        """Submit a job; the same key twice gives the same job.

        Without a key each call has a new one and is a new job: whoever submits again because no answer came
        makes a key before the first call and gives it in every one.
        """
        headers = {"Idempotency-Key": idempotency_key or str(uuid.uuid4())}
        return self._one(JobView, _Call("POST", "/v1/jobs", body=spec, headers=headers))

    def jobs(
        self,
        state: JobState | None = None,
        tenant: str | None = None,
        *,
        ended: bool | None = None,
        limit: int | None = None,
    ) -> list[JobView]:
        """Jobs in the order of submission, of one state or tenant if given.

        ``ended`` False leaves out those that have ended, True the others; ``limit`` gives only the latest.
        """
        params: dict[str, str | int | float] = {}
        if state is not None:
            params["state"] = state.value
        if tenant is not None:
            params["tenant"] = tenant
        if ended is not None:
            params["ended"] = "true" if ended else "false"
        if limit is not None:
            params["limit"] = limit
        return self._many(list[JobView], _Call("GET", "/v1/jobs", params))

    def job(self, job_id: str) -> JobView:
        """One job."""
        return self._one(JobView, _Call("GET", f"/v1/jobs/{_part(job_id)}"))

    def cancel(self, job_id: str) -> JobView:
        """Ask for the end of a job; an ended job stays as it is."""
        return self._one(JobView, _Call("POST", f"/v1/jobs/{_part(job_id)}/cancel"))

    def explanation(self, job_id: str) -> ExplanationView:
        """Why it waits, or why it was placed there."""
        return self._one(ExplanationView, _Call("GET", f"/v1/jobs/{_part(job_id)}/explanation"))

    def logs(self, job_id: str, worker: int = 0, attempt: int | None = None, offset: int = 0) -> LogChunk:
        """Output of a worker from ``offset`` on; of the latest attempt unless given."""
        params: dict[str, str | int | float] = {"worker": worker, "offset": offset}
        if attempt is not None:
            params["attempt"] = attempt
        return self._one(LogChunk, _Call("GET", f"/v1/jobs/{_part(job_id)}/logs", params))

    def events(self, job_id: str) -> list[JobEvent]:
        """The life of a job so far."""
        return self._many(list[JobEvent], _Call("GET", f"/v1/jobs/{_part(job_id)}/events"))

    def nodes(self) -> list[NodeView]:
        """All nodes."""
        return self._many(list[NodeView], _Call("GET", "/v1/nodes"))

    def gpus(self) -> list[GpuView]:
        """All GPUs with the shares on them."""
        return self._many(list[GpuView], _Call("GET", "/v1/gpus"))

    def metrics(self) -> dict[str, int | float | None]:
        """The metrics of this manager's life so far."""
        answer = self._send(_Call("GET", "/v1/metrics"))
        return _parsed(TypeAdapter(dict[str, int | float | None]), answer)

    def put_profile(self, spec: ProfileSpec) -> ProfileSpec:
        """Define a job profile; the last definition counts."""
        return self._one(ProfileSpec, _Call("PUT", f"/v1/profiles/{_part(spec.name)}", body=spec))

    def profiles(self) -> list[ProfileSpec]:
        """All job profiles."""
        return self._many(list[ProfileSpec], _Call("GET", "/v1/profiles"))

    # Agents

    def register(self, node_id: str, report: NodeReport) -> Welcome:
        """Say what a node is made of; it then takes part."""
        return self._one(Welcome, _Call("PUT", f"/v1/agent/nodes/{_part(node_id)}", body=report))

    def heartbeat(self, node_id: str, heartbeat: Heartbeat) -> Welcome:
        """Renew the node's lease; NotFound means: register (again)."""
        return self._one(
            Welcome, _Call("POST", f"/v1/agent/nodes/{_part(node_id)}/heartbeat", body=heartbeat)
        )

    def commands(self, node_id: str, after: int = 0, wait_s: float = 20.0) -> list[AgentCommand]:
        """Commands after that sequence number, waiting up to ``wait_s`` for the first."""
        path = f"/v1/agent/nodes/{_part(node_id)}/commands"
        params: dict[str, str | int | float] = {"after": after, "wait_s": wait_s}
        timeout_s = wait_s + max(POLL_MARGIN_S, self._timeout_s)
        return list(self._one(CommandBatch, _Call("GET", path, params, timeout_s=timeout_s)).commands)

    def ack(self, node_id: str, sequence: int) -> None:
        """Say that all commands up to and including ``sequence`` are dealt with; they do not come again."""
        self._send(_Call("POST", f"/v1/agent/nodes/{_part(node_id)}/acks", body=Ack(sequence=sequence)))

    def report(self, node_id: str, reports: Sequence[WorkerReport]) -> None:
        """Hand over reports; they are durable when this returns."""
        batch = ReportBatch(reports=tuple(reports))
        self._send(_Call("POST", f"/v1/agent/nodes/{_part(node_id)}/reports", body=batch))

    def append_log(self, node_id: str, worker: tuple[str, int, int], offset: int, data: bytes) -> int:
        """Append output of ``worker`` (job id, attempt, worker); returns the size that the manager now holds.

        Raises:
            WrongOffset: the manager does not hold exactly ``offset`` bytes; ``size`` says how many.
        """
        job_id, attempt, index = worker
        path = f"/v1/agent/nodes/{_part(node_id)}/logs/{_part(job_id)}/{attempt}/{index}"
        return self._one(LogSize, _Call("POST", path, {"offset": offset}, body=data)).size

    # Plumbing

    def _one(self, shape: type[T], call: _Call) -> T:
        return _parsed(TypeAdapter(shape), self._send(call))

    def _many(self, shape: type[list[T]], call: _Call) -> list[T]:
        return _parsed(TypeAdapter(shape), self._send(call))

    def _send(self, call: _Call) -> bytes:
        try:
            response = self._attempt(call)
        except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
            # A kept-alive connection that the manager closed, or a manager that was restarted just now.
            response = self._attempt_last(call)
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error
        if response.is_success:
            return response.content
        raise _error_of(response)

    def _attempt_last(self, call: _Call) -> httpx.Response:
        try:
            return self._attempt(call)
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error

    def _attempt(self, call: _Call) -> httpx.Response:
        headers = dict(call.headers)
        content: bytes | None = None
        if isinstance(call.body, BaseModel):
            headers["Content-Type"] = "application/json"
            content = call.body.model_dump_json().encode()
        elif call.body is not None:
            headers["Content-Type"] = "application/octet-stream"
            content = call.body
        timeout = self._timeout_s if call.timeout_s is None else call.timeout_s
        return self._http.request(
            call.method,
            call.path,
            params=dict(call.params),
            content=content,
            headers=headers,
            timeout=timeout,
        )

    def _unreachable(self, error: httpx.HTTPError) -> Unreachable:
        detail = str(error) or type(error).__name__
        return Unreachable(f"no manager answers at {self._url} ({detail}); is it running? see --manager")


def _part(text: str) -> str:
    return quote(text, safe="")


def _parsed(adapter: TypeAdapter[V], content: bytes) -> V:
    try:
        return adapter.validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise OperationFailed(
            f"the manager's answer cannot be understood: {where}: {first['msg']}"
        ) from error


def _error_of(response: httpx.Response) -> CotenantError:
    try:
        body = response.json()
        message = str(body["error"])
    except (ValueError, KeyError, TypeError):
        body, message = {}, f"the manager answered {response.status_code} without an explanation"
    status = response.status_code
    if status in (401, 403):
        return Denied(message)
    if status == 404:
        return NotFound(message)
    if status == 409:
        size = body.get("size") if isinstance(body, dict) else None
        return WrongOffset(message, size) if isinstance(size, int) else StateError(message)
    if 400 <= status < 500:
        return InvalidInput(message)
    return OperationFailed(message)
