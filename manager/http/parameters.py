"""Parameters that several routes share."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Header, Path, Query
from starlette.requests import Request

from manager.services import Services
from manager.wire.fields import IDENTIFIER, MAX_SEQUENCE

JobId = Annotated[str, Path(pattern=IDENTIFIER)]
NodeId = Annotated[str, Path(pattern=IDENTIFIER)]
ProfileName = Annotated[str, Path(pattern=IDENTIFIER)]
Offset = Annotated[int, Query(ge=0, le=MAX_SEQUENCE)]
WorkerNumber = Annotated[int, Path(ge=0, le=100_000)]
AttemptNumber = Annotated[int, Path(ge=1, le=1_000_000)]
IdempotencyKey = Annotated[str | None, Header(pattern=r"^[\x21-\x7e]{1,200}$")]


def services(request: Request) -> Services:
    """The manager that this application serves."""
    found: Services = request.app.state.services
    return found


Serving = Annotated[Services, Depends(services)]
