"""Cells that tenants own and share: each finds room as if it had a private cluster of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from placement.model import NotFound, StateError
from placement.planning.cell_layout import BuddyCells, CellLayout, CellPool
from placement.planning.private_cluster import PrivateCluster, Spot

_NEVER = 1 << 30


@dataclass(frozen=True, slots=True)
class CellAsk:
    """Whole GPUs for a tenant: ``workers`` times ``gpus``, those of one worker in one node.

    A request that is not ``guaranteed`` needs no cells: it runs on idle GPUs until a guaranteed one comes,
    but not on those that are ``barred``, as node and slot.
    """

    tenant: str
    gpus: int
    workers: int = 1
    guaranteed: bool = True
    barred: frozenset[tuple[str, int]] = frozenset()


@dataclass(frozen=True, slots=True)
class CellPart:
    """One worker's GPUs; ``cell`` is the size of the tenant's cell around them, None without guarantee."""

    node: str
    slots: tuple[int, ...]
    cell: int | None = None


@dataclass(frozen=True, slots=True)
class CellGrant:
    """Where the workers go, and the holders (never guaranteed ones) that must leave before."""

    parts: tuple[CellPart, ...]
    evictions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CellHold:
    """What a holder has; the list of all holds is the whole state."""

    holder: str
    tenant: str
    parts: tuple[CellPart, ...]


class Cells:
    """Who holds which GPUs of one model, and which cell of whom each guaranteed holder lies in.

    HiveD (OSDI'20): a tenant's cells are sizes that it is owed.  A cell is bound to a place
    when its first GPU is used and unbound when its last one is free (late binding); buddy allocation finds
    the place.  As long as ``check_quotas`` accepts the quotas, whatever fits into a tenant's private cluster
    fits here: opportunistic holders give way, and other tenants' cells are never in the way.
    """

    def __init__(
        self, pool: CellPool, quotas: Mapping[str, Mapping[int, int]], holds: Iterable[CellHold] = ()
    ) -> None:
        self._layout = CellLayout(pool)
        self._buddy = BuddyCells(self._layout)
        self._quotas = {tenant: dict(cells) for tenant, cells in quotas.items()}
        self._private = {tenant: PrivateCluster(self._layout, cells) for tenant, cells in quotas.items()}
        self._held: dict[int, str] = {}
        self._guest: dict[int, str] = {}
        self._owned = bytearray(len(self._layout.node))
        self._visited = bytearray(len(self._layout.node))
        self._holds: dict[str, CellHold] = {}
        self._gpus: list[list[int]] = [[] for _ in self._layout.names]
        for number, node in enumerate(self._layout.node):
            self._gpus[node].append(number)
        self._idle = np.array([len(numbers) for numbers in self._gpus], np.int32)
        self._loose = self._idle.copy()
        for hold in holds:
            self.take(hold)

    def holds(self) -> tuple[CellHold, ...]:
        """Everything that is held; ``Cells(pool, quotas, cells.holds())`` decides like this one."""
        return tuple(self._holds.values())

    def find(self, ask: CellAsk) -> CellGrant | None:
        """Room for all workers of a request, None if there is none now; nothing changes."""
        parts: list[CellPart] = []
        place = self._guaranteed_parts if ask.guaranteed else self._idle_parts
        fits = place(ask, parts)
        numbers = (n for part in parts if part.cell is not None for n in self._numbers(part))
        guests = {self._guest[n]: None for n in numbers if n in self._guest}
        for part in reversed(parts):
            self._vacate(ask.tenant, part)
        return CellGrant(tuple(parts), tuple(guests)) if fits else None

    def take(self, hold: CellHold) -> None:
        """Hold what ``find`` granted, before anything else changes, or what was held before a restart.

        Raises:
            StateError: the holder has something already, or its GPUs or cells are not free (evict first).
            NotFound: no such node, slot or tenant with cells.
        """
        if hold.holder in self._holds:
            raise StateError(f"{hold.holder!r} holds GPUs already")
        numbers = [number for part in hold.parts for number in self._numbers(part)]
        if any(n in self._held or n in self._guest for n in numbers) or len(set(numbers)) < len(numbers):
            raise StateError(f"{hold.holder!r}: some of its GPUs are held")
        if any(part.cell is not None for part in hold.parts) and hold.tenant not in self._private:
            raise NotFound(f"tenant {hold.tenant!r} owns no cells")
        done: list[CellPart] = []
        try:
            for part in hold.parts:
                self._occupy(hold.holder, hold.tenant, part)
                done.append(part)
        except StateError:
            for part in reversed(done):
                self._vacate(hold.tenant, part)
            raise
        self._holds[hold.holder] = hold

    def give(self, holder: str) -> CellHold:
        """Free what a holder has, and its cells where they are empty now.

        Raises:
            NotFound: it holds nothing.
        """
        hold = self._holds.pop(holder, None)
        if hold is None:
            raise NotFound(f"{holder!r} holds no GPUs")
        for part in hold.parts:
            self._vacate(hold.tenant, part)
        return hold

    def _guaranteed_parts(self, ask: CellAsk, parts: list[CellPart]) -> bool:
        private = self._private.get(ask.tenant)
        if private is None:
            return False
        home = private.home(ask.gpus, ask.workers) if ask.workers > 1 else None
        for _ in range(ask.workers):
            if home is None:
                spot = self._best(private, ask.gpus)
            elif home[0] is None:
                spot = self._located(Spot(None, home[1]))
            else:
                spot = private.best_in(home[0], home[1], ask.gpus)
            if spot is None or spot.portion is None:
                return False
            size = private.piece(spot.cell_size)
            numbers = self._within(spot.portion, size, ask.gpus)
            part = self._part(numbers, spot.cell_size)
            self._occupy("", ask.tenant, part)
            parts.append(part)
            if home is not None:
                home = (numbers[0] - numbers[0] % home[1], home[1])
        return True

    def _best(self, private: PrivateCluster, gpus: int) -> Spot | None:
        """The best spot that has a place; all have one unless GPUs were lost or too much is promised."""
        nowhere: set[int] = set()
        while (spot := private.best(gpus, nowhere)) is not None:
            found = self._located(spot)
            if found is not None:
                return found
            nowhere.add(spot.cell_size)
        return None

    def _located(self, spot: Spot) -> Spot | None:
        """The spot with a place; a cell that has none yet gets its piece with the fewest guests."""
        if spot.portion is not None:
            return spot
        start = self._buddy.take(spot.cell_size, self._guests)
        if start is None:
            return None
        self._buddy.release(start, spot.cell_size)
        pieces = self._layout.portions(start, spot.cell_size)
        portion = min(pieces, key=lambda portion: self._guests(portion, pieces.step))
        return Spot(portion, spot.cell_size)

    def _guests(self, start: int, size: int) -> int:
        return self._visited.count(1, start, start + size)

    def _within(self, portion: int, size: int, gpus: int) -> list[int]:
        """Free GPUs of a piece: few guests among them, in a small aligned block, in a full one."""
        choices = []
        block = 1 << (gpus - 1).bit_length()
        while block <= size:
            for start in range(portion, portion + size, block):
                free = [n for n in range(start, start + block) if n not in self._held]
                if len(free) >= gpus:
                    taken = sorted(sorted(free, key=lambda n: (n in self._guest, n))[:gpus])
                    guests = sum(n in self._guest for n in taken)
                    choices.append((guests, block, len(free), start, taken))
            block *= 2
        return min(choices)[4]

    def _idle_parts(self, ask: CellAsk, parts: list[CellPart]) -> bool:
        """Idle GPUs in the fullest node with enough of them outside bound cells, else with enough at all."""
        barred = {self._layout.number[place] for place in ask.barred}
        for _ in range(ask.workers):
            for room in (self._room(barred, loose=True), self._room(barred, loose=False)):
                fit = np.where(room >= ask.gpus, room, _NEVER)
                node = int(fit.argmin()) if fit.size else 0
                if fit.size and fit[node] < _NEVER:
                    break
            else:
                return False
            idle = (n for n in self._idle_on(node) if n not in barred)
            chosen = sorted(idle, key=lambda n: (self._owned[n], n))[: ask.gpus]
            part = self._part(sorted(chosen), None)
            self._occupy("", ask.tenant, part)
            parts.append(part)
        return True

    def _room(self, barred: set[int], *, loose: bool) -> npt.NDArray[np.int32]:
        """Idle GPUs of each node that are not barred; ``loose``: outside bound cells alone."""
        room = self._loose if loose else self._idle
        if not barred:
            return room
        room = room.copy()
        for n in barred:
            if n not in self._held and n not in self._guest and not (loose and self._owned[n]):
                room[self._layout.node[n]] -= 1
        return room

    def _idle_on(self, node: int) -> list[int]:
        return [n for n in self._gpus[node] if n not in self._held and n not in self._guest]

    def _part(self, numbers: list[int], cell: int | None) -> CellPart:
        layout = self._layout
        return CellPart(layout.names[layout.node[numbers[0]]], tuple(layout.slot[n] for n in numbers), cell)

    def _numbers(self, part: CellPart) -> list[int]:
        try:
            return [self._layout.number[part.node, slot] for slot in part.slots]
        except KeyError as missing:
            raise NotFound(f"no GPU {missing.args[0]} in these cells") from None

    def _occupy(self, holder: str, tenant: str, part: CellPart) -> None:
        numbers = self._numbers(part)
        if part.cell is None:
            for n in numbers:
                self._guest[n] = holder
                self._visited[n] = 1
        else:
            private = self._private[tenant]
            start = numbers[0] - numbers[0] % part.cell
            if max(numbers) >= start + part.cell:
                raise StateError(f"{part} is not inside one cell")
            if (start, part.cell) not in private.used:
                self._buddy.take_at(start, part.cell)
                private.bind(start, part.cell)
                self._mark(start, part.cell, owned=True)
            private.use(numbers[0] - numbers[0] % private.piece(part.cell), len(numbers))
            self._held.update(dict.fromkeys(numbers, holder))
        self._recount({self._layout.node[n] for n in numbers})

    def _vacate(self, tenant: str, part: CellPart) -> None:
        numbers = self._numbers(part)
        if part.cell is None:
            for n in numbers:
                del self._guest[n]
                self._visited[n] = 0
        else:
            private = self._private[tenant]
            for n in numbers:
                del self._held[n]
            start = numbers[0] - numbers[0] % part.cell
            private.use(numbers[0] - numbers[0] % private.piece(part.cell), -len(numbers))
            if not private.used[start, part.cell]:
                private.unbind(start, part.cell)
                self._buddy.release(start, part.cell)
                self._mark(start, part.cell, owned=False)
        self._recount({self._layout.node[n] for n in numbers})

    def _mark(self, start: int, size: int, *, owned: bool) -> None:
        self._owned[start : start + size] = bytes([owned]) * size
        self._recount({self._layout.node[n] for n in range(start, start + size)})

    def _recount(self, nodes: Iterable[int]) -> None:
        for node in nodes:
            idle = self._idle_on(node)
            self._idle[node] = len(idle)
            self._loose[node] = sum(not self._owned[n] for n in idle)
