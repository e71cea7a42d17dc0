"""What a tenant owns, seen from inside: cells not bound yet, and the room in those that are."""

from __future__ import annotations

import bisect
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from placement.planning.cell_layout import CellLayout


@dataclass(frozen=True, slots=True)
class Spot:
    """A piece of a cell inside one node: its first GPU number, None as long as the cell is not bound."""

    portion: int | None
    cell_size: int


class PrivateCluster:
    """The cells of one tenant; a bound cell has a place, an unbound one is just a size that is owed."""

    def __init__(self, layout: CellLayout, quota: Mapping[int, int]) -> None:
        self._layout = layout
        self.unbound = Counter({size: count for size, count in quota.items() if count > 0})
        self.used: dict[tuple[int, int], int] = {}
        self._groups: set[tuple[int, int]] = set()
        self._cell: dict[int, tuple[int, int]] = {}
        self._free: dict[int, int] = {}
        self._by_room: dict[int, list[tuple[int, int]]] = defaultdict(list)

    def piece(self, size: int) -> int:
        """GPUs that a cell has in one node."""
        return min(size, self._layout.span)

    def bind(self, start: int, size: int) -> None:
        """A cell that was owed has found its place."""
        self.unbound[size] -= 1
        self.used[start, size] = 0
        if size > self._layout.span:
            self._groups.add((start, size))
        for portion in self._layout.portions(start, size):
            self._cell[portion] = start, size
            self._enter(portion, self.piece(size))

    def unbind(self, start: int, size: int) -> None:
        """An empty cell gives its place back and is owed again."""
        self.unbound[size] += 1
        del self.used[start, size]
        self._groups.discard((start, size))
        for portion in self._layout.portions(start, size):
            self._leave(portion)
            del self._cell[portion]

    def use(self, portion: int, gpus: int) -> None:
        """GPUs of a piece become used, or free where ``gpus`` is negative."""
        self.used[self._cell[portion]] += gpus
        self._enter(portion, self._leave(portion) - gpus)

    def _enter(self, portion: int, free: int) -> None:
        self._free[portion] = free
        bisect.insort(self._by_room[free], (self._cell[portion][1], portion))

    def _leave(self, portion: int) -> int:
        free = self._free.pop(portion)
        rooms = self._by_room[free]
        del rooms[bisect.bisect_left(rooms, (self._cell[portion][1], portion))]
        return free

    def best(self, gpus: int, without: Collection[int] = ()) -> Spot | None:
        """The spot that this many GPUs fill best: bound before unbound, small cells before large ones.

        Unbound cells of the sizes ``without`` have no place just now.
        """
        room = min((room for room, found in self._by_room.items() if found and room >= gpus), default=None)
        sizes = (size for size in self._owed() if size not in without)
        owed = [(self.piece(size), size) for size in sizes if self.piece(size) >= gpus]
        if room is not None and (not owed or room <= min(owed)[0]):
            size, portion = self._by_room[room][0]
            return Spot(portion, size)
        return Spot(None, min(owed)[1]) if owed else None

    def best_in(self, start: int, size: int, gpus: int) -> Spot | None:
        """The spot inside one bound cell that this many GPUs fill best."""
        found = [(self._free[p], p) for p in self._layout.portions(start, size) if self._free[p] >= gpus]
        return Spot(min(found)[1], size) if found else None

    def home(self, gpus: int, workers: int) -> tuple[int | None, int] | None:
        """The cell (start, size) with the least to spare for all workers; start None: not bound yet."""
        found = [
            (room, *members[0])
            for room, members in self._by_room.items()
            if room >= gpus * workers and members and members[0][0] <= self._layout.span
        ]
        for start, size in self._groups:
            pieces = (self._free[portion] for portion in self._layout.portions(start, size))
            if sum(free // gpus for free in pieces) >= workers:
                found.append((size - self.used[start, size], size, start))
        for size in self._owed():
            if size // self.piece(size) * (self.piece(size) // gpus) >= workers:
                found.append((size, size, -1))
        if not found:
            return None
        _spare, size, start = min(found, key=lambda cell: (cell[0], cell[2] < 0, cell[1], cell[2]))
        return (None if start < 0 else start), size

    def _owed(self) -> Iterable[int]:
        return (size for size, count in self.unbound.items() if count > 0)
