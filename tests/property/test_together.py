"""Gangs that wish to be together, against a search that knows nothing of wishes on each domain alone."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from placement.lodgings import Holder
from placement.model import Assignment, Isolation, Job, Level, Node, Request, Together
from tests.property.test_core import lenient, play
from tests.property.world import World, histories, nodes, requests

gangs = st.builds(
    Job,
    job_id=st.just("gang"),
    request=requests,
    submit_s=st.just(0.0),
    sequence=st.just(9999),
    workers=st.integers(2, 5),
    tenant=st.sampled_from(["red", "blue"]),
    profile=st.sampled_from([None, "light"]),
)


def place(world: World, job: Job) -> tuple[Assignment, ...]:
    """Where the search would put a job; it is taken back at once."""
    scheduler, request = world.scheduler, job.request
    search, profile = scheduler._search, world.auditor.profiles.get(job.profile or "")
    holder = Holder(job.job_id, job.tenant, profile, request.max_slowdown)
    holder = replace(holder, isolating=request.isolation is Isolation.TENANT)
    holder = replace(holder, cpu_milli=request.cpu_milli, ram_bytes=request.ram_bytes)
    placed = search.place(holder, search.demand(job, profile), job) or ()
    for assignment in placed:
        scheduler.cluster.release(job.job_id, assignment.worker)
    return placed


def domains(members: list[Node], level: Level) -> list[set[str]]:
    """Nodes that have a level in common, by their names alone."""
    if level is Level.GPU_TYPE:
        return [{node.node_id for node in members}]
    by_name: dict[object, set[str]] = defaultdict(set)
    for node in members:
        rack = node.rack or node.node_id
        if level is Level.NVLINK and node.nvlink_domain is not None:
            by_name["link", node.nvlink_domain].add(node.node_id)
        if level is not Level.NVLINK or node.nvlink_domain is not None:
            by_name["node", node.node_id].add(node.node_id)
        if level is Level.RACK:
            by_name["rack", rack].add(node.node_id)
            by_name["link", rack, node.nvlink_domain or node.node_id].add(node.node_id)
    return list(by_name.values())


def fits_in_one(world: World, job: Job, level: Level) -> bool:
    """Whether all workers fit where nothing but one domain is available."""
    cluster, members = world.scheduler.cluster, list(world.nodes.values())
    up = {node.node_id for node in members if cluster.is_up(node.node_id)}
    models = sorted({gpu.model for node in members for gpu in node.gpus})
    typed = [(model,) for model in models] if level is Level.GPU_TYPE else [job.request.gpu_models]
    asked = job.request.gpu_models
    free = replace(job.request, together=None)
    for domain in domains(members, level):
        for node in members:
            cluster.set_up(node.node_id, up=node.node_id in up & domain)
        for selectors in typed:
            if level is Level.GPU_TYPE and asked and not any(selectors[0].startswith(name) for name in asked):
                continue
            if place(world, replace(job, request=replace(free, gpu_models=selectors))):
                for node in members:
                    cluster.set_up(node.node_id, up=node.node_id in up)
                return True
    for node in members:
        cluster.set_up(node.node_id, up=node.node_id in up)
    return False


def wished(request: Request, wish: Together) -> Request:
    return replace(request, together=wish if request.gpus else Together(Level.RACK, wish.required))


@settings(lenient, max_examples=40)
@given(shape=nodes, history=histories, gang=gangs, level=st.sampled_from(Level))
def test_a_gang_starts_together_wherever_it_could(shape, history, gang, level):
    world = play(World.new(shape, "best-fit"), history)
    job = replace(gang, request=wished(gang.request, Together(level, required=True)))
    wish = job.request.together
    possible = fits_in_one(world, job, wish.level)
    world.auditor.jobs["gang"] = job
    for required in (True, False):
        asking = replace(job, request=replace(job.request, together=Together(wish.level, required)))
        placed = place(world, asking)
        together = bool(placed) and world.auditor._together(wish, list(placed))
        assert together == possible or (together and not required)
        assert possible or not placed or not required
