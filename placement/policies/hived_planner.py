"""Places by cells: who holds which cell of whom, kept in step with what jobs hold."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from placement.model import (
    Assignment,
    Gpu,
    InvalidSpec,
    Job,
    Level,
    Mode,
    Node,
    Profile,
    StateError,
    model_matches,
)
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
    gpus: set[str] = field(default_factory=set)
    """Those that are entered as its own."""

    def is_on(self, gpu_uuid: str) -> bool:
        """Whether it holds a share of a GPU."""
        return any(share.gpu_uuid == gpu_uuid for held in self.by_worker.values() for share in held.shares)


class HivedPlanner:
    """Cells of every GPU model.  What a job holds and the size of the cell around it is the whole state."""

    def __init__(self, quotas: Quotas) -> None:
        self._quotas = quotas
        self._cells: dict[str, Cells] = {}
        self._place: dict[
            str, tuple[str, str, int]
        ] = {}  # by UUID: model, node, number among its model there
        self._slots: dict[tuple[str, str], list[int]] = {}  # by model and node
        self._memory: dict[str, dict[int | None, set[tuple[str, int]]]] = {}  # by model: who has how much
        self._unlinked: set[str] = set()  # nodes whose GPUs are not known to be joined by NVLink
        self._held: dict[str, _Held] = {}
        # A GPU that jobs share, under the policy of before a restart, is entered for the first of them.
        self._holder: dict[str, str] = {}  # by UUID
        self._beside: dict[str, dict[str, None]] = {}  # by UUID: the others
        self._judged: Sequence[Node] = ()
        self._shortages: dict[str, str] = {}

    def refusal(self, job: Job, nodes: Sequence[Node]) -> str:
        """A gang that must be together needs one node for all.

        A job that may not be put back in the queue needs cells that hold it, and nodes for all cells; on
        all GPUs of a model it must find its memory, since a cell may be bound to any of them.
        """
        if not job.request.gpus:
            return ""
        gpus, workers = _pieces(job)
        if nodes and workers < job.workers and not any(_holds(node, job, gpus) for node in nodes):
            return (
                f"policy hived keeps a gang together on one node alone, and none has the {gpus} GPUs for it"
            )
        if job.preemptible:
            return ""
        able = [
            model
            for model, quotas in self._quotas.items()
            if _accepts(job, model) and _most_workers(quotas.get(job.tenant, {}), gpus) >= workers
        ]
        if not able:
            none = "has no cells for it, and without them it would have to be preemptible"
            return f"tenant {job.tenant!r} {none}"
        able = [model for model in able if not _unsure(job, model, nodes)]
        if not able:
            unsure = "may lie on GPUs with less memory or no NVLink, so it would have to be preemptible"
            return f"the cells of tenant {job.tenant!r} {unsure}"
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
        self._unlinked = {node.node_id for node in nodes if node.nvlink_domain is None}
        for node in nodes:
            for slot, gpu in enumerate(node.gpus):
                slots = self._slots.setdefault((gpu.model, node.node_id), [])
                self._place[gpu.uuid] = gpu.model, node.node_id, len(slots)
                by_size = self._memory.setdefault(gpu.model, {})
                by_size.setdefault(gpu.memory_bytes, set()).add((node.node_id, len(slots)))
                slots.append(slot)
        self._cells = {
            model: Cells(pool, self._quotas.get(model, {})) for model, pool in pools_of(nodes).items()
        }
        self._holder, self._beside = {}, {}
        for held in self._held.values():
            held.models.clear()
            held.gpus.clear()
        for job_id in self._held:
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
        barred = self._barred(job, profile)
        gpus, workers = _pieces(job)
        ask = CellAsk(job.tenant, gpus, workers)
        granted = [(model, self._cells[model].find(ask)) for model in sorted(barred)]
        best = min(
            (
                (len(grant.evictions), model, grant)
                for model, grant in granted
                if grant is not None and _clear_of(barred[model], grant)
            ),
            key=lambda found: found[:2],
            default=None,
        )
        if best is not None:
            return self._planned(job, best[1], best[2])
        if job.preemptible:
            for model in sorted(barred):
                guest = replace(ask, guaranteed=False, barred=barred[model])
                grant = self._cells[model].find(guest)
                if grant is not None:
                    return self._planned(job, model, grant)
        return None

    def _barred(self, job: Job, profile: Profile | None) -> dict[str, frozenset[tuple[str, int]]]:
        """The models that would do, and which of their GPUs would not, for their memory or lack of NVLink."""
        linked = _wants_link(job)
        found = {}
        for model, by_size in self._memory.items():
            small = [
                places
                for memory_bytes, places in by_size.items()
                if Mode.EXCLUSIVE not in needs_of(job.request, profile, model, memory_bytes)
            ]
            if len(small) < len(by_size):
                every = (place for places in by_size.values() for place in places)
                apart = {place for place in every if place[0] in self._unlinked} if linked else set()
                found[model] = frozenset(apart).union(*small)
        return found

    def _planned(self, job: Job, model: str, grant: CellGrant) -> PlannedPlace:
        """The grant with a part for each worker."""
        gpus = job.request.gpus
        parts = []
        for part in grant.parts:
            slots = tuple(self._slots[model, part.node][n] for n in part.slots)
            for first in range(0, len(slots), gpus):
                parts.append(PlannedPart(part.node, slots[first : first + gpus], part.cell))
        taken = {(model, part.node, number) for part in grant.parts for number in part.slots}
        return PlannedPlace(tuple(parts), (*grant.evictions, *self._others_on(taken, grant.evictions)))

    def _others_on(self, taken: Container[tuple[str, str, int]], leaving: Iterable[str]) -> list[str]:
        """Those beside the holders of these GPUs, who must leave them too."""
        shared = [uuid for uuid in self._beside if self._place.get(uuid) in taken]
        others = [job for uuid in shared for job in self._beside[uuid] if self._still_on(job, uuid)]
        return list(dict.fromkeys(job for job in others if job not in {*leaving}))

    def _still_on(self, job_id: str, gpu_uuid: str) -> bool:
        return job_id in self._held and self._held[job_id].is_on(gpu_uuid)

    def _enter(self, job_id: str) -> None:
        """Tell the cells anew what a job holds on the nodes that are there, and who comes after it there."""
        held = self._held[job_id]
        for model in held.models:
            self._cells[model].give(job_id)
        for uuid in held.gpus:
            del self._holder[uuid]
        before, held.gpus = held.gpus, set()
        parts: dict[str, list[CellPart]] = defaultdict(list)
        for assignment in held.by_worker.values():
            places = [self._place[uuid] for uuid in self._own(job_id, assignment)]
            for model in dict.fromkeys(place[0] for place in places):
                numbers = tuple(sorted(place[2] for place in places if place[0] == model))
                owned = assignment.cell if held.tenant in self._quotas.get(model, {}) else None
                parts[model].append(CellPart(assignment.node_id, numbers, owned))
        held.models = {*parts}
        for model, some in parts.items():
            try:
                self._cells[model].take(CellHold(job_id, held.tenant, tuple(some)))
            except StateError:  # its cell is no longer one: it stays as long as the owner lets it
                guests = tuple(replace(part, cell=None) for part in some)
                self._cells[model].take(CellHold(job_id, held.tenant, guests))
        for uuid in sorted(before - held.gpus):
            for other in self._beside.pop(uuid, ()):
                if self._still_on(other, uuid):
                    self._enter(other)

    def _own(self, job_id: str, assignment: Assignment) -> list[str]:
        """The GPUs that a worker is entered for: there, and of nobody else nor of a worker before it."""
        gpus = self._held[job_id].gpus
        own = []
        for uuid in dict.fromkeys(share.gpu_uuid for share in assignment.shares):
            if uuid not in self._place or uuid in gpus:
                continue
            if self._holder.setdefault(uuid, job_id) == job_id:
                own.append(uuid)
                gpus.add(uuid)
            else:
                self._beside.setdefault(uuid, {})[job_id] = None
        return own


def _accepts(job: Job, model: str) -> bool:
    selectors = job.request.gpu_models
    return not selectors or any(model_matches(selector, model) for selector in selectors)


def _pieces(job: Job) -> tuple[int, int]:
    """GPUs that must be on one node, and how often.

    A gang that must be together goes to one node like one worker: whoever shares a node shares its rack, and
    its NVLink domain if it has one.  All cells of a place are of one model anyway.
    """
    gpus, wish = job.request.gpus, job.request.together
    if wish is None or not wish.required or wish.level is Level.GPU_TYPE:
        return gpus, job.workers
    return gpus * job.workers, 1


def _holds(node: Node, job: Job, gpus: int) -> bool:
    """Whether a node has so many GPUs of one model that would do for a job."""
    if _wants_link(job) and node.nvlink_domain is None:
        return False
    counts = Counter(gpu.model for gpu in node.gpus if _accepts(job, gpu.model) and _enough(job, gpu))
    return max(counts.values(), default=0) >= gpus


def _enough(job: Job, gpu: Gpu) -> bool:
    """Whether the memory of a GPU is enough, as far as both are known."""
    asked = job.request.memory_bytes
    return asked is None or gpu.memory_bytes is None or asked <= gpu.memory_bytes


def _wants_link(job: Job) -> bool:
    """Whether the workers must be joined by NVLink; that their one node has it must be known, too."""
    wish = job.request.together
    return job.workers > 1 and wish is not None and wish.required and wish.level is Level.NVLINK


def _unsure(job: Job, model: str, nodes: Sequence[Node]) -> bool:
    """Whether a cell of a model may lie where the memory is less than a job asks for, or no NVLink."""
    linked = _wants_link(job)
    return any(
        gpu.model == model and (not _enough(job, gpu) or (linked and node.nvlink_domain is None))
        for node in nodes
        for gpu in node.gpus
    )


def _clear_of(barred: frozenset[tuple[str, int]], grant: CellGrant) -> bool:
    return not any((part.node, slot) in barred for part in grant.parts for slot in part.slots)


def _most_workers(cells: Mapping[int, int], gpus: int) -> int:
    """Workers of so many GPUs that all these cells together hold."""
    return sum(count * (size // gpus) for size, count in cells.items())
