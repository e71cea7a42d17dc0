"""What every request passes first: the token, and a limit on its size."""

from __future__ import annotations

import hmac
import json

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY_BYTES = 1 << 20
MAX_AGENT_BODY_BYTES = 8 << 20
"""Agents report thousands of workers at once, and output in large pieces."""
_AGENT_ROUTES = "/v1/agent/"
OPEN_PATHS = frozenset({"/healthz"})
"""Everything else needs the token, the description of the interface too."""


class Guard:
    """Refuses requests without the token before anything of them is parsed, and bodies that are too large."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
        elif scope["path"] not in OPEN_PATHS and not self._knows_token(scope):
            await _refuse(
                send, 401, "the token is missing or wrong; set COTENANT_TOKEN, or use the endpoint file"
            )
        elif _stated_length(scope) > _limit(scope):
            await _refuse(send, 413, _too_large(_limit(scope)))
        else:
            await self._app(scope, _limited(receive, _limit(scope)), send)

    def _knows_token(self, scope: Scope) -> bool:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        if len(given) != 1:
            return False
        scheme, _, token = given[0].partition(b" ")
        return hmac.compare_digest(token.strip(), self._token) and scheme.lower() == b"bearer"


def _limit(scope: Scope) -> int:
    return MAX_AGENT_BODY_BYTES if scope["path"].startswith(_AGENT_ROUTES) else MAX_BODY_BYTES


def _too_large(limit: int) -> str:
    return f"the request is larger than {limit >> 20} MiB; send less at once"


def _stated_length(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length":
            # The server has checked that these are digits; a number with very many is too large all the same.
            return int(value) if len(value) < 20 and value.isdigit() else MAX_AGENT_BODY_BYTES + 1
    return 0


def _limited(receive: Receive, limit: int) -> Receive:
    """Counts what arrives, for bodies that do not state their length."""
    received = 0

    async def counting() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > limit:
            raise HTTPException(413, _too_large(limit))
        return message

    return counting


async def _refuse(send: Send, status: int, error: str) -> None:
    body = json.dumps({"error": error}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    # What is left of the request is not read: the connection ends with this answer.
    headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
