"""Finds the place of one worker: the node, the mode and the GPUs that its policy likes best."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from placement import columns as k
from placement.ask import NO_SCORES, Ask, Demand
from placement.columns import Ints
from placement.company import Company
from placement.engine import NO_WAY, Way, choice_of
from placement.model import Assignment, Isolation, Mode, Share, StateError
from placement.model.frozen import made_often
from placement.noise import draw
from placement.options import Options
from placement.policies import Placement
from placement.rows import Near, Rows
from placement.sight import Sight, better
from placement.topology import aligned

SHARED_MODES = frozenset({Mode.MPS, Mode.TIMESLICE})


@dataclass(slots=True)
class Spot:
    """A node and what would be taken there."""

    row: int
    rank: int
    slots: list[int]


@made_often
@dataclass(frozen=True, slots=True)
class Worker:
    """One worker of a job that looks for a place."""

    ask: Ask
    demand: Demand
    sequence: int
    worker: int


class Finder:
    """Looks for places in the rows of a cluster, for one worker at a time."""

    def __init__(self, rows: Rows, placement: Placement, company: Company, options: Options) -> None:
        self._rows = rows
        self._cluster = rows.cluster
        self._placement = placement
        self._company = company
        self._options = options

    def fits_on(self, who: Worker, row: int) -> bool:
        """Whether a worker fits on that node now."""
        while True:
            near = self._rows.aside(who.ask, who.demand.number, [row])[0]
            if near[0] == k.BAD:
                return False
            if self.welcome(who.ask, self.spot(near, who, noisy=False)):
                return True

    def sight_of(self, ask: Ask, demand: Demand, sequence: int) -> Sight:
        """Where the workers of a job look that are answered by a bounded look."""
        within = NO_SCORES if demand.rows is None else demand.rows
        count = len(self._cluster.members) if demand.rows is None else len(within)
        begin = draw(self._options.seed, sequence, 0, count) if count else 0
        way, own = Way(within, begin, self._options.sight), self._own_way(demand, sequence)
        return Sight(self._rows, ask, demand.number, way, own)

    def _own_way(self, demand: Demand, sequence: int) -> Way:
        """Places where the asker may take what strangers may not; some at first unless all shall be seen."""
        rows = self.own_rows(demand)
        if not len(rows):
            return NO_WAY
        most = len(rows) if self._options.exact else self._options.own_sight
        return Way(rows, draw(self._options.seed ^ 2, sequence, 0, len(rows)), most)

    def _own_sight(self, ask: Ask, demand: Demand, sequence: int) -> Sight | None:
        """Those places alone, None if there are none."""
        way = self._own_way(demand, sequence)
        if not way.most:
            return None
        own = Sight(self._rows, ask, demand.number, way, grows=True)
        own.widen()
        return own

    def own(self, ask: Ask, demand: Demand) -> list[Near]:
        """Nodes where a tenant may take what strangers may not, as the tenant sees them."""
        rows = self.own_rows(demand).tolist()
        return self._rows.aside(ask, demand.number, rows) if rows else []

    def own_rows(self, demand: Demand) -> Ints:
        """Nodes where a tenant may take what strangers may not, in order."""
        if demand.asker is None or not demand.request.modes & SHARED_MODES:
            return NO_SCORES
        own = self._cluster.own_rows(demand.number, alone=demand.request.isolation is Isolation.TENANT)
        return own if demand.rows is None or not len(own) else np.intersect1d(own, demand.rows)

    def of_all(self, who: Worker) -> Spot | None:
        """The best of all nodes."""
        ask, rows = who.ask, who.demand.rows
        self._rows.look(ask)
        if self._placement.noise:
            return self._drawn_of_all(who)
        own = self._own_sight(ask, who.demand, who.sequence)
        if self._takes_sets(ask):
            self._judge_sets(ask, own)
        while len(ask.scores if rows is None else rows):
            # A node of one's own counts as one sees it oneself: the best set there may be another.
            near = self._rows.best(ask, rows, None if own is None else own.nodes)
            near = near if own is None else better(own.best(), near)
            if near[0] == k.BAD:
                if own is None or not own.widen():
                    return None
                if self._takes_sets(ask):
                    self._judge_sets(ask, own)
                else:
                    own.look_again()
                continue
            spot = self.spot(near, who)
            if self.welcome(ask, spot):
                return spot
            self._rows.rescore(ask, np.array([spot.row]))
            if own is not None:
                own.changed(spot.row)
        return None

    def _judge_sets(self, ask: Ask, own: Sight | None) -> None:
        """Judge all who might refuse a worker that takes sets."""
        fitting = np.flatnonzero(ask.scores != k.BAD)
        if self._company.judges_anew(ask, fitting if own is None else np.union1d(fitting, own.nodes)):
            self._rows.rescore(ask, fitting)
        if own is not None:  # what is in sight first does not mind who is known to refuse
            own.look_again()

    def _drawn_of_all(self, who: Worker) -> Spot | None:
        """One of all the nodes with the lowest score, as the asker sees them."""
        ask, rows = who.ask, who.demand.rows
        own = self.own(ask, who.demand)
        fitting = np.flatnonzero(ask.scores != k.BAD) if rows is None else rows[ask.scores[rows] != k.BAD]
        if not own and not self._company.matters(ask):  # nobody can refuse
            equal = fitting[ask.scores[fitting] == ask.scores[fitting].min(initial=k.BAD)]
            if not len(equal):
                return None
            row = equal.item(draw(self._options.seed, who.sequence, who.worker, len(equal)))
            return self.spot((ask.scores.item(row), row, ask.infos.item(row)), who)
        columns = ask.scores[fitting].tolist(), fitting.tolist(), ask.infos[fitting].tolist()
        mine = {near[1] for near in own}
        return self._drawn([near for near in zip(*columns, strict=True) if near[1] not in mine] + own, who)

    def in_sight(self, who: Worker, sight: Sight) -> Spot | None:
        """The best place in sight; if none there will do, of those that come in sight next."""
        opened = sight.opened
        while opened or sight.widen():
            # The worker before may have made other company, too.
            if self._takes_sets(who.ask) and (self._company.judges_anew(who.ask, sight.nodes) or not opened):
                sight.look_again()
            spot = self._in_window(who, sight)
            if spot is not None:
                return spot
            opened = False
        return None

    def _in_window(self, who: Worker, sight: Sight) -> Spot | None:
        """The best of the places in sight that is welcome."""
        if self._placement.noise:
            return self._drawn([*sight.places().values()], who)
        while (near := sight.best())[0] != k.BAD:
            spot = self.spot(near, who)
            if self.welcome(who.ask, spot):
                return spot
            sight.changed(spot.row)
        return None

    def _takes_sets(self, ask: Ask) -> bool:
        """Whether a worker takes shares of several GPUs of which some may refuse it.

        The best set of those that do not may be better than the best set of all, so all are judged first.
        """
        shares = ask.plain[k.OFFERED] & ~(1 << k.EXCLUSIVE_RANK)
        return ask.plain[k.GPUS] > 1 and shares != 0 and self._company.matters(ask)

    def _drawn(self, near: list[Near], who: Worker) -> Spot | None:
        """One of the places with the lowest score that are welcome, all judged before anything is drawn."""
        places = {place[1]: place for place in near if place[0] != k.BAD}
        while places:
            lowest = min(place[0] for place in places.values())
            equal = sorted(place for place in places.values() if place[0] == lowest)
            refused = [place for place in equal if not self._settled(place, who)]
            if not refused:
                pick = equal[draw(self._options.seed, who.sequence, who.worker, len(equal))]
                return self.spot(pick, who)
            for place in refused:
                again = self._rows.aside(who.ask, who.demand.number, [place[1]])[0]
                if again[0] == k.BAD:
                    del places[place[1]]
                else:
                    places[place[1]] = again
        return None

    def _settled(self, near: Near, who: Worker) -> bool:
        """Whether a place is welcome with every GPU that could be taken there; what refuses is noted."""
        ask = who.ask
        rank = choice_of(near[2])[0]
        if not ask.plain[k.GPUS] or rank == k.EXCLUSIVE_RANK or not self._company.matters(ask):
            return True
        slots = self._rows.slots(ask, who.demand.number, near[1], rank)
        welcome = self.welcome(ask, Spot(near[1], rank, slots))
        return welcome and len(slots) >= ask.plain[k.GPUS]

    def welcome(self, ask: Ask, spot: Spot) -> bool:
        """Whether all promises hold there; a neighbourhood that refuses is remembered."""
        if spot.rank == k.EXCLUSIVE_RANK or not self._company.matters(ask):
            return True
        if len(spot.slots) < ask.plain[k.GPUS]:  # scored before what is refused elsewhere was known
            return False
        numbers = [self._cluster.gpus.item(spot.row, slot, k.NEIGHBOURHOOD) for slot in spot.slots]
        return self._company.welcomes(ask, spot.rank, numbers)

    def spot(self, near: Near, who: Worker, *, noisy: bool = True) -> Spot:
        """Which slots of a node would be taken."""
        _score, row, info = near
        ask, (rank, slot) = who.ask, choice_of(info)
        wanted = ask.plain[k.GPUS]
        noisy = noisy and self._placement.noise
        in_blocks = rank == k.EXCLUSIVE_RANK and self._placement.aligned
        if wanted == 0:
            return Spot(row, k.EXCLUSIVE_RANK, [])
        if wanted == 1 and not noisy and not in_blocks:
            return Spot(row, rank, [slot])
        if rank == k.EXCLUSIVE_RANK:
            slots = self._rows.empty_slots(ask, row)
        else:
            slots = self._rows.slots(ask, who.demand.number, row, rank)
        if noisy and slots:
            first = draw(self._options.seed ^ 1, who.sequence, who.worker, len(slots))
            slots = sorted((slots[first:] + slots[:first])[:wanted])
        elif in_blocks:
            slots = [*aligned(tuple(slots), wanted)]
        return Spot(row, rank, slots[:wanted])

    def assignment(self, who: Worker, spot: Spot) -> Assignment:
        """The shares that a worker gets there."""
        ask = who.ask
        node = self._cluster.members[spot.row]
        copies = ask.request.shares_per_gpu
        shares: list[Share] = []
        for slot in spot.slots:
            kind, uuid = self._cluster.gpus.item(spot.row, slot, k.MODEL), node.gpus[slot].uuid
            need, geometry = ask.needs[spot.rank][kind], self._cluster.geometries[kind]
            if need is None:
                raise StateError(f"GPU {uuid} was chosen for a request that its model cannot serve")
            what = need.mode, need.compute_milli, need.memory_bytes
            if need.mig_profile is None or geometry is None:
                shares += (Share(uuid, *what),) * copies
            else:
                profile = geometry.profiles[need.mig_profile].name
                state = self._cluster.gpus.item(spot.row, slot, k.MIG_STATE)
                slices = copies if need.mode is Mode.MIG else 1
                starts = geometry.starts_of(state, need.mig_profile, slices) * (copies // slices)
                shares += [Share(uuid, *what, profile, start) for start in starts]
        return Assignment(who.worker, node.node_id, tuple(shares))
