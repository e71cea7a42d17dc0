"""A full search as one would write it down: every node, every GPU, every mode, and the least score.

The rule: a worker takes the place of the least (mode, score), the mode only if the policy does not weigh it;
of equal nodes the first by id; within the node by the policy's second preference, then mode, then slot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from placement.alternatives import other_slice
from placement.ask import opening_ms
from placement.interference import InterferenceModel, coupling_of
from placement.model import Assignment, Job, Mode, Profile, Share
from placement.neighbourhood import Neighbour, neighbourhood_of
from placement.noise import draw
from placement.partition import MODE_ORDER, Need, needs_of
from placement.policies import Offer, Placement
from tests.property.plain_books import SHARED, Books, Lodger, Slot, lodger_of, stranded
from tests.property.plain_worth import PlainWorth, Standing

WAYS = (*MODE_ORDER, Mode.MIG)
"""The modes, and then another slice."""


@dataclass(frozen=True)
class Asked:
    """One worker of a job, under this policy."""

    job: Job
    profile: Profile | None
    placement: Placement
    belief: InterferenceModel
    only: int | None = None
    """The one rank that will do."""

    @property
    def who(self) -> Lodger:
        return lodger_of(self.job, self.profile, Share("", Mode.EXCLUSIVE, 1000))

    def need(self, slot: Slot, rank: int) -> Need | None:
        """The share in one of the ways to serve it: in each mode, and another slice that keeps a promise."""
        mode = WAYS[rank]
        if mode not in self.placement.modes or self.only not in (None, rank):
            return None
        kind = slot.gpu.model, slot.gpu.memory_bytes
        if rank < len(MODE_ORDER):
            return needs_of(self.job.request, self.profile, *kind).get(mode)
        chooses = self.placement.smaller_slice
        return other_slice(self.job.request, self.profile, kind, self.belief, smaller=chooses)


@dataclass(frozen=True)
class Place:
    """Where a worker could go, and how undesirable that is."""

    value: tuple[int, int]
    inside: tuple[int, int, int]
    node_id: str
    taken: tuple[int, ...]
    shares: tuple[Share, ...]


class PlainView:
    """The nodes that a job's workers are shown: some that could hold one, then the next such.

    Beside them some of those where the tenant has GPUs for itself.
    """

    def __init__(self, search: PlainSearch, asked: Asked, size: int) -> None:
        self.search, self.asked, self.size = search, asked, size
        ids = sorted(search.books.nodes)
        own = [node_id for node_id in ids if search.is_own(asked, node_id)]
        self.every_own = [node_id for node_id in self._turned(own, 2) if self._could(node_id)]
        self.own = self.every_own[:1]
        self.left = self._turned(ids, 0)
        self.window: set[str] | None = None

    def _turned(self, ids: list[str], salt: int) -> list[str]:
        begin = draw(self.search.seed ^ salt, self.asked.job.sequence, 0, len(ids)) if ids else 0
        return [*ids[begin:], *ids[:begin]]

    def _could(self, node_id: str) -> bool:
        return any(self.search.places(self.asked, node_id, blind=True))

    def widen(self) -> bool:
        """Show the next; False if there are none."""
        if not self.left:
            return False
        self.window = {*self.own}
        found = 0
        while self.left and found < self.size:
            node_id = self.left.pop(0)
            if self._could(node_id):
                self.window.add(node_id)
                found += 1
        self.size *= 2
        return True


def _more_and_more(count: int) -> Iterator[int]:
    """One, two more, four more and so on until all are seen; once at least."""
    seen, more = min(count, 1), 2
    yield seen
    while seen < count:
        seen, more = min(seen + more, count), 2 * more
        yield seen


class PlainSearch:
    """Looks at everything for every worker."""

    def __init__(self, books: Books, placement: Placement, seed: int, sight: int | None) -> None:
        self.books = books
        self.placement = placement
        self.seed = seed
        self.sight = sight
        self.worth: PlainWorth | None = None

    # -- one job -------------------------------------------------------------------------------------------

    def place(self, job: Job, profile: Profile | None, *, alone: bool) -> tuple[Assignment, ...] | None:
        """All workers or none; a gang may keep to one way.  ``alone``: nobody else asks for the same."""
        narrowed = replace(job, request=self.placement.asks(job))
        for asked in self._attempts(Asked(narrowed, profile, self.placement, self.books.belief)):
            placed: list[Assignment] = []
            view = PlainView(self, asked, self.sight) if alone and self.sight is not None else None
            while len(placed) < job.workers:
                place = self.worker(asked, len(placed), view)
                if place is None:
                    break
                placed.append(Assignment(len(placed), place.node_id, place.shares))
                self.books.take(job, profile, placed[-1])
            self.books.drop(job.job_id)
            if len(placed) == job.workers:
                return tuple(placed)
        return None

    def _attempts(self, asked: Asked) -> Iterator[Asked]:
        yield asked
        gpus = {(gpu.model, gpu.memory_bytes): gpu for node in self.books.nodes.values() for gpu in node.gpus}
        slots = [Slot(gpu) for gpu in gpus.values()]
        ranks = [rank for rank in range(len(WAYS)) if any(asked.need(slot, rank) for slot in slots)]
        if asked.job.workers > 1 and len(ranks) > 1 and asked.job.request.gpus:
            yield from (replace(asked, only=rank) for rank in ranks)

    def worker(self, asked: Asked, worker: int, view: PlainView | None) -> Place | None:
        """The best place of all nodes; at first sight, of those in sight, or of the next."""
        if view is None:
            every = sorted(self.books.nodes)
            if self.sight is None:
                return self.best(asked, every, worker)
            own = PlainView(self, asked, self.sight).every_own
            # More of its own only if nothing else will do; who draws draws among all.
            counts = [len(own)] if self.placement.noise else _more_and_more(len(own))
            places = (self.best(asked, every, worker, own[:count]) for count in counts)
            return next((place for place in places if place is not None), None)
        place = self.best(asked, view.window, worker) if view.window is not None else None
        while place is None and view.widen():
            place = self.best(asked, view.window, worker)
        return place

    def best(
        self, asked: Asked, node_ids: Iterable[str], worker: int, own: Iterable[str] | None = None
    ) -> Place | None:
        """The best place on these nodes; all but the tenant's ``own`` as a stranger sees them, if told."""
        found = []
        for node_id in sorted(node_ids):
            places = list(self.places(asked, node_id, stranger=own is not None and node_id not in own))
            if places:
                found.append(min(places, key=lambda place: (place.value, place.inside)))
        if not found:
            return None
        lowest = [place for place in found if place.value == min(p.value for p in found)]
        if not self.placement.noise or not asked.job.request.gpus:
            which = draw(self.seed, asked.job.sequence, worker, len(lowest)) if self.placement.noise else 0
            return lowest[which]
        return self._drawn(asked, lowest, worker)

    def _drawn(self, asked: Asked, lowest: list[Place], worker: int) -> Place:
        """One of the equal nodes, and then some of the GPUs that fit there in that mode."""
        sequence, wanted = asked.job.sequence, asked.job.request.gpus
        node = lowest[draw(self.seed, sequence, worker, len(lowest))]
        rank = node.inside[1]
        fitting = [j for j, *_rest in self._fitting(asked, self.books.slots(node.node_id), rank)]
        first = draw(self.seed ^ 1, sequence, worker, len(fitting))
        taken = sorted((fitting[first:] + fitting[:first])[:wanted])
        slots = self.books.slots(node.node_id)
        after = {j: self._after(asked, slots[j], rank) for j in taken}
        return replace(node, shares=tuple(after[j].lodgers[-1].share for j in taken))

    def is_own(self, asked: Asked, node_id: str) -> bool:
        """Whether the tenant has a shared GPU there for itself: of its own will, or at all if it isolates."""
        if not asked.job.request.modes & {*SHARED}:
            return False
        shared = [slot.lodgers for slot in self.books.slots(node_id) if slot.mode in SHARED]
        alone = [found for found in shared if {lodger.tenant for lodger in found} == {asked.job.tenant}]
        return any(asked.who.isolating or any(lodger.isolating for lodger in found) for found in alone)

    # -- one node ------------------------------------------------------------------------------------------

    def places(
        self, asked: Asked, node_id: str, *, blind: bool = False, stranger: bool = False
    ) -> Iterator[Place]:
        """What a node offers; ``blind``: promises aside; to a ``stranger``: in nobody's name."""
        request, books = asked.job.request, self.books
        if node_id in books.down or request.cpu_milli > books.cpu_free(node_id):
            return
        if request.ram_bytes > books.ram_free(node_id):
            return
        if not request.gpus:
            offer = self._offer(asked, node_id, {}, 0)
            yield Place((0, asked.placement.score(offer)), (0, 0, 0), node_id, (), ())
            return
        slots = books.slots(node_id)
        for rank, mode in enumerate(WAYS):
            fitting = self._fitting(asked, slots, rank, (blind, stranger))
            if len(fitting) < request.gpus:
                continue
            if mode is Mode.EXCLUSIVE and asked.placement.aligned:
                empty = [j for j, _need in fitting]
                yield self._place(asked, node_id, rank, in_block(empty, request.gpus))
            elif request.gpus == 1:
                for j, _need in fitting:
                    yield self._place(asked, node_id, rank, (j,))
            else:
                yield self._place(asked, node_id, rank, self._best_set(asked, node_id, rank, fitting))

    def _best_set(self, asked: Asked, node_id: str, rank: int, fitting: list) -> tuple[int, ...]:
        """The GPUs that are best one by one; whole ones are all alike."""
        wanted = asked.job.request.gpus
        if WAYS[rank] is Mode.EXCLUSIVE:
            return tuple(j for j, _need in fitting[:wanted])
        single = [self._place(asked, node_id, rank, (j,)) for j, _need in fitting]
        single.sort(key=lambda place: (place.value, place.inside))
        return tuple(place.taken[0] for place in single[:wanted])

    def _fitting(
        self, asked: Asked, slots: list[Slot], rank: int, how: tuple[bool, bool] = (False, False)
    ) -> list:
        blind, stranger = how
        found = []
        for j, slot in enumerate(slots):
            need = asked.need(slot, rank)
            if need is None or not slot.has_room(need) or not self._apart(asked, slot, need, stranger):
                continue
            if blind or self._welcome(asked, slot, need):
                found.append((j, need))
        return found

    def _apart(self, asked: Asked, slot: Slot, need: Need, stranger: bool) -> bool:
        """Isolation by tenant; slices and whole GPUs isolate by themselves."""
        if need.mode not in SHARED or not slot.lodgers:
            return True
        mixed = stranger or any(lodger.tenant != asked.job.tenant for lodger in slot.lodgers)
        return not (mixed and (asked.who.isolating or any(lodger.isolating for lodger in slot.lodgers)))

    def _welcome(self, asked: Asked, slot: Slot, need: Need) -> bool:
        """Whether nobody's promise breaks, and the policy does not mind the company."""
        if need.mode is Mode.EXCLUSIVE:
            return True
        after = slot.with_one_more(need, asked.who)
        if self.placement.judges_company:
            met = [Neighbour(lodger.resident, lodger.max_slowdown) for lodger in slot.lodgers]
            newcomer = Neighbour(after.lodgers[-1].resident, asked.job.request.max_slowdown)
            if not self.placement.joins(newcomer, neighbourhood_of(slot.gpu.model, 0, met)):
                return False
        forecast = self.books.belief.predict(slot.gpu.model, tuple(x.resident for x in after.lodgers))
        return all(
            lodger.max_slowdown is None or (one.upper is not None and one.upper <= lodger.max_slowdown)
            for lodger, one in zip(after.lodgers, forecast, strict=True)
        )

    def _after(self, asked: Asked, slot: Slot, rank: int) -> Slot:
        need = asked.need(slot, rank)
        assert need is not None
        return slot.with_one_more(need, asked.who)

    def _place(self, asked: Asked, node_id: str, rank: int, taken: tuple[int, ...]) -> Place:
        slots = self.books.slots(node_id)
        after = {j: self._after(asked, slots[j], rank) for j in taken}
        offer = self._offer(asked, node_id, after, rank)
        if len(taken) > 1 and WAYS[rank] is not Mode.EXCLUSIVE:
            # Several shares are weighed as the sum of what each would strand or take from others.
            single = [self._offer(asked, node_id, {j: after[j]}, rank) for j in taken]
            offer = offer._replace(
                stranded=sum(one.stranded for one in single), forgone=sum(one.forgone for one in single)
            )
        policy = asked.placement
        value = (0 if policy.any_mode else rank, policy.score(offer))
        shares = tuple(after[j].lodgers[-1].share for j in taken)
        inside = policy.within(offer) if len(taken) == 1 else 0
        return Place(value, (inside, rank, taken[0]), node_id, taken, shares)

    def _offer(self, asked: Asked, node_id: str, after: dict[int, Slot], rank: int) -> Offer:
        """The offer, worked out from the node before and after."""
        books, request = self.books, asked.job.request
        before = books.slots(node_id)
        then = [after.get(j, slot) for j, slot in enumerate(before)]
        cpu, ram = books.cpu_free(node_id), books.ram_free(node_id)
        opened = [j for j in after if not before[j].lodgers]
        whole = bool(after) and WAYS[rank] is Mode.EXCLUSIVE
        growth = stranded(then, cpu - request.cpu_milli, ram - request.ram_bytes, books.mix)
        growth -= stranded(before, cpu, ram, books.mix)
        forgone = 0
        if self.worth is not None:
            left = Standing(then, cpu - request.cpu_milli, ram - request.ram_bytes)
            forgone = self.worth.forgone(Standing(before, cpu, ram), left)
        felt = {j: self._forecast(before[j], after[j]) for j in after}
        fields = {
            "mode": MODE_ORDER.index(WAYS[rank]),
            "taken": sum(before[j].free_milli - after[j].free_milli for j in after),
            "gpu_left": sum(slot.free_milli for slot in after.values()),
            "node_left": sum(slot.free_milli for slot in then),
            "cpu": request.cpu_milli,
            "cpu_left": cpu - request.cpu_milli,
            "ram_left": ram - request.ram_bytes,
            "gpus": len(before),
            "empties": sum(not slot.lodgers for slot in before),
            "opened": len(opened),
            "residents": sum(len(before[j].lodgers) for j in after),
            "shape": (1 << request.gpus if whole else 1) if after else 0,
            "shapes": books.shapes(node_id),
            "stranded": growth,
            "forgone": forgone,
            "suffered": sum(suffered for suffered, _inflicted in felt.values()),
            "inflicted": sum(inflicted for _suffered, inflicted in felt.values()),
            "price": sum(opening_ms(before[j].gpu.model, WAYS[rank]) for j in opened),
            "wasted": sum(self._wasted(before[j], after[j]) for j in after),
            "outlasts": sum(_outlasted(before[j], int(asked.job.lifetime)) for j in after),
        }
        return Offer(**(dict.fromkeys(Offer._fields, 0) | fields))

    def _forecast(self, before: Slot, after: Slot) -> tuple[int, int]:
        """Thousandths that the newcomer suffers and inflicts by the linear forecast."""
        newcomer = after.lodgers[-1]
        mine = coupling_of(self.books.belief, before.gpu.model, newcomer.resident)
        if mine is None or newcomer.share.mode not in SHARED:
            return 0, 0
        there = before.coupling(self.books.belief)
        suffered = sum(mine.sensitivity[c] * other.pressure[c] for other in there for c in (0, 1))
        inflicted = sum(mine.pressure[c] * other.sensitivity[c] for other in there for c in (0, 1))
        return suffered // 1000, inflicted // 1000

    def _wasted(self, before: Slot, after: Slot) -> int:
        """Compute that the newcomer takes for nothing because its share is small, as measured or believed."""
        newcomer = after.lodgers[-1]
        profile, share, model = newcomer.profile, newcomer.share, before.gpu.model
        if self.books.belief.name == "none" or profile is None or share.mode is Mode.EXCLUSIVE:
            return 0
        slowdown = profile.slice_slowdown(model, share.mig_profile)
        if slowdown is None:
            slowdown = self.books.belief.predict(model, (newcomer.resident,))[0].slowdown
            milli = 1000 if slowdown is None else int(slowdown * 1000 + 1e-6)
        else:
            milli = round(slowdown * 1000)
        return (milli - 1000) * (before.free_milli - after.free_milli) // 1000


def in_block(empty: list[int], wanted: int) -> tuple[int, ...]:
    """The first slots of the smallest free aligned block (pair, quad, ...) that does, or the first ones."""

    def free(start: int, size: int) -> bool:
        return all(slot in empty for slot in range(start, start + size))

    for size in (1, 2, 4, 8):
        for start in range(0, 8, size):
            whole = free(start, size) and not free(start // (2 * size) * 2 * size, 2 * size)
            if size >= wanted and whole:
                return tuple(range(start, start + wanted))
    return tuple(empty[:wanted])


def _outlasted(slot: Slot, lifetime: int) -> int:
    """By how many classes and one a job would outlast all who are there, as far as that is known."""
    known = [lodger.lifetime for lodger in slot.lodgers if lodger.lifetime]
    if not slot.lodgers:
        return int(lifetime > 0)
    return max(lifetime - max(known) + 1, 0) if known else 0
