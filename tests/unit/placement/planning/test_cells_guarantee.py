"""The guarantee of cells under a random adversary, judged by an own model of the private clusters."""

from __future__ import annotations

from collections import Counter, defaultdict
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.planning.cell_layout import CellPool, check_quotas
from placement.planning.cells import CellAsk, CellGrant, CellHold, Cells

TENANTS = ("t0", "t1", "t2")


def binary_parts(count: int) -> list[int]:
    return [1 << bit for bit in reversed(range(count.bit_length())) if count >> bit & 1]


class World:
    """Nodes, the blocks they form, and tenants' quotas made by cutting the blocks up."""

    def __init__(self, random: Random) -> None:
        sizes = random.choice([(8,), (4, 8), (8, 12, 7), (2, 4)])
        self.nodes = {f"n{i}": random.choice(sizes) for i in range(random.randint(1, 5))}
        racked = random.random() < 0.5
        self.racks = {name: f"r{i % 2}" for i, name in enumerate(self.nodes)} if racked else {}
        self.span = max(part for count in self.nodes.values() for part in binary_parts(count))
        self.group: dict[tuple[int, str], tuple[str, ...]] = {}
        self.quotas: dict[str, dict[int, int]] = {tenant: defaultdict(int) for tenant in TENANTS}
        racks: dict[str, list[str]] = defaultdict(list)
        for name, count in self.nodes.items():
            for part in binary_parts(count):
                if part == self.span and name in self.racks:
                    racks[self.racks[name]].append(name)
                else:
                    self._cut(random, part)
        for members in racks.values():
            first = 0
            for count in binary_parts(len(members)):
                self._group(members[first : first + count])
                self._cut(random, count * self.span)
                first += count

    def _group(self, members: list[str]) -> None:
        size = len(members)
        while size > 1:
            for i in range(0, len(members), size):
                for name in members[i : i + size]:
                    self.group[size * self.span, name] = tuple(members[i : i + size])
            size //= 2

    def _cut(self, random: Random, size: int) -> None:
        if size > 1 and random.random() < 0.6:
            self._cut(random, size // 2)
            self._cut(random, size // 2)
        elif random.random() < 0.9:
            self.quotas[random.choice(TENANTS)][size] += 1


class Book:
    """Who holds what; the private clusters as plain counts, the shared one as plain sets."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.holds: dict[str, tuple[CellAsk, CellGrant]] = {}

    def private(self, tenant: str) -> dict[int, list[Counter[str]]]:
        """Used GPUs by piece, for every bound cell of every size."""
        bound: dict[tuple[int, object], Counter[str]] = defaultdict(Counter)
        for ask, grant in self.holds.values():
            for part in grant.parts:
                if ask.tenant == tenant and part.cell is not None:
                    anchor = self.anchor(part.cell, part.node, part.slots)
                    bound[part.cell, anchor][part.node] += len(part.slots)
        cells: dict[int, list[Counter[str]]] = defaultdict(list)
        for (size, _anchor), used in bound.items():
            cells[size].append(used)
        return cells

    def anchor(self, size: int, node: str, slots: tuple[int, ...]) -> frozenset[tuple[str, int]]:
        """The physical GPUs of the cell around these."""
        if size > self.world.span:
            return frozenset((n, s) for n in self.world.group[size, node] for s in range(self.world.span))
        first = min(slots) // size * size
        assert max(slots) < first + size <= self.world.nodes[node]
        return frozenset((node, slot) for slot in range(first, first + size))

    def feasible(self, ask: CellAsk) -> bool:
        """Whether the tenant's private cluster has room, given where its jobs lie in it."""
        room = 0
        cells = self.private(ask.tenant)
        for size, count in self.world.quotas[ask.tenant].items():
            assert len(cells[size]) <= count, "more cells bound than owned"
            piece = min(size, self.world.span)
            pieces = size // piece
            for used in cells[size]:
                free = [piece - n for n in used.values()] + [piece] * (pieces - len(used))
                assert min(free) >= 0
                room += sum(n // ask.gpus for n in free)
            room += (count - len(cells[size])) * pieces * (piece // ask.gpus)
        return room >= ask.workers

    def audit(self) -> None:
        owner: dict[tuple[str, int], object] = {}
        taken: set[tuple[str, int]] = set()
        for ask, grant in self.holds.values():
            assert len(grant.parts) == ask.workers
            for part in grant.parts:
                gpus = {(part.node, slot) for slot in part.slots}
                assert len(gpus) == ask.gpus
                assert not gpus & taken
                taken |= gpus
                if part.cell is not None:
                    anchor = self.anchor(part.cell, part.node, part.slots)
                    for gpu in anchor:
                        assert owner.setdefault(gpu, (ask.tenant, anchor)) == (ask.tenant, anchor)

    def idle_in_one_node(self, ask: CellAsk) -> bool:
        busy = Counter(
            part.node for _ask, grant in self.holds.values() for part in grant.parts for _slot in part.slots
        )
        room = ((count - busy[name]) // ask.gpus for name, count in self.world.nodes.items())
        return sum(room) >= ask.workers


def attack(seed: int, steps: int) -> Counter[str]:
    """Random requests and departures; whatever fits at home must fit here, and nothing else."""
    random = Random(seed)
    world = World(random)
    pool = CellPool(world.nodes, world.racks)
    check_quotas(pool, world.quotas)
    cells = Cells(pool, world.quotas)
    book = Book(world)
    seen: Counter[str] = Counter()
    for step in range(steps):
        if book.holds and random.random() < 0.45:
            holder = random.choice(list(book.holds))
            del book.holds[holder]
            cells.give(holder)
            continue
        gpus = random.choice((1, 1, 1, 2, 2, 3, 4, 5, 8))
        workers = random.choice((1, 1, 1, 2, 3))
        ask = CellAsk(random.choice(TENANTS), gpus, workers, guaranteed=random.random() < 0.7)
        grant = cells.find(ask)
        expected = book.feasible(ask) if ask.guaranteed else book.idle_in_one_node(ask)
        assert (grant is not None) == expected, f"step {step}: {ask} in {book.holds}"
        seen[f"{'guaranteed' if ask.guaranteed else 'guest'} {'in' if grant else 'out'}"] += 1
        if grant is None:
            continue
        wanted = {(part.node, slot) for part in grant.parts for slot in part.slots}
        guests = {
            holder
            for holder, (_ask, held) in book.holds.items()
            if any((part.node, slot) in wanted for part in held.parts for slot in part.slots)
        }
        assert set(grant.evictions) == guests
        assert not any(book.holds[guest][0].guaranteed for guest in guests)
        seen["evicted"] += len(guests)
        for guest in guests:
            del book.holds[guest]
            cells.give(guest)
        book.holds[f"job{step}"] = (ask, grant)
        cells.take(CellHold(f"job{step}", ask.tenant, grant.parts))
        book.audit()
        if random.random() < 0.1:
            cells = Cells(pool, world.quotas, cells.holds())
    return seen


@given(seed=st.integers(0, 2**32))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_what_fits_a_private_cluster_fits_the_shared_one(seed):
    attack(seed, 60)


def test_the_adversary_tries_everything():
    seen = sum((attack(seed, 60) for seed in range(30)), Counter())
    assert all(seen[what] > 20 for what in ("guaranteed in", "guaranteed out", "guest in", "evicted")), seen


@pytest.mark.parametrize("seed", range(3))
def test_neighbours_change_nothing(seed):
    """A tenant gets the same answers alone in a cluster of just its cells as among the others."""
    random = Random(seed)
    quotas = {tenant: {8: 1, 4: 1, 2: 1, 1: 2} for tenant in TENANTS}
    shared = Cells(CellPool({f"n{i}": 8 for i in range(6)}), quotas)
    alone = {t: Cells(CellPool({"a": 8, "b": 4, "c": 2, "d": 1, "e": 1}), {t: quotas[t]}) for t in TENANTS}
    held: list[tuple[str, str]] = []
    for step in range(300):
        if held and random.random() < 0.48:
            tenant, holder = held.pop(random.randrange(len(held)))
            shared.give(holder)
            alone[tenant].give(holder)
            continue
        ask = CellAsk(random.choice(TENANTS), random.choice((1, 2, 3, 4, 8)))
        here, there = shared.find(ask), alone[ask.tenant].find(ask)
        assert (here is None) == (there is None)
        if here is not None and there is not None:
            assert [p.cell for p in here.parts] == [p.cell for p in there.parts]
            shared.take(CellHold(str(step), ask.tenant, here.parts))
            alone[ask.tenant].take(CellHold(str(step), ask.tenant, there.parts))
            held.append((ask.tenant, str(step)))
