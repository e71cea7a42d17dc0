"""Routes about nodes, GPUs, profiles and the manager itself."""

from __future__ import annotations

from fastapi import APIRouter

from manager.http import views
from manager.http.parameters import ProfileName, Serving
from manager.metrics import metrics
from manager.version import version
from manager.wire.models import GpuView, InfoView, NodeView, ProfileSpec, check_profile_name

router = APIRouter(tags=["cluster"])


@router.get("/info")
def info(serving: Serving) -> InfoView:
    """What this manager is."""
    return InfoView(
        version=version(),
        policy=serving.core.policy,
        belief=serving.core.belief,
        epoch=serving.epoch,
        started_s=serving.started_s,
        now_s=serving.clock.now_s(),
        database=serving.store.database.dialect,
    )


@router.get("/nodes")
def nodes(serving: Serving) -> list[NodeView]:
    """All nodes by node id."""
    return views.node_views(serving)


@router.get("/gpus")
def gpus(serving: Serving) -> list[GpuView]:
    """All GPUs with the shares on them, by node id and slot."""
    return views.gpu_views(serving)


@router.get("/metrics")
def metrics_route(serving: Serving) -> dict[str, int | float | None]:
    """The metrics of all jobs that this database has seen."""
    return metrics(serving).to_dict()


@router.get("/profiles")
def profiles(serving: Serving) -> list[ProfileSpec]:
    """All job profiles by name."""
    return [ProfileSpec.of(profile) for profile in serving.store.queries.profiles()]


@router.put("/profiles/{name}")
def put_profile(name: ProfileName, spec: ProfileSpec, serving: Serving) -> ProfileSpec:
    """Define a job profile; the last definition counts, also for jobs that wait."""
    check_profile_name(name, spec)
    serving.store.intake.define_profile(spec.to_profile())
    serving.loop.wake()
    return spec
