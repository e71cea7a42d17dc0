"""Who holds what, kept as a plain list, and every figure of a node worked out from it anew.

Nothing here shares code with the arrays of the core: only the model, the needs of a request, the profiles of
MIG as data, and the beliefs about interference.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from placement.interference import Coupling, InterferenceModel, Resident, coupling_of
from placement.mix import Mix, UsualRequest
from placement.model import Assignment, Gpu, Isolation, Job, Mode, Node, Profile, Share
from placement.partition import MigProfile, Need, geometry_of, needs_of

SHARED = (Mode.MPS, Mode.TIMESLICE)
WHOLE = 1 << 20
UNLIMITED = 1 << 60


@dataclass(frozen=True)
class Lodger:
    """One share of a GPU and what its neighbours may know of its holder."""

    share: Share
    tenant: str
    isolating: bool
    profile: Profile | None
    max_slowdown: float | None
    lifetime: int = 0

    @property
    def resident(self) -> Resident:
        return Resident(self.profile, self.share.mode, self.share.compute_milli)


@dataclass(frozen=True)
class Slot:
    """A GPU with its lodgers."""

    gpu: Gpu
    lodgers: tuple[Lodger, ...] = ()

    @property
    def mode(self) -> Mode | None:
        return self.lodgers[0].share.mode if self.lodgers else None

    @property
    def free_milli(self) -> int:
        if self.mode is Mode.EXCLUSIVE:
            return 0
        if self.mode is Mode.MIG:
            total = compute_slices(self.gpu.model)
            return (total - sum(cut.compute_slices for cut, _start in self.slices())) * 1000 // total
        return 1000 - sum(lodger.share.compute_milli for lodger in self.lodgers)

    @property
    def free_memory(self) -> int:
        if self.gpu.memory_bytes is None:
            return UNLIMITED
        return self.gpu.memory_bytes - sum(lodger.share.memory_bytes or 0 for lodger in self.lodgers)

    def slices(self) -> list[tuple[MigProfile, int]]:
        by_name = {cut.name: cut for cut in profiles_of(self.gpu.model)}
        found = []
        for lodger in self.lodgers:
            assert lodger.share.mig_profile is not None
            assert lodger.share.mig_start is not None
            found.append((by_name[lodger.share.mig_profile], lodger.share.mig_start))
        return found

    def has_room(self, need: Need) -> bool:
        """Whether the hardware has room for one more share: tenants and promises aside."""
        if self.mode not in (None, need.mode) or (self.lodgers and need.mode is Mode.EXCLUSIVE):
            return False
        if need.mode is Mode.MIG:
            return self.best_start(need) is not None
        if need.mode is Mode.EXCLUSIVE:
            return True
        if need.mode is Mode.MPS and len(self.lodgers) >= most_clients(self.gpu.model):
            return False
        return self.free_milli >= need.compute_milli and self.free_memory >= (need.memory_bytes or 0)

    def best_start(self, need: Need) -> int | None:
        """The start that keeps the most places for further slices, of equals the highest."""
        assert need.mig_profile is not None
        cut = profiles_of(self.gpu.model)[need.mig_profile]
        taken = self.slices() if self.lodgers else []
        starts = [(self._places([*taken, (cut, s)]), s) for s in cut.starts if self._stands(taken, cut, s)]
        return max(starts)[1] if starts else None

    def _places(self, taken: list[tuple[MigProfile, int]]) -> int:
        cuts = profiles_of(self.gpu.model)
        return sum(self._stands(taken, cut, start) for cut in cuts for start in cut.starts)

    def _stands(self, taken: list[tuple[MigProfile, int]], cut: MigProfile, start: int) -> bool:
        mine = set(range(start, start + cut.memory_slices))
        apart = all(mine.isdisjoint(range(s, s + other.memory_slices)) for other, s in taken)
        compute = sum(other.compute_slices for other, _s in taken) + cut.compute_slices
        media = sum(other.media for other, _s in taken) + cut.media
        return apart and compute <= compute_slices(self.gpu.model) and media <= 1

    def with_one_more(self, need: Need, who: Lodger) -> Slot:
        """The GPU once the share is taken."""
        start = name = None
        if need.mig_profile is not None:
            start, name = self.best_start(need), profiles_of(self.gpu.model)[need.mig_profile].name
        share = Share(self.gpu.uuid, need.mode, need.compute_milli, need.memory_bytes, name, start)
        return replace(self, lodgers=(*self.lodgers, replace(who, share=share)))

    def coupling(self, belief: InterferenceModel) -> list[Coupling]:
        """The parts of the lodgers in the linear forecast, of those who have one."""
        found = [
            coupling_of(belief, self.gpu.model, x.resident) for x in self.lodgers if x.share.mode in SHARED
        ]
        return [one for one in found if one is not None]


def profiles_of(model: str) -> tuple[MigProfile, ...]:
    geometry = geometry_of(model)
    return () if geometry is None else geometry.profiles


def compute_slices(model: str) -> int:
    geometry = geometry_of(model)
    assert geometry is not None
    return geometry.compute_slices


def most_clients(model: str) -> int:
    """Of one MPS server: 16 before Volta (the models of these tests), 48 since."""
    return 16 if model.startswith(("P100", "K80")) else 48


@dataclass
class Books:
    """Nodes, whether they are up, and the assignments of every job."""

    nodes: dict[str, Node]
    belief: InterferenceModel
    mix: Mix = ()
    down: set[str] = field(default_factory=set)
    held: dict[tuple[str, int], tuple[Job, Profile | None, Assignment]] = field(default_factory=dict)

    def take(self, job: Job, profile: Profile | None, assignment: Assignment) -> None:
        self.held[job.job_id, assignment.worker] = (job, profile, assignment)

    def drop(self, job_id: str) -> None:
        self.held = {key: entry for key, entry in self.held.items() if key[0] != job_id}

    def on_node(self, node_id: str) -> list[tuple[Job, Profile | None, Assignment]]:
        return [entry for _key, entry in sorted(self.held.items()) if entry[2].node_id == node_id]

    def slots(self, node_id: str) -> list[Slot]:
        lodgers: dict[str, list[Lodger]] = {gpu.uuid: [] for gpu in self.nodes[node_id].gpus}
        for job, profile, assignment in self.on_node(node_id):
            for share in assignment.shares:
                lodgers[share.gpu_uuid].append(lodger_of(job, profile, share))
        return [Slot(gpu, tuple(lodgers[gpu.uuid])) for gpu in self.nodes[node_id].gpus]

    def cpu_free(self, node_id: str) -> int:
        node = self.nodes[node_id]
        used = sum(job.request.cpu_milli for job, _p, _a in self.on_node(node_id))
        return UNLIMITED if node.cpu_milli is None else node.cpu_milli - used

    def ram_free(self, node_id: str) -> int:
        node = self.nodes[node_id]
        used = sum(job.request.ram_bytes for job, _p, _a in self.on_node(node_id))
        return UNLIMITED if node.ram_bytes is None else node.ram_bytes - used

    def shapes(self, node_id: str) -> int:
        mask = 0
        for _job, _profile, assignment in self.on_node(node_id):
            if assignment.shares:
                whole = assignment.shares[0].mode is Mode.EXCLUSIVE
                mask |= 1 << (len(assignment.shares) if whole else 0)
        return mask


def lodger_of(job: Job, profile: Profile | None, share: Share) -> Lodger:
    isolating = job.request.isolation is Isolation.TENANT
    return Lodger(share, job.tenant, isolating, profile, job.request.max_slowdown, int(job.lifetime))


def stranded(slots: list[Slot], cpu_free: int, ram_free: int, mix: Mix) -> int:
    """FGD (ATC'23, section 4.2): per usual request the free compute that it cannot use, times popularity.

    All of the node's if the node cannot run it (or it wants no GPU), else that of the GPUs too full for it.
    """
    total = 0
    for usual, popularity in zip(mix, popularities(mix), strict=True):
        could = [_could_use(slot, usual) for slot in slots]
        request = usual.request
        runs = request.cpu_milli <= cpu_free and request.ram_bytes <= ram_free
        runs &= request.gpus > 0 and sum(could) >= request.gpus
        wasted = [slot.free_milli for slot, fine in zip(slots, could, strict=True) if not (runs and fine)]
        total += popularity * sum(wasted)
    return total


def popularities(mix: Mix) -> list[int]:
    """Of :data:`WHOLE`, exact where the weights sum up to a power of two."""
    total = sum(usual.weight for usual in mix)
    return [usual.weight * WHOLE // total for usual in mix]


def _could_use(slot: Slot, usual: UsualRequest) -> bool:
    return any(slot.has_room(need) for need in _usual_needs(usual, slot.gpu.model, slot.gpu.memory_bytes))


_known_needs: dict[tuple[int, str, int | None], tuple[UsualRequest, tuple[Need, ...]]] = {}


def _usual_needs(usual: UsualRequest, model: str, memory_bytes: int | None) -> tuple[Need, ...]:
    """Remembered by the identity of the usual request, which holds what cannot be hashed."""
    key = (id(usual), model, memory_bytes)
    if key not in _known_needs:
        needs = needs_of(usual.request, usual.profile, model, memory_bytes)
        _known_needs[key] = usual, tuple(needs.values())
    return _known_needs[key][1]
