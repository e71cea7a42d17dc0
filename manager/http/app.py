"""The application: routes, errors, guard."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import Depends, FastAPI
from fastapi.security import HTTPBearer

from manager.http import agents, cluster, failures, jobs
from manager.http.guard import Guard
from manager.services import Services
from manager.version import version
from manager.wire.models import ErrorBody

_REFUSED = "the database refused the last write, as with a full disk; the manager's log says why"


def create_app(services: Services) -> FastAPI:
    """The application of one running manager.

    The description of the interface is at ``/openapi.json`` and needs the token like everything but
    ``/healthz``; there are no pages that would load scripts from elsewhere.
    """
    app = FastAPI(title="Cotenant manager", version=version(), docs_url=None, redoc_url=None)
    app.state.services = services
    # For the description alone: the guard has checked the token before any route is reached.
    described = [Depends(HTTPBearer(auto_error=False))]
    refusals: dict[int | str, dict[str, Any]] = {
        code: {"model": ErrorBody} for code in (401, 404, 409, 413, 422, 503)
    }
    for router in (jobs.router, cluster.router, agents.router):
        app.include_router(router, prefix="/v1", dependencies=described, responses=refusals)
    app.add_api_route("/healthz", _healthz(services), methods=["GET"])
    failures.install(app)
    app.add_middleware(Guard, token=services.token)
    return app


def _healthz(services: Services) -> Callable[[], Awaitable[dict[str, str]]]:
    async def healthz() -> dict[str, str]:
        """Whether the manager answers; ``degraded``, and why, while it cannot decide or accept anything."""
        trouble = services.loop.trouble() or (_REFUSED if services.store.database.refuses else "")
        return {"status": "degraded", "reason": trouble} if trouble else {"status": "ok"}

    return healthz
