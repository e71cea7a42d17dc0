"""A checker of placements that shares no code with the core: it believes assignments alone.

It keeps books of its own of who holds what, and recomputes from them what a node and a GPU must never show.
From the product it takes the plain data types, nothing that decides; its table of MIG slices and its formula
for slowdowns are its own copies.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from placement.model import Assignment, Devices, Gpu, Isolation, Job, Level, Mode, Node, Profile, Share


class Rule(enum.Enum):
    """What may never be broken."""

    PLACE = "no such node or GPU"
    GPU_COUNT = "another number of GPUs than asked for"
    DEVICES = "shares of one worker on the same GPU that should be apart, or apart"
    TOGETHER = "workers that do not share what they must"
    GANG = "not all workers, or one of them twice"
    MODEL = "a GPU model that was not asked for"
    MODE = "a mode that was not accepted"
    AMOUNT = "less than was asked for"
    CPU = "more CPU than the node has"
    RAM = "more RAM than the node has"
    MIXED = "two modes on one GPU"
    COMPANY = "company on an exclusive GPU"
    COMPUTE = "more compute than the GPU has"
    MEMORY = "more memory than the GPU has"
    CLIENTS = "too many MPS clients"
    SLICE = "a slice that this GPU cannot make"
    START = "a slice that begins where none can"
    OVERLAP = "slices that overlap"
    SLICES = "more than seven compute slices"
    MEDIA = "two slices with the media engine"
    ISOLATION = "a neighbour of another tenant"
    PROMISE = "a slowdown promise that does not hold"


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that is broken, and where."""

    rule: Rule
    where: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.where}: {self.rule.value}" + (f" ({self.detail})" if self.detail else "")


@dataclass(frozen=True, slots=True)
class Slice:
    """A MIG profile: compute slices of 7, memory slices of 8, memory slices at which it may begin."""

    compute: int
    memory: int
    starts: tuple[int, ...]
    media: bool = False


SLICES_80GB = {
    "1g.10gb": Slice(1, 1, (0, 1, 2, 3, 4, 5, 6)),
    "1g.10gb+me": Slice(1, 1, (0, 1, 2, 3, 4, 5, 6), media=True),
    "1g.20gb": Slice(1, 2, (0, 2, 4, 6)),
    "2g.20gb": Slice(2, 2, (0, 2, 4)),
    "3g.40gb": Slice(3, 4, (0, 4)),
    "4g.40gb": Slice(4, 4, (0,)),
    "7g.80gb": Slice(7, 8, (0,)),
}
"""NVIDIA's MIG user guide, supported profiles: A100-SXM4-80GB and H100-SXM5-80GB have the same."""

SLICES = {"A100-SXM4-80GB": SLICES_80GB, "H100-SXM5-80GB": SLICES_80GB}
COMPUTE_SLICES, MEMORY_SLICES = 7, 8
MPS_CLIENTS = 48
"""Of one MPS server since Volta: NVIDIA's MPS documentation."""
WHOLE_MILLI = 1000

TURN, SM, DRAM, MARGIN = 1.12, 0.46, 0.35, 0.10
"""The additive model of interference: per neighbour in turns, in SMs, in DRAM; and its margin."""
ROUNDING = 1e-9
"""Sums of the same floats in another order differ by less."""


@dataclass(frozen=True, slots=True)
class Held:
    """One worker's share of a GPU."""

    job: Job
    profile: Profile | None
    worker: int
    share: Share

    def __str__(self) -> str:
        return f"{self.job.job_id}/{self.worker}"


@dataclass(slots=True)
class _Page:
    """What is held on one node: workers by job and number, shares by GPU."""

    node: Node
    gpus: dict[str, Gpu]
    workers: dict[tuple[str, int], Job] = field(default_factory=dict)
    shares: dict[str, list[Held]] = field(default_factory=dict)


