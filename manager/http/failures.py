"""Errors as answers: a status and one line."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

from manager.wire.client import WrongOffset
from placement.model import CotenantError, Denied, Impossible, InvalidInput, NotFound, StateError

log = logging.getLogger(__name__)

_STATUS: tuple[tuple[type[CotenantError], int], ...] = (
    (InvalidInput, 422),
    (Impossible, 422),
    (NotFound, 404),
    (StateError, 409),
    (Denied, 403),
)
_MAX_CHARS = 500
_UNREADABLE = "There was an error parsing the body"
"""What the framework says of a body that makes the JSON parser fail in another way than by a syntax error."""


def install(app: FastAPI) -> None:
    """Answer every error in one line."""
    app.add_exception_handler(CotenantError, _foreseen)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _bug)


def _answer(status: int, text: str, **more: Any) -> JSONResponse:
    line = " ".join(text.split())
    return JSONResponse({"error": line[:_MAX_CHARS], **more}, status)


def _foreseen(_request: Request, error: Exception) -> JSONResponse:
    status = next((code for kind, code in _STATUS if isinstance(error, kind)), 503)
    if isinstance(error, WrongOffset):
        return _answer(status, str(error), size=error.size)
    if status == 503:
        log.error("%s", error)
    return _answer(status, str(error))


def _invalid(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for that
    return _answer(422, first_complaint(error.errors()))


def first_complaint(errors: Sequence[Any]) -> str:
    """The first thing that is wrong and where; never the value, which may be a secret."""
    first = errors[0]
    where = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "path", "header"))
    message = str(first["msg"]).removeprefix("Value error, ")
    if first["type"] == "json_invalid":
        return f"the body is no valid JSON: {first.get('ctx', {}).get('error', message)}"
    if first["type"] == "extra_forbidden":
        message = "there is no such field; remove it or correct its name"
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{where or 'request'}: {message}{more}"


def _http(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for that
    if error.detail == _UNREADABLE:
        return _answer(422, "the body is no sound JSON: not UTF-8, nested too deeply or an endless number")
    return _answer(error.status_code, str(error.detail))


def _bug(_request: Request, _error: Exception) -> JSONResponse:
    return _answer(500, "the manager failed on this request; its log has the details")
