"""Moving others so that a job fits: nobody loses its place, and the change brings more than it costs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from placement import columns as k
from placement.cluster import Cluster
from placement.columns import Ints
from placement.forecasts import on_gpu
from placement.ledger import Ledger
from placement.lifecycle import JobRecord, JobState
from placement.lodgings import Holder
from placement.model import WHOLE_GPU_MILLI, Assignment, Mode, Reason, Share
from placement.noise import draw
from placement.partition import (
    Change,
    Instance,
    Price,
    Prospect,
    Setup,
    Standing,
    TransitionCosts,
    can_be,
    cheapest_change,
    net_gain,
    repartition,
    transition,
)
from placement.partition.transitions import DEFAULT_COSTS, HORIZON_S
from placement.preemption import Wish
from placement.search import Search
from placement.topology import exceeds, spans

CANDIDATES = 4
"""So many GPUs (or groups of GPUs of one node) are examined for one job, those that hold least first."""

WINDOW_NODES = 2048
"""The candidates are chosen among so many nodes, beginning with one that is drawn for the job."""

MOST_MOVED = 4
"""No more residents than that are moved for one job, and no gang of more workers."""

SETTLED_S = 60.0
"""Whoever has its place for a shorter time is not moved.  Our assumption: twice what MISO's simulator
charges for a move, so that nobody spends most of its time on the move."""

_NEVER = 1 << 40

Where = tuple[int, list[int]]
"""A node, by its row, and some of its GPUs, by their slots."""


@dataclass(frozen=True, slots=True)
class Relocation:
    """A resident that is to be moved, and the shares where it goes on."""

    job_id: str
    place: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """Where a job would sit, who is moved for it, the price, and what is left after it.

    ``net`` is in solo-equivalent GPU-seconds, see :func:`placement.partition.transitions.net_gain`.
    """

    place: tuple[Assignment, ...]
    moves: tuple[Relocation, ...]
    price: Price
    net: float


@dataclass(frozen=True, slots=True)
class _Draft:
    """A plan before its price: ``speed_after`` is what the GPUs that it touches would run at together."""

    place: tuple[Assignment, ...]
    moves: tuple[Relocation, ...]
    touched: tuple[str, ...]
    speed_after: float


class Repartition:
    """Plans who is to be moved for a job; the plans are pure what-ifs.

    A GPU's residents are lifted, few of them and only those who may be moved, until the job fits; then each
    of them must fit again, on the same GPU cut anew or anywhere else.  What the change gains is the growth
    of the speeds of all who are on the GPUs that it touches (:class:`Prospect`).  For a gang that lacks room
    for few of its workers, residents of several places are lifted; a gang is moved as a whole.
    """

    def __init__(self, search: Search, ledger: Ledger, costs: TransitionCosts = DEFAULT_COSTS) -> None:
        self._search = search
        self._cluster = search.cluster
        self._ledger = ledger
        self._costs = costs

    def plan(self, wish: Wish, holder: Holder) -> Plan | None:
        """The plan that brings most after its price; None if none is possible, or none is worth it."""
        best, _dear = self.consider(wish, holder)
        return best

    def consider(self, wish: Wish, holder: Holder) -> tuple[Plan | None, int]:
        """The best plan that is worth its price, and how many were possible but not worth theirs."""
        best: Plan | None = None
        dear = 0
        places = self._candidates(wish)
        groups = [places] if wish.record.job.workers > 1 else [[place] for place in places]
        for group in groups:
            plan = self._plan_on(wish, holder, group)
            if plan is None:
                continue
            dear += plan.net <= 0
            if plan.net > 0 and (best is None or plan.net > best.net):
                best = plan
        return best, dear

    # -- where to look -------------------------------------------------------------------------------------

    def _candidates(self, wish: Wish) -> list[Where]:
        """Nodes with those of their GPUs that suit the job and hold least, the least held first."""
        wanted = wish.demand.request.gpus_apart
        job = wish.record.job
        if not 0 < wanted <= self._cluster.gpus.shape[1]:
            return []
        if job.workers > 1 and not 0 < job.workers - self._search.workers_that_fit(wish.demand) <= CANDIDATES:
            return []
        rows = self._window(job.sequence)
        held = self._held(wish, rows)
        if wanted == 1:
            return [
                (int(rows[place // held.shape[1]]), [place % held.shape[1]])
                for place in _lowest(held.ravel(), CANDIDATES)
            ]
        slots = np.argsort(held, axis=1, kind="stable")[:, :wanted]
        total = np.take_along_axis(held, slots, axis=1).sum(axis=1)
        return [(int(rows[place]), slots[place].tolist()) for place in _lowest(total, CANDIDATES)]

    def _window(self, sequence: int) -> Ints:
        count = len(self._cluster.members)
        begin = draw(0, sequence, 0, count) if count > WINDOW_NODES else 0
        rows: Ints = (np.arange(min(count, WINDOW_NODES), dtype=np.int64) + begin) % max(count, 1)
        return rows

    def _held(self, wish: Wish, rows: Ints) -> Ints:
        """Compute held on each GPU in thousandths; no candidate: one that the job could not use at all."""
        gpus = self._cluster.gpus[rows]
        served = np.asarray(self._search.ask_of(wish.demand).terms[:, :, k.MILLI].any(axis=0))
        usable = (gpus[:, :, k.MODE] != k.ABSENT) & served[gpus[:, :, k.MODEL]]
        usable[self._cluster.nodes[rows, k.UP] == 0] = False
        return np.where(usable, WHOLE_GPU_MILLI - gpus[:, :, k.FREE_MILLI], _NEVER)

    # -- what if -------------------------------------------------------------------------------------------

    def _plan_on(self, wish: Wish, holder: Holder, places: Sequence[Where]) -> Plan | None:
        lift = {record.job.job_id: record for where in places for record in self._movable_on(wish, where)}
        if not lift:
            return None
        if wish.record.job.workers > 1:
            fits = partial(self._search.all_fit, holder, wish.demand, wish.record.job)
        else:
            fits = partial(self._search.fits_on, wish.demand, places[0][0])
        self._cluster.checkpoint()
        try:
            draft = self._draft(wish, holder, self._make_room([*lift.values()], fits))
        finally:
            self._cluster.rollback()
        return None if draft is None else self._priced(wish, draft)

    def _draft(self, wish: Wish, holder: Holder, gone: Sequence[JobRecord]) -> _Draft | None:
        place = self._search.place(holder, wish.demand, wish.record.job) if gone else None
        if place is None:
            return None
        moves: list[Relocation] = []
        for record in gone:
            demand = self._search.demand(record.job, self._ledger.profile_of(record.job))
            again = self._search.place(self._ledger.holder_of(record.job), demand, record.job)
            if again is None or exceeds(self._spans(again), self._spans(record.assignments)):
                return None
            if again != record.assignments:
                moves.append(Relocation(record.job.job_id, again))
        places = [
            *place,
            *(a for move in moves for a in move.place),
            *(a for r in gone for a in r.assignments),
        ]
        touched = tuple(dict.fromkeys(share.gpu_uuid for a in places for share in a.shares))
        return _Draft(place, tuple(moves), touched, self._speed(touched)) if moves else None

    def _spans(self, place: Iterable[Assignment]) -> tuple[int, ...]:
        return spans(self._cluster.members[self._cluster.row_of(held.node_id)] for held in place)

    def _make_room(self, lift: Sequence[JobRecord], fits: Callable[[], bool]) -> list[JobRecord]:
        """Lift one after the other until the job fits, then take back whoever was not in the way.

        Gives those lifted, the largest first; nobody if the job does not fit even then.
        """
        gone: list[JobRecord] = []
        while not fits():
            if len(gone) == min(len(lift), MOST_MOVED):
                return []
            gone.append(lift[len(gone)])
            self._lift(gone[-1])
        needed = gone[-1:]
        for record in gone[-2::-1]:
            for assignment in record.assignments:
                self._cluster.allocate(self._ledger.holder_of(record.job), assignment)
            if not fits():
                self._lift(record)
                needed.append(record)
        return sorted(needed, key=_size)

    def _lift(self, record: JobRecord) -> None:
        for assignment in record.assignments:
            self._cluster.release(record.job.job_id, assignment.worker)

    # -- who may be moved ----------------------------------------------------------------------------------

    def _movable_on(self, wish: Wish, where: Where) -> list[JobRecord]:
        """Whom to lift on these GPUs, in this order: on a cut GPU those whose slices are in the way."""
        row, slots = where
        node = self._cluster.members[row]
        found: dict[str, JobRecord] = {}
        for slot in slots:
            uuid = node.gpus[slot].uuid
            residents = [(tenancy.job_id, tenancy.share) for tenancy in self._cluster.residents(uuid)]
            profiles = self._profiles_wanted(wish, row, slot)
            ways = [self._in_the_way(wish, node.gpus[slot].model, residents, each) for each in profiles]
            everyone = {job_id for job_id, _share in residents}
            chosen = next(filter(None, ways), set()) if profiles else everyone
            for job_id in chosen:
                record = self._movable(job_id, wish.now_s)
                if record is not None:
                    found[job_id] = record
        return sorted(found.values(), key=lambda record: (record.job.workers > 1, _size(record)))

    def _movable(self, job_id: str, now_s: float) -> JobRecord | None:
        record = self._ledger.find(job_id)
        return record if record is not None and movable(self._cluster, record, now_s) else None

    def _profiles_wanted(self, wish: Wish, row: int, slot: int) -> list[str]:
        """The slices of which one would do, on a GPU that is cut already; none if it takes more than one."""
        mode, kind = (self._cluster.gpus.item(row, slot, column) for column in (k.MODE, k.MODEL))
        geometry = self._cluster.geometries[kind]
        if mode != k.MIG or geometry is None or wish.demand.request.shares_per_gpu > 1:
            return []
        needs = self._search.ask_of(wish.demand).needs
        profiles = [need.mig_profile for by_kind in needs if (need := by_kind[kind]) is not None]
        return [geometry.profiles[profile].name for profile in profiles if profile is not None]

    def _in_the_way(
        self, wish: Wish, model: str, residents: Sequence[tuple[str, Share]], profile: str
    ) -> set[str]:
        """The residents whom the cheapest change of instances would destroy."""
        geometry = next(
            g
            for (name, _m), g in zip(self._cluster.kinds, self._cluster.geometries, strict=True)
            if name == model
        )
        if geometry is None or not all(can_be(geometry, share) for _job_id, share in residents):
            return set()
        owner = {_instance(share): job_id for job_id, share in residents}
        standing = [
            Standing(instance, 1, self._movable(job_id, wish.now_s) is not None)
            for instance, job_id in owner.items()
        ]
        change = cheapest_change(geometry, standing, profile)
        return set() if change is None else {owner[gone] for gone in (*change.destroyed, *change.reused)}

    # -- what it costs -------------------------------------------------------------------------------------

    def _priced(self, wish: Wish, draft: _Draft) -> Plan | None:
        """The plan with its price, seen from the cluster as it is; None if a mode cannot be changed so.

        The changes of mode count that those moved need where they go on; all are made at once.
        """
        moved = [record for move in draft.moves if (record := self._ledger.find(move.job_id)) is not None]
        leaving = {record.job.job_id for record in moved}
        going = [
            share
            for move in draft.moves
            for share in _shares(move.place)
            if self._mode_of(share.gpu_uuid) is not share.gpu_mode
        ]
        prices = [self._price(share, leaving) for share in (*_shares(draft.place), *going)]
        known = [price for price in prices if isinstance(price, Price)]
        if len(known) < len(prices):
            return None
        price = Price(
            max(price.drain_s for price in known), max(price.reconfigure_s for price in known), len(moved)
        )
        prospect = Prospect(
            gain_gpus=draft.speed_after - self._speed(draft.touched),
            horizon_s=horizon_s(wish, moved),
            held_gpus=sum(self._speed_of(record) for record in moved),
        )
        return Plan(draft.place, draft.moves, price, net_gain(price, prospect, self._costs))

    def _mode_of(self, gpu_uuid: str) -> Mode | None:
        """What a GPU serves in now; None for one that is empty."""
        residents = self._cluster.residents(gpu_uuid)
        return residents[0].share.gpu_mode if residents else None

    def _price(self, share: Share, moved: Collection[str]) -> Price | Reason:
        """What it takes to make one GPU ready for this share."""
        residents = self._cluster.residents(share.gpu_uuid)
        mode = self._mode_of(share.gpu_uuid)
        leaving = [tenancy.share for tenancy in residents if tenancy.job_id in moved]
        if mode is share.gpu_mode is Mode.MIG:
            gone = tuple(dict.fromkeys(_instance(each) for each in leaving))
            return repartition(Change(gone, (_instance(share),), moved=len(gone)), self._costs)
        if mode is share.gpu_mode:
            return Price(self._costs.drain_s if leaving else 0.0, 0.0, len(leaving))
        model = self._cluster.gpu(share.gpu_uuid).model
        instances = len({_instance(each.share) for each in residents}) if mode is Mode.MIG else 0
        return transition(
            Setup(model, mode, len(residents), instances, settled=len(leaving) < len(residents)),
            share.gpu_mode,
            self._costs,
        )

    def _speed_of(self, record: JobRecord) -> float:
        """What one job runs at now, in solo-equivalent GPUs."""
        uuids = [share.gpu_uuid for assignment in record.assignments for share in assignment.shares]
        return self._speed(uuids, record.job.job_id)

    def _speed(self, gpu_uuids: Iterable[str], only: str | None = None) -> float:
        """What all on these GPUs, or ``only`` one, run at together; unknown slowdowns count as none."""
        total = 0.0
        for uuid in gpu_uuids:
            residents = self._cluster.residents(uuid)
            shared = bool(residents) and residents[0].share.mode is not Mode.EXCLUSIVE
            foreseen = on_gpu(self._cluster, self._search.belief, uuid) if shared else {}
            for tenancy in residents:
                if only is None or tenancy.job_id == only:
                    slowdown = foreseen.get(tenancy.job_id, (None, None))[0] or 1.0
                    total += tenancy.share.compute_milli / WHOLE_GPU_MILLI / slowdown
        return total


def movable(cluster: Cluster, record: JobRecord, now_s: float) -> bool:
    """Whether a job may be moved now; one with a worker on a node that is not up waits for that node."""
    if record.state not in (JobState.STARTING, JobState.RUNNING) or record.exited_workers:
        return False
    settled = record.placed_s is not None and now_s - record.placed_s >= SETTLED_S
    may_be = record.job.workers <= MOST_MOVED and record.job.preemptible
    held = (assignment.node_id for assignment in record.assignments)
    return settled and may_be and all(cluster.has_node(at) and cluster.is_up(at) for at in held)


def horizon_s(wish: Wish, moved: Sequence[JobRecord]) -> float:
    """How long the gain of a move lasts: until the job would have found a place anyway, or is done.

    It would when those to be moved have ended, as far as is known.
    """
    limits: list[float] = [HORIZON_S]
    own_s = wish.record.remaining_s()
    if own_s is not None:
        limits.append(own_s)
    left = [_left_s(record, wish.now_s) for record in moved]
    known = [seconds for seconds in left if seconds is not None]
    if known and len(known) == len(left):
        limits.append(max(known))
    return min(limits)


def growth_s(moved: Sequence[JobRecord], now_s: float) -> float:
    """How long larger slices help those moved for them: until the first is done, as far as is known."""
    left = [_left_s(record, now_s) for record in moved]
    return min([HORIZON_S, *(seconds for seconds in left if seconds is not None)])


def _shares(place: Iterable[Assignment]) -> list[Share]:
    return [share for assignment in place for share in assignment.shares]


def _instance(share: Share) -> Instance:
    return Instance(share.mig_profile or "", -1 if share.mig_start is None else share.mig_start)


def _size(record: JobRecord) -> tuple[int, int]:
    """The largest first, of equals the earlier."""
    held = sum(share.compute_milli for assignment in record.assignments for share in assignment.shares)
    return -held, record.job.sequence


def _left_s(record: JobRecord, now_s: float) -> float | None:
    """Solo run time that is left to a job that runs; None if unknown."""
    remaining_s, placed_s = record.remaining_s(), record.placed_s
    return None if remaining_s is None or placed_s is None else max(remaining_s - (now_s - placed_s), 0.0)


def _lowest(values: Ints, most: int) -> list[int]:
    """Positions of the lowest values between 1 and what no candidate has, ties by position."""
    possible = np.flatnonzero((values > 0) & (values < _NEVER))
    keys = values[possible] * len(values) + possible
    if len(keys) > most:
        keys = np.partition(keys, most - 1)[:most]
    return [int(key % len(values)) for key in np.sort(keys)]