class Books:
    """Who holds what, by what was assigned; ``found`` is all that was wrong when it was entered."""

    def __init__(self, nodes: Iterable[Node], profiles: Iterable[Profile] = ()) -> None:
        self.found: list[Violation] = []
        self._profiles = {profile.name: profile for profile in profiles}
        self._pages = {node.node_id: _Page(node, {gpu.uuid: gpu for gpu in node.gpus}) for node in nodes}
        self._jobs: dict[str, tuple[Job, tuple[Assignment, ...]]] = {}

    def enter(self, job: Job, assignments: Sequence[Assignment]) -> list[Violation]:
        """A job holds these shares from now on; gives what is wrong about them, or has become so."""
        wrong = list(_wrong_gang(job, assignments))
        if job.job_id in self._jobs:
            wrong.append(Violation(Rule.GANG, job.job_id, "it is placed already"))
        self._jobs[job.job_id] = job, tuple(assignments)
        for assignment in assignments:
            page = self._pages.get(assignment.node_id)
            if page is None:
                wrong.append(Violation(Rule.PLACE, job.job_id, assignment.node_id))
                continue
            profile = self._profiles.get(job.profile or "")
            _write(page, job, profile, assignment)
            wrong += _wrong_worker(page, job, profile, assignment)
        wrong += self._apart(job, assignments)
        wrong += self._wrong_pages(assignments)
        self.found += wrong
        return wrong

    def strike(self, job_id: str) -> None:
        """A job holds nothing any more."""
        _job, assignments = self._jobs.pop(job_id)
        for assignment in assignments:
            page = self._pages.get(assignment.node_id)
            if page is None:
                continue
            page.workers.pop((job_id, assignment.worker), None)
            for share in assignment.shares:
                held = page.shares.get(share.gpu_uuid, [])
                page.shares[share.gpu_uuid] = [each for each in held if each.job.job_id != job_id]

    def complaints(self) -> list[Violation]:
        """Everything that is wrong with what is held now, from books written anew."""
        anew = Books((page.node for page in self._pages.values()), self._profiles.values())
        for job, assignments in self._jobs.values():
            anew.enter(job, assignments)
        return list(dict.fromkeys(anew.found))

    def _apart(self, job: Job, assignments: Sequence[Assignment]) -> Iterator[Violation]:
        """Workers of a gang that must have a place, or the model of their GPUs, in common and do not."""
        wish = job.request.together
        if wish is None or not wish.required or len(assignments) < 2:
            return
        there = [(self._pages[each.node_id], each) for each in assignments if each.node_id in self._pages]
        if wish.level is Level.GPU_TYPE:
            gpus = (page.gpus.get(share.gpu_uuid) for page, each in there for share in each.shares)
            of = {("model", gpu.model) for gpu in gpus if gpu is not None}
        else:
            of = {_place(page.node, wish.level) for page, _each in there}
        if len(of) > 1:
            yield Violation(Rule.TOGETHER, job.job_id, f"{len(of)} of {wish.level.value}")

    def _wrong_pages(self, assignments: Sequence[Assignment]) -> Iterator[Violation]:
        """What is wrong on the nodes and GPUs of these assignments, each looked at once."""
        for node_id in dict.fromkeys(each.node_id for each in assignments if each.node_id in self._pages):
            page = self._pages[node_id]
            yield from _wrong_node(page)
            uuids = (
                share.gpu_uuid for each in assignments if each.node_id == node_id for share in each.shares
            )
            for uuid in dict.fromkeys(uuids):
                if uuid in page.gpus:
                    yield from _wrong_gpu(page.gpus[uuid], page.shares[uuid])


def _write(page: _Page, job: Job, profile: Profile | None, assignment: Assignment) -> None:
    page.workers[job.job_id, assignment.worker] = job
    for share in assignment.shares:
        page.shares.setdefault(share.gpu_uuid, []).append(Held(job, profile, assignment.worker, share))


def _wrong_gang(job: Job, assignments: Sequence[Assignment]) -> Iterator[Violation]:
    workers = sorted(assignment.worker for assignment in assignments)
    if workers != list(range(job.workers)):
        yield Violation(Rule.GANG, job.job_id, f"workers {workers} of {job.workers}")


def _place(node: Node, level: Level) -> tuple[str, str]:
    """What a node shares with others of a level; where that is not known, it shares nothing."""
    name = {Level.NVLINK: node.nvlink_domain, Level.RACK: node.rack}.get(level)
    return ("node", node.node_id) if name is None else (level.value, name)


