"""Which slice of which GPU a job gets, and who gets another slice for it, by the speeds that slices give."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from placement import columns as k
from placement.ledger import Ledger
from placement.lifecycle import JobRecord
from placement.lodgings import Tenancy
from placement.model import Assignment, Mode, Share, StateError, model_matches
from placement.noise import draw
from placement.partition import (
    DEFAULT_COSTS,
    Change,
    Instance,
    MigGeometry,
    Price,
    Prospect,
    Setup,
    TransitionCosts,
    can_be,
    net_gain,
    repartition,
    state_of,
    transition,
)
from placement.planning.miso import MigPlan, best_partition
from placement.preemption import Wish
from placement.repartition import (
    CANDIDATES,
    WINDOW_NODES,
    Plan,
    Relocation,
    growth_s,
    horizon_s,
    movable,
)
from placement.search import Search

Speeds = Mapping[str, float]
Resident = tuple[JobRecord, Instance, Speeds]
"""Who may get another slice, which it has now, and its speed on each."""
Moved = tuple[Resident, Instance]
_Terms = tuple[float, float, Price]


@dataclass(frozen=True, slots=True)
class _Board:
    """A GPU that may be cut anew: those who may get another slice, what they run at now, and the rest."""

    node_id: str
    uuid: str
    geometry: MigGeometry
    free: list[Resident]
    staying: list[Instance]

    def moved(self, seats: Sequence[Instance]) -> list[Moved]:
        """Those of the free who do not stay where they are, and their new slices; seats in the same order."""
        return [(one, seat) for one, seat in zip(self.free, seats, strict=True) if one[1] != seat]


class Recutting:
    """Plans for jobs of one worker and one GPU, among the GPUs of a bounded window that have most free."""

    def __init__(self, search: Search, ledger: Ledger, costs: TransitionCosts = DEFAULT_COSTS) -> None:
        self._search = search
        self._cluster = search.cluster
        self._ledger = ledger
        self._costs = costs

    def plan(self, wish: Wish) -> Plan | None:
        """The plan that brings most after its price; None where the job fits into no slice now."""
        job, request = wish.record.job, wish.demand.request
        if job.workers != 1 or request.gpus != 1 or request.max_slowdown is not None:
            return None
        best: Plan | None = None
        for row, slot in self._candidates(wish):
            board = self._board(row, slot, None if wish.record.job.immediate else wish.now_s)
            speeds = self._speeds(wish.record, board.uuid, board.geometry)
            for plan in self._plans_on(wish, board, speeds) if speeds else ():
                if plan.net > 0 and (best is None or plan.net > best.net):
                    best = plan
        return best

    def _candidates(self, wish: Wish) -> list[tuple[int, int]]:
        """Rows and slots of GPUs that are cut or empty, those with most free compute first."""
        cluster, request = self._cluster, wish.demand.request
        count = len(cluster.members)
        begin = draw(0, wish.record.job.sequence, 0, count) if count > WINDOW_NODES else 0
        rows = (np.arange(min(count, WINDOW_NODES), dtype=np.int64) + begin) % max(count, 1)
        suits = [
            geometry is not None
            and (not request.gpu_models or any(model_matches(each, model) for each in request.gpu_models))
            for (model, _memory), geometry in zip(cluster.kinds, cluster.geometries, strict=True)
        ]
        gpus, nodes = cluster.gpus[rows], cluster.nodes[rows]
        if not suits or not gpus.size:
            return []
        usable = np.isin(gpus[:, :, k.MODE], (k.EMPTY, k.MIG)) & np.array(suits)[gpus[:, :, k.MODEL]]
        usable[(nodes[:, k.UP] == 0) | (nodes[:, k.CPU_FREE] < request.cpu_milli)] = False
        usable[nodes[:, k.RAM_FREE] < request.ram_bytes] = False
        places = np.flatnonzero(usable)
        order = np.argsort(-gpus[:, :, k.FREE_MILLI].ravel()[places], kind="stable")[:CANDIDATES]
        width = gpus.shape[1]
        found = [(int(rows[place // width]), int(place % width)) for place in places[order].tolist()]
        return [place for place in found if self._can_be_cut(*place)]

    def _can_be_cut(self, row: int, slot: int) -> bool:
        """Whether a GPU is of a model that has slices, and has such as are on it."""
        geometry = self._cluster.geometries[self._cluster.gpus.item(row, slot, k.MODEL)]
        residents = self._cluster.residents(self._cluster.members[row].gpus[slot].uuid)
        return geometry is not None and all(can_be(geometry, tenancy.share) for tenancy in residents)

    def growth(self, row: int, slot: int, now_s: float) -> Plan | None:
        """Larger slices for those who are on a GPU, all in all; None if there are none or they are dear."""
        up = self._cluster.nodes.item(row, k.UP)
        cut = self._cluster.gpus.item(row, slot, k.MODE) == k.MIG
        if not up or not cut or not self._can_be_cut(row, slot):
            return None
        board = self._board(row, slot, now_s)
        standing = [present for _record, present, _speeds in board.free]
        usual_s = growth_s([], now_s)
        jobs = [self._with_inertia(usual_s, present, known) for _record, present, known in board.free]
        found = best_partition(board.geometry, jobs, staying=board.staying, present=standing)
        moved = [] if found is None else board.moved(found.instances)
        if not moved:
            return None
        lasting_s = growth_s([record for (record, _now, _known), _seat in moved], now_s)
        gone, seats = [now for (_r, now, _k), _seat in moved], [seat for _resident, seat in moved]
        price = repartition(Change(tuple(gone), tuple(seats), moved=len(moved)), self._costs)
        plan = self._planned(board, moved, (), (0.0, lasting_s, price))
        return plan if plan.net > 0 else None

    def _board(self, row: int, slot: int, now_s: float | None) -> _Board:
        """A GPU as it is; at no time nobody is moved."""
        node = self._cluster.members[row]
        uuid = node.gpus[slot].uuid
        geometry = self._cluster.geometries[self._cluster.gpus.item(row, slot, k.MODEL)]
        if geometry is None:
            raise StateError(f"GPU {uuid} cannot be cut into slices, but was to be")
        board = _Board(node.node_id, uuid, geometry, [], [])
        for tenancy in self._cluster.residents(uuid):
            present = _instance(tenancy)
            record = None if now_s is None else self._movable(tenancy.job_id, now_s)
            speeds = {} if record is None else self._speeds(record, uuid, geometry)
            single = record is not None and record.job.workers == record.job.request.gpus == 1
            if record is None or not single or present.profile not in speeds:
                if present not in board.staying:  # several shares of a worker may lie in it
                    board.staying.append(present)
            else:
                board.free.append((record, present, speeds))
        return board

    def _movable(self, job_id: str, now_s: float) -> JobRecord | None:
        record = self._ledger.find(job_id)
        return record if record is not None and movable(self._cluster, record, now_s) else None

    def _speeds(self, record: JobRecord, uuid: str, geometry: MigGeometry) -> Speeds:
        """Speeds on the slices that would do for a job; none for one that has been promised a speed."""
        placement, job = self._search.placement, record.job
        if job.request.max_slowdown is not None:
            return {}
        profile, model = self._ledger.profile_of(job), self._cluster.gpu(uuid).model
        return placement.slice_speeds(placement.asks(job), profile, model, geometry)

    def _plans_on(self, wish: Wish, board: _Board, speeds: Speeds) -> Iterable[Plan]:
        """The best partition without moving anybody, and the best of all."""
        standing = [present for _record, present, _speeds in board.free]
        still = best_partition(board.geometry, [speeds], staying=[*board.staying, *standing])
        if still is not None:
            seat = _roomiest(board, still.instances[0].profile)
            yield self._priced(wish, board, MigPlan((seat, *standing), still.score), speeds)
        if board.free:
            lasting_s = horizon_s(wish, [])
            jobs = [speeds, *(self._with_inertia(lasting_s, now, known) for _r, now, known in board.free)]
            found = best_partition(board.geometry, jobs, staying=board.staying, present=[None, *standing])
            if found is not None:
                yield self._priced(wish, board, found, speeds)

    def _with_inertia(self, lasting_s: float, present: Instance, speeds: Speeds) -> Speeds:
        """The speeds, that of the present slice raised by what a move would cost, spread over its gain."""
        costs = self._costs
        delay_s = costs.drain_s + costs.destroy_s + costs.create_s
        raised = (delay_s + costs.restore_s) / max(lasting_s - delay_s, 1.0)
        stays = speeds[present.profile] * (1 + raised)
        return {**speeds, present.profile: stays}

    def _priced(self, wish: Wish, board: _Board, layout: MigPlan, speeds: Speeds) -> Plan:
        moved = board.moved(layout.instances[1:])
        lasting_s = horizon_s(wish, [record for (record, _now, _known), _seat in moved])
        price = self._price(board, [now for (_r, now, _k), _seat in moved], layout.instances)
        place = (self._assignment(board, layout.instances[0]),)
        return self._planned(board, moved, place, (speeds[layout.instances[0].profile], lasting_s, price))

    def _planned(
        self, board: _Board, moved: Sequence[Moved], place: tuple[Assignment, ...], terms: _Terms
    ) -> Plan:
        """The plan; ``terms`` are the newcomer's speed, for how long the gain lasts (s), and the price."""
        speed, lasting_s, price = terms
        gain = speed + sum(known[seat.profile] - known[now.profile] for (_r, now, known), seat in moved)
        held = sum(known[now.profile] for (_record, now, known), _seat in moved)
        prospect = Prospect(gain_gpus=gain, horizon_s=lasting_s, held_gpus=held)
        moves = (
            Relocation(record.job.job_id, (self._assignment(board, seat),))
            for (record, _now, _known), seat in moved
        )
        return Plan(place, tuple(moves), price, net_gain(price, prospect, self._costs))

    def _price(self, board: _Board, gone: Sequence[Instance], seats: Sequence[Instance]) -> Price:
        if not board.free and not board.staying:
            opened = transition(Setup(self._cluster.gpu(board.uuid).model), Mode.MIG, self._costs)
            return opened if isinstance(opened, Price) else Price()
        return repartition(Change(tuple(gone), tuple(seats), moved=len(gone)), self._costs)

    def _assignment(self, board: _Board, seat: Instance) -> Assignment:
        cut = board.geometry.profiles[board.geometry.profile_index(seat.profile)]
        share = Share(
            *(board.uuid, Mode.MIG, board.geometry.compute_milli(cut), cut.memory_bytes, cut.name, seat.start)
        )
        return Assignment(0, board.node_id, (share,))


def _roomiest(board: _Board, profile: str) -> Instance:
    """The free slice of a profile that leaves most places for others."""
    standing = [present for _record, present, _speeds in board.free]
    state = state_of(board.geometry, [*board.staying, *standing]) or 0
    return Instance(profile, int(board.geometry.start[state, board.geometry.profile_index(profile)]))


def _instance(tenancy: Tenancy) -> Instance:
    share = tenancy.share
    return Instance(share.mig_profile or "", -1 if share.mig_start is None else share.mig_start)
