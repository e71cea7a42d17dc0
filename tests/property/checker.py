"""An auditor that believes only handles: what was ordered and reported, never the core's arrays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from placement.interference import InterferenceModel, Resident
from placement.model import (
    Assignment,
    Command,
    Devices,
    Isolation,
    Job,
    Level,
    Mode,
    Node,
    Profile,
    Share,
    StartWorker,
    Together,
    WorkerExited,
)

# MIG on an 80 GB A100 or H100, from NVIDIA's user guide: memory slices, compute slices.
SLICES = {
    "1g.10gb": (1, 1),
    "1g.10gb+me": (1, 1),
    "1g.20gb": (2, 1),
    "2g.20gb": (2, 2),
    "3g.40gb": (4, 3),
    "4g.40gb": (4, 4),
    "7g.80gb": (8, 7),
}

BEFORE_VOLTA = ("K80", "P100")
"""The models of these tests whose MPS servers have at most 16 clients (NVIDIA MPS documentation)."""


Held = tuple[Job, int, Share]
"""A job, one of its workers, and a share that this one holds."""


@dataclass(slots=True)
class Auditor:
    """Follows commands and reports, and says what is wrong with what runs side by side."""

    nodes: dict[str, Node]
    profiles: dict[str, Profile]
    belief: InterferenceModel
    jobs: dict[str, Job] = field(default_factory=dict)
    running: dict[tuple[str, int], Assignment] = field(default_factory=dict)
    ordered: set[tuple[str, int, int]] = field(default_factory=set)

    def obey(self, commands: Iterable[Command]) -> None:
        for command in commands:
            if isinstance(command, StartWorker):
                handle = (command.job_id, command.attempt, command.assignment.worker)
                assert handle not in self.ordered, f"{handle} was started twice"
                self.ordered.add(handle)
                still = self.running.get((command.job_id, command.assignment.worker))
                assert still is None, f"{handle} was started while an earlier attempt runs as {still}"
                self.running[command.job_id, command.assignment.worker] = command.assignment

    def report(self, event: WorkerExited) -> None:
        del self.running[event.job_id, event.worker]

    def complaints(self) -> list[str]:
        held: dict[str, list[Held]] = defaultdict(list)
        found = []
        for node_id, node in self.nodes.items():
            jobs = [self.jobs[job] for (job, _w), place in self.running.items() if place.node_id == node_id]
            if node.cpu_milli is not None and sum(job.request.cpu_milli for job in jobs) > node.cpu_milli:
                found.append(f"{node_id}: CPU")
            if node.ram_bytes is not None and sum(job.request.ram_bytes for job in jobs) > node.ram_bytes:
                found.append(f"{node_id}: RAM")
        for (job_id, worker), place in self.running.items():
            own = {gpu.uuid for gpu in self.nodes[place.node_id].gpus}
            uuids = [share.gpu_uuid for share in place.shares]
            request = self.jobs[job_id].request
            different = min(request.gpus, 1) if request.devices is Devices.SAME else request.gpus
            if len(uuids) != request.gpus or len(set(uuids)) != different or not own.issuperset(uuids):
                found.append(f"{job_id}: wrong GPUs {uuids} on {place.node_id}")
            for share in place.shares:
                held[share.gpu_uuid].append((self.jobs[job_id], worker, share))
        for node in self.nodes.values():
            for gpu in node.gpus:
                found += [
                    f"{gpu.uuid}: {wrong}"
                    for wrong in self._on_gpu(gpu.model, gpu.memory_bytes, held[gpu.uuid])
                ]
        return found + self._apart()

    def _apart(self) -> list[str]:
        """Gangs that must be together and are not."""
        gangs: dict[str, list[Assignment]] = defaultdict(list)
        for (job_id, _worker), place in self.running.items():
            gangs[job_id].append(place)
        return [
            f"{job_id}: not together: {sorted({place.node_id for place in places})}"
            for job_id, places in gangs.items()
            if not self._together(self.jobs[job_id].request.together, places)
        ]

    def _together(self, wish: Together | None, places: list[Assignment]) -> bool:
        held = [self.nodes[place.node_id] for place in places]
        if wish is None or not wish.required or len(places) < 2:
            return True
        if wish.level is Level.GPU_TYPE:
            model_of = {gpu.uuid: gpu.model for node in held for gpu in node.gpus}
            return len({model_of[share.gpu_uuid] for place in places for share in place.shares}) < 2
        if wish.level is Level.NVLINK:
            return held[0].nvlink_domain is not None and len({node.nvlink_domain for node in held}) == 1
        if len({node.node_id for node in held}) == 1:
            return True
        return (
            wish.level is Level.RACK and held[0].rack is not None and len({node.rack for node in held}) == 1
        )

    def _on_gpu(self, model: str, memory_bytes: int | None, held: list[Held]) -> list[str]:
        shares = [share for _job, _worker, share in held]
        modes = {share.mode if share.mig_profile is None else Mode.MIG for share in shares}
        wrong = []
        if len(modes) > 1:
            wrong.append(f"modes {modes}")
        if sum(share.compute_milli for share in shares) > 1000:
            wrong.append("compute")
        stated = sum(share.memory_bytes or 0 for share in shares)
        if memory_bytes is not None and stated > memory_bytes:
            wrong.append("memory")
        if modes == {Mode.EXCLUSIVE} and len(shares) > 1:
            wrong.append("an exclusive GPU with company")
        if modes == {Mode.MPS} and len(shares) > (16 if model.startswith(BEFORE_VOLTA) else 48):
            wrong.append("MPS clients")
        if modes == {Mode.MIG}:
            wrong += _overlaps(held)
        for job, _worker, share in held:
            wrong += _unlike_asked(job, share)
            if job.request.isolation is Isolation.TENANT and share.mig_profile is None:
                others = [other for other, _w, _s in held if other.tenant != job.tenant]
                wrong += [f"{job.job_id} beside {other.job_id}" for other in others]
        return wrong + self._broken(model, held)

    def _broken(self, model: str, held: list[Held]) -> list[str]:
        """Promises that do not hold by the upper bound, or that nobody can vouch for.

        Who is in a slice has those in it for neighbours, who is on the GPU itself all others there.
        """
        wrong = []
        for start in {share.mig_start for _job, _worker, share in held}:
            near = [each for each in held if each[2].mig_start == start]
            inside = near[0][2].mig_profile is not None and near[0][2].mode is not Mode.MIG
            memory, compute = SLICES[near[0][2].mig_profile or ""] if inside else (8, 7)
            profiles = [self.profiles.get(job.profile or "") for job, _worker, _share in near]
            residents = tuple(
                Resident(_used_of(profile, memory, compute), share.mode, share.compute_milli * 7 // compute)
                for profile, (_job, _worker, share) in zip(profiles, near, strict=True)
            )
            predictions = self.belief.predict(model, residents)
            for (job, _worker, share), profile, told in zip(near, profiles, predictions, strict=True):
                most = job.request.max_slowdown
                if most is None or share.mode is Mode.EXCLUSIVE:
                    continue
                beyond = ((profile and profile.sm_milli) or 0) / (compute * 1000 // 7) if inside else 0
                bound = 1 + (max(beyond, 1.0) - 1) * 1.1
                if told.upper is None or told.upper * bound > most + 1e-9:
                    wrong.append(f"promise of {job.job_id}: {told.upper} x {bound} > {most}")
        return wrong


def _used_of(profile: Profile | None, memory: int, compute: int) -> Profile | None:
    """What a job uses of so many memory and compute slices, if these were all of the GPU."""
    if profile is None:
        return None
    sm, dram = profile.sm_milli, profile.dram_milli
    return replace(
        profile,
        sm_milli=None if sm is None else min(-(-sm * 7 // compute), 1000),
        dram_milli=None if dram is None else min(-(-dram * 8 // memory), 1000),
    )


def _unlike_asked(job: Job, share: Share) -> list[str]:
    request = job.request
    wrong = []
    if share.mode not in request.modes or (share.mig_profile and Mode.MIG not in request.modes):
        wrong.append(f"{job.job_id} in mode {share.mode} that it does not accept")
    if request.isolation is Isolation.HARDWARE and share.mode not in (Mode.MIG, Mode.EXCLUSIVE):
        wrong.append(f"{job.job_id} is not isolated by hardware")
    if request.compute_milli is not None and share.compute_milli < request.compute_milli:
        wrong.append(f"{job.job_id} got less compute than it asked for")
    if request.memory_bytes and (share.memory_bytes or 1 << 62) < request.memory_bytes:
        wrong.append(f"{job.job_id} got less memory than it asked for")
    return wrong


def _overlaps(held: list[Held]) -> list[str]:
    """Slices that cannot stand together; one slice holds all shares of a worker that name it."""
    taken: set[int] = set()
    compute = 0
    wrong = []
    inside: dict[tuple[str, int, int | None], list[Share]] = defaultdict(list)
    for job, worker, share in held:
        if share.mode is not Mode.MIG:
            inside[job.job_id, worker, share.mig_start].append(share)
    for shares in inside.values():
        wrong += _too_much_inside(shares)
    shares = [share for _job, _worker, share in held if share.mode is Mode.MIG]
    shares += [shares[0] for shares in inside.values()]
    for share in shares:
        memory, cut = SLICES[share.mig_profile or ""]
        compute += cut
        wanted = set(range(share.mig_start or 0, (share.mig_start or 0) + memory))
        if wanted & taken or max(wanted) > 7:
            wrong.append(f"slices overlap at {sorted(wanted & taken)}")
        taken |= wanted
    if compute > 7:
        wrong.append(f"{compute} compute slices")
    if sum(share.mig_profile == "1g.10gb+me" for share in shares) > 1:
        wrong.append("two media engines")
    return wrong


def _too_much_inside(shares: list[Share]) -> list[str]:
    """What is wrong with the shares of one slice of a GPU of 80 GB."""
    memory, compute = SLICES[shares[0].mig_profile or ""]
    wrong = []
    if len({(share.mode, share.mig_profile) for share in shares}) > 1:
        wrong.append("one slice in several modes")
    if sum(share.compute_milli for share in shares) * 7 > compute * 1000:
        wrong.append("compute of a slice")
    if sum(share.memory_bytes or 0 for share in shares) > memory * (10 << 30):
        wrong.append("memory of a slice")
    if shares[0].mode is Mode.MPS and len(shares) > 48 * compute // 7:
        wrong.append("MPS clients of a slice")
    return wrong