# -- one worker ------------------------------------------------------------------------------------------


def _wrong_worker(
    page: _Page, job: Job, profile: Profile | None, assignment: Assignment
) -> Iterator[Violation]:
    where = f"{job.job_id}/{assignment.worker}"
    uuids = [share.gpu_uuid for share in assignment.shares]
    if len(uuids) != job.request.gpus:
        yield Violation(Rule.GPU_COUNT, where, f"{len(uuids)} of {job.request.gpus}")
    if len(set(uuids)) != (min(len(uuids), 1) if job.request.devices is Devices.SAME else len(uuids)):
        yield Violation(Rule.DEVICES, where, ", ".join(uuids))
    for share in assignment.shares:
        gpu = page.gpus.get(share.gpu_uuid)
        if gpu is None:
            yield Violation(Rule.PLACE, where, f"{share.gpu_uuid} is not on {assignment.node_id}")
        else:
            yield from _unlike_asked(where, job, gpu, share)
            yield from _too_little(where, (job, profile), gpu, share)


def _unlike_asked(where: str, job: Job, gpu: Gpu, share: Share) -> Iterator[Violation]:
    request = job.request
    if request.gpu_models and not any(_selects(each, gpu.model) for each in request.gpu_models):
        yield Violation(Rule.MODEL, where, gpu.model)
    if not {share.mode, _gpu_mode(share)} <= request.modes:
        yield Violation(Rule.MODE, where, share.mode.value)
    if request.isolation is Isolation.HARDWARE and share.mode not in (Mode.MIG, Mode.EXCLUSIVE):
        yield Violation(Rule.ISOLATION, where, "not apart in hardware")
    if request.mig_profile is not None and share.mig_profile != request.mig_profile:
        yield Violation(Rule.AMOUNT, where, f"{share.mig_profile} for {request.mig_profile}")


def _gpu_mode(share: Share) -> Mode:
    """The mode that the GPU must be in: an MPS share or a time slice may lie in a slice."""
    return share.mode if share.mig_profile is None else Mode.MIG


def _selects(selector: str, model: str) -> bool:
    """Whether a selector is a model's name, or the parts that it begins with."""
    asked, parts = selector.lower().split("-"), model.lower().split("-")
    return parts[: len(asked)] == asked


def _too_little(
    where: str, asking: tuple[Job, Profile | None], gpu: Gpu, share: Share
) -> Iterator[Violation]:
    job, profile = asking
    request = job.request
    if share.compute_milli < (request.compute_milli or 1):
        yield Violation(Rule.AMOUNT, where, f"{share.compute_milli} thousandths")
    if share.mode is Mode.EXCLUSIVE and share.compute_milli != WHOLE_MILLI:
        yield Violation(Rule.AMOUNT, where, f"{share.compute_milli} thousandths of an exclusive GPU")
    memory = request.memory_bytes
    if memory is None and profile is not None:
        memory = profile.memory_bytes
    given = gpu.memory_bytes if share.mode is Mode.EXCLUSIVE else share.memory_bytes
    if memory is not None and (given is None or given < memory):
        yield Violation(Rule.AMOUNT, where, f"{given} of {memory} bytes")


# -- one node, one GPU -----------------------------------------------------------------------------------


def _wrong_node(page: _Page) -> Iterator[Violation]:
    node, requests = page.node, [job.request for job in page.workers.values()]
    cpu_milli = sum(request.cpu_milli for request in requests)
    if node.cpu_milli is not None and cpu_milli > node.cpu_milli:
        yield Violation(Rule.CPU, node.node_id, f"{cpu_milli} of {node.cpu_milli}")
    ram_bytes = sum(request.ram_bytes for request in requests)
    if node.ram_bytes is not None and ram_bytes > node.ram_bytes:
        yield Violation(Rule.RAM, node.node_id, f"{ram_bytes} of {node.ram_bytes}")


