"""Places by cells: who holds which cell of whom, kept in step with what jobs hold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from placement.model import Assignment, InvalidSpec, Job, Mode, Node, Profile, StateError, model_matches
from placement.partition import needs_of
from placement.planning.cell_layout import CellPool, check_quotas
from placement.planning.cells import CellAsk, CellGrant, CellHold, CellPart, Cells
from placement.policies.planner import PlannedPart, PlannedPlace

Quotas = Mapping[str, Mapping[str, Mapping[int, int]]]
"""By GPU model and tenant: how many cells of each size."""


def pools_of(nodes: Iterable[Node]) -> dict[str, CellPool]:
    """The GPUs of each model, by node."""
    counts: dict[str, dict[str, int]] = defaultdict(dict)
    for node in nodes:
        for gpu in node.gpus:
            counts[gpu.model][node.node_id] = counts[gpu.model].get(node.node_id, 0) + 1
    return {model: CellPool(by_node) for model, by_node in sorted(counts.items())}


@dataclass(slots=True)
class _Held:
    tenant: str
    by_worker: dict[int, Assignment] = field(default_factory=dict)
    models: set[str] = field(default_factory=set)
    """In whose cells it is entered."""


class HivedPlanner:
    """Cells of every GPU model.  What a job holds and the size of the cell around it is the whole state."""

    def __init__(self, quotas: Quotas) -> None:
        self._quotas = quotas
        self._cells: dict[str, Cells] = {}
        self._place: dict[
            str, tuple[str, str, int]
        ] = {}  # by UUID: model, node, number among its model there
        self._slots: dict[tuple[str, str], list[int]] = {}  # by model and node
        self._memory: dict[str, int | None] = {}
        self._held: dict[str, _Held] = {}
        self._judged: Sequence[Node] = ()
        self._shortages: dict[str, str] = {}

    def refusal(self, job: Job, nodes: Sequence[Node]) -> str:
        """A job that may not be put back in the queue needs cells that hold it, and nodes for all cells."""
        if job.preemptible or not job.request.gpus:
            return ""
        able = [
            model
            for model, quotas in self._quotas.items()
            if _accepts(job, model)
            and _most_workers(quotas.get(job.tenant, {}), job.request.gpus) >= job.workers
        ]
        if not able:
            none = "has no cells for it, and without them it would have to be preemptible"
            return f"tenant {job.tenant!r} {none}"
        short = [self._shortage(model, nodes) for model in able] if nodes else [""]
        return short[0] if all(short) else ""

    def _shortage(self, model: str, nodes: Sequence[Node]) -> str:
        """Why these nodes cannot keep all cells of a model at once, empty if they can; worked out once."""
        if self._judged is not nodes:
            self._judged, self._shortages = nodes, {}
        if model not in self._shortages:
            pool = pools_of(nodes).get(model, CellPool({}))
            try:
                check_quotas(pool, self._quotas[model])
                self._shortages[model] = ""
            except InvalidSpec as too_many:
                self._shortages[model] = (
                    f"{too_many}, so none of {model} is sure: add nodes, or promise fewer cells"
                )
        return self._shortages[model]

    def lay_out(self, nodes: Sequence[Node]) -> None:
        """Lay the cells out anew on these nodes; who holds GPUs keeps them, and the cells around them."""
        self._place, self._slots, self._memory = {}, {}, {}
        for node in nodes:
            for slot, gpu in enumerate(node.gpus):
                slots = self._slots.setdefault((gpu.model, node.node_id), [])
                self._place[gpu.uuid] = gpu.model, node.node_id, len(slots)
                slots.append(slot)
                self._memory.setdefault(gpu.model, gpu.memory_bytes)
        self._cells = {
            model: Cells(pool, self._quotas.get(model, {})) for model, pool in pools_of(nodes).items()
        }
        for job_id, held in self._held.items():
            held.models.clear()
            self._enter(job_id)

    def take(self, job: Job, assignments: Iterable[Assignment]) -> None:
        """Workers without GPUs hold no cells."""
        for assignment in assignments:
            if assignment.shares:
                held = self._held.setdefault(job.job_id, _Held(job.tenant))
                held.by_worker[assignment.worker] = assignment
        if job.job_id in self._held:
            self._enter(job.job_id)

    def give(self, job_id: str, worker: int) -> None:
        """The cell around it is free once nothing in it is held."""
        held = self._held.get(job_id)
        if held is None or held.by_worker.pop(worker, None) is None:
            return
        self._enter(job_id)
        if not held.by_worker:
            del self._held[job_id]

    def find(self, job: Job, profile: Profile | None) -> PlannedPlace | None:
        """In cells of the tenant, pushing out as few as can be; else on idle GPUs if it may be pushed out."""
        request = job.request
        models = [
            model
            for model, memory_bytes in self._memory.items()
            if Mode.EXCLUSIVE in needs_of(request, profile, model, memory_bytes)
        ]
        ask = CellAsk(job.tenant, request.gpus, job.workers)
        granted = [(model, self._cells[model].find(ask)) for model in sorted(models)]
        best = min(
            ((len(grant.evictions), model, grant) for model, grant in granted if grant is not None),
            key=lambda found: found[:2],
            default=None,
        )
        if best is not None:
            return self._planned(best[1], best[2])
        if job.preemptible:
            for model in sorted(models):
                grant = self._cells[model].find(replace(ask, guaranteed=False))
                if grant is not None:
                    return self._planned(model, grant)
        return None

    def _planned(self, model: str, grant: CellGrant) -> PlannedPlace:
        parts = (
            PlannedPart(part.node, tuple(self._slots[model, part.node][n] for n in part.slots), part.cell)
            for part in grant.parts
        )
        return PlannedPlace(tuple(parts), grant.evictions)

    def _enter(self, job_id: str) -> None:
        """Tell the cells anew what a job holds on the nodes that are there."""
        held = self._held[job_id]
        for model in held.models:
            self._cells[model].give(job_id)
        parts: dict[str, list[CellPart]] = defaultdict(list)
        for assignment in held.by_worker.values():
            places = [self._place[s.gpu_uuid] for s in assignment.shares if s.gpu_uuid in self._place]
            if places:
                model, node, _number = places[0]
                owned = assignment.cell if held.tenant in self._quotas.get(model, {}) else None
                parts[model].append(CellPart(node, tuple(sorted(p[2] for p in places)), owned))
        held.models = {*parts}
        for model, some in parts.items():
            try:
                self._cells[model].take(CellHold(job_id, held.tenant, tuple(some)))
            except StateError:  # its cell is no longer one: it stays as long as the owner lets it
                guests = tuple(replace(part, cell=None) for part in some)
                self._cells[model].take(CellHold(job_id, held.tenant, guests))


def _accepts(job: Job, model: str) -> bool:
    selectors = job.request.gpu_models
    return not selectors or any(model_matches(selector, model) for selector in selectors)


def _most_workers(cells: Mapping[int, int], gpus: int) -> int:
    """Workers of so many GPUs that all these cells together hold."""
    return sum(count * (size // gpus) for size, count in cells.items())