def _wrong_gpu(gpu: Gpu, held: Sequence[Held]) -> Iterator[Violation]:
    modes = {_gpu_mode(each.share) for each in held}
    if len(modes) > 1:
        yield Violation(Rule.MIXED, gpu.uuid, ", ".join(sorted(mode.value for mode in modes)))
    if Mode.EXCLUSIVE in modes and len(held) > 1:
        yield Violation(Rule.COMPANY, gpu.uuid, f"{len(held)} residents")
    clients = sum(each.share.mode is Mode.MPS for each in held if each.share.mig_profile is None)
    if clients > MPS_CLIENTS:
        yield Violation(Rule.CLIENTS, gpu.uuid, f"{clients} clients")
    milli = sum(each.share.compute_milli for each in held)
    if milli > WHOLE_MILLI:
        yield Violation(Rule.COMPUTE, gpu.uuid, f"{milli} thousandths")
    memory = sum(each.share.memory_bytes or 0 for each in held)
    if gpu.memory_bytes is not None and memory > gpu.memory_bytes:
        yield Violation(Rule.MEMORY, gpu.uuid, f"{memory} of {gpu.memory_bytes} bytes")
    inside: dict[tuple[str, int | None], list[Held]] = {}
    for each in held:
        if each.share.mig_profile is not None and each.share.mode is not Mode.MIG:
            inside.setdefault((str(each), each.share.mig_start), []).append(each)
    for shares in inside.values():
        yield from _wrong_inside(gpu, shares)
    slices = [each for each in held if each.share.mode is Mode.MIG]
    yield from _wrong_slices(gpu, [*slices, *(shares[0] for shares in inside.values())])
    yield from _wrong_company(gpu, held)
    yield from _broken_promises(gpu, held)


def _wrong_inside(gpu: Gpu, held: Sequence[Held]) -> Iterator[Violation]:
    """What is wrong with the shares of one worker in one slice; one that cannot be is told elsewhere."""
    cut = SLICES.get(gpu.model, {}).get(held[0].share.mig_profile or "")
    if cut is None:
        return
    where, shares = f"{gpu.uuid}: {held[0]}", [each.share for each in held]
    if len({(share.mode, share.mig_profile) for share in shares}) > 1:
        yield Violation(Rule.MIXED, where, "in one slice")
    milli, memory = (
        sum(share.compute_milli for share in shares),
        sum(share.memory_bytes or 0 for share in shares),
    )
    if milli * COMPUTE_SLICES > cut.compute * WHOLE_MILLI:
        yield Violation(Rule.COMPUTE, where, f"{milli} thousandths in {shares[0].mig_profile}")
    if gpu.memory_bytes is not None and memory * MEMORY_SLICES > cut.memory * gpu.memory_bytes:
        yield Violation(Rule.MEMORY, where, f"{memory} bytes in {shares[0].mig_profile}")
    clients = sum(share.mode is Mode.MPS for share in shares)
    if clients > MPS_CLIENTS * cut.compute // COMPUTE_SLICES:
        yield Violation(Rule.CLIENTS, where, f"{clients} clients in {shares[0].mig_profile}")


def _wrong_slices(gpu: Gpu, held: Sequence[Held]) -> Iterator[Violation]:
    known, taken, compute, media = SLICES.get(gpu.model, {}), Counter[int](), 0, 0
    for each in held:
        name, start = each.share.mig_profile or "", each.share.mig_start
        cut = known.get(name)
        if cut is None:
            yield Violation(Rule.SLICE, gpu.uuid, f"{each}: {name!r} on {gpu.model}")
            continue
        if start is None or start not in cut.starts:
            yield Violation(Rule.START, gpu.uuid, f"{each}: {name} at {start}")
            continue
        if each.share.compute_milli * COMPUTE_SLICES > cut.compute * WHOLE_MILLI:
            yield Violation(Rule.SLICE, gpu.uuid, f"{each}: {each.share.compute_milli} thousandths in {name}")
        if (
            gpu.memory_bytes
            and (each.share.memory_bytes or 0) * MEMORY_SLICES > cut.memory * gpu.memory_bytes
        ):
            yield Violation(Rule.SLICE, gpu.uuid, f"{each}: {each.share.memory_bytes} bytes in {name}")
        taken.update(range(start, start + cut.memory))
        compute, media = compute + cut.compute, media + cut.media
    twice = sorted(at for at, times in taken.items() if times > 1)
    if twice:
        yield Violation(Rule.OVERLAP, gpu.uuid, f"memory slices {twice}")
    if compute > COMPUTE_SLICES:
        yield Violation(Rule.SLICES, gpu.uuid, f"{compute} slices")
    if media > 1:
        yield Violation(Rule.MEDIA, gpu.uuid, f"{media} slices")


def _wrong_company(gpu: Gpu, held: Sequence[Held]) -> Iterator[Violation]:
    """Tenants side by side on the same silicon where one of them accepts only its own."""
    together = [each for each in held if each.share.mig_profile is None]
    for each in together:
        if each.job.request.isolation is Isolation.TENANT:
            strangers = [str(other) for other in together if other.job.tenant != each.job.tenant]
            if strangers:
                yield Violation(Rule.ISOLATION, gpu.uuid, f"{each} beside {', '.join(strangers)}")


# -- promises --------------------------------------------------------------------------------------------


def _broken_promises(gpu: Gpu, held: Sequence[Held]) -> Iterator[Violation]:
    for each in held:
        promise = each.job.request.max_slowdown
        if promise is None:
            continue
        near = [other for other in held if other.share.mig_start == each.share.mig_start]
        expected = slowdown(each, [other for other in near if other is not each])
        upper = None if expected is None else 1 + (expected - 1) * (1 + MARGIN)
        if upper is None or upper > promise + ROUNDING:
            yield Violation(Rule.PROMISE, gpu.uuid, f"{each}: {upper} above {promise}")


def slowdown(me: Held, others: Sequence[Held]) -> float | None:
    """Expected slowdown of a resident against running alone on the whole GPU, None if it is unknown.

    The additive model: time-sliced neighbours cost their own busy time, MPS neighbours what both use of the
    SMs and of DRAM bandwidth, slices nothing; a share smaller than the job's own use slows it by the ratio.
    Those who share a slice use so much more of that, and one that could use more than all of it is slower
    besides.
    """
    share, profile = me.share, me.profile
    if share.mode is Mode.EXCLUSIVE or (not others and share.compute_milli >= WHOLE_MILLI):
        return 1.0
    if profile is None or profile.sm_milli is None:
        return None
    busy, bandwidth, part = _uses(me)
    total = 1.0
    for other in others if share.mode is not Mode.MIG else ():
        if other.share.mode is Mode.MIG:
            continue
        if other.profile is None or other.profile.sm_milli is None:
            return None
        other_busy, other_bandwidth, other_part = _uses(other)
        if Mode.TIMESLICE in (share.mode, other.share.mode):
            total += TURN * other_busy
        else:
            total += SM * busy * min(other_busy, other_part)
            total += DRAM * bandwidth * other_bandwidth
    if share.mode in (Mode.MIG, Mode.MPS):
        total *= max(1.0, busy / part)
    cut = _slice_around(share)
    return (
        total if cut is None else total * max(1.0, profile.sm_milli / (cut.compute * 1000 // COMPUTE_SLICES))
    )


def _uses(held: Held) -> tuple[float, float, float]:
    """What a resident uses of SMs and DRAM bandwidth, and its share, of the GPU or of the slice around it."""
    profile, cut = held.profile, _slice_around(held.share)
    busy = 0.0 if profile is None else (profile.sm_milli or 0) / 1000
    bandwidth = 0.0 if profile is None else (profile.dram_milli or 0) / 1000
    part = held.share.compute_milli / 1000
    if cut is None:
        return busy, bandwidth, part
    compute, memory = COMPUTE_SLICES / cut.compute, MEMORY_SLICES / cut.memory
    return min(busy * compute, 1.0), min(bandwidth * memory, 1.0), part * compute


def _slice_around(share: Share) -> Slice | None:
    """The slice that an MPS share or a time slice lies in."""
    return None if share.mode is Mode.MIG else SLICES_80GB.get(share.mig_profile or "")
