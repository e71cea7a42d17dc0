"""Where cells lie: GPUs numbered so that every cell of 2^l GPUs starts at a multiple of its size."""

from __future__ import annotations

import bisect
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from placement.model import InvalidSpec, StateError


@dataclass(frozen=True, slots=True)
class CellPool:
    """The GPUs of one model: how many each node has and, optionally, which rack a node stands in.

    The order of ``nodes`` breaks ties.  Nodes without a rack form no cells beyond themselves.
    """

    nodes: Mapping[str, int]
    racks: Mapping[str, str] = field(default_factory=dict)


def powers_of_two(count: int) -> Iterator[int]:
    """The binary parts of a number, the largest first: 12 gives 8 and 4."""
    while count > 0:
        part = 1 << (count.bit_length() - 1)
        yield part
        count -= part


class CellLayout:
    """The cell hierarchy GPU < pair < quad < ... < node < group of nodes, as arithmetic on numbers.

    HiveD (OSDI'20) states levels in a file; here they are the powers of two.  A node whose size is
    no power of two is cut into its binary parts: a node of 12 into cells of 8 and 4.  ``span`` is the largest
    part of any node.  Cells above ``span`` consist of parts of that size in one rack: a rack of 6 nodes gives
    groups of 4 and 2.  Smaller parts stay outside groups: a cell of one size means the same everywhere.

    Attributes:
        tops: (first GPU number, GPUs) of each cell that is part of no larger one, the largest first.
        span: the most GPUs that a request for one node can ask for.
        node: the position of the node that holds GPU number i.
        slot: its slot there.
    """

    def __init__(self, pool: CellPool) -> None:
        self.names = tuple(pool.nodes)
        blocks = sorted(self._blocks(pool), key=lambda parts: -sum(size for _n, _s, size in parts))
        self.tops: list[tuple[int, int]] = []
        self.node: list[int] = []
        self.slot: list[int] = []
        self.number: dict[tuple[str, int], int] = {}
        self._top_size: list[int] = []
        for parts in blocks:
            size = sum(part for _n, _s, part in parts)
            self.tops.append((len(self.node), size))
            self._top_size += [size] * size
            for node, first, part in parts:
                for slot in range(first, first + part):
                    self.number[self.names[node], slot] = len(self.node)
                    self.node.append(node)
                    self.slot.append(slot)

    def _blocks(self, pool: CellPool) -> list[list[tuple[int, int, int]]]:
        """Each top cell as its parts (node, first slot, GPUs)."""
        parts: list[tuple[int, int, int]] = []
        for node, count in enumerate(pool.nodes.values()):
            first = 0
            for size in powers_of_two(count):
                parts.append((node, first, size))
                first += size
        self.span = max((size for _n, _s, size in parts), default=1)
        racks: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
        blocks = []
        for part in parts:
            rack = pool.racks.get(self.names[part[0]])
            if rack is None or part[2] < self.span:
                blocks.append([part])
            else:
                racks[rack].append(part)
        for members in racks.values():
            first = 0
            for count in powers_of_two(len(members)):
                blocks.append(members[first : first + count])
                first += count
        return blocks

    def top_size(self, gpu: int) -> int:
        """GPUs of the largest cell that this GPU is part of."""
        return self._top_size[gpu]

    def portions(self, start: int, size: int) -> range:
        """The first GPU numbers of a cell's pieces, one a node; each has min(size, span) GPUs."""
        return range(start, start + size, min(size, self.span))


class BuddyCells:
    """Which cells are free: taken by splitting the lowest larger one, merged on release (HiveD).

    The set of free cells follows from the set of taken ones, whatever the order they came in.
    """

    def __init__(self, layout: CellLayout) -> None:
        self._layout = layout
        self._free: dict[int, list[int]] = defaultdict(list)
        for start, size in layout.tops:
            bisect.insort(self._free[size], start)

    def take(self, size: int, cost: Callable[[int, int], int]) -> int | None:
        """The start of a cell of this size, now taken; None if there is none.

        Of the free cells at the lowest level that has any, the first of cost 0 is used, else the first of the
        least cost.
        """
        level = min((s for s, starts in self._free.items() if starts and s >= size), default=None)
        if level is None:
            return None
        start = _cheapest(self._free[level], level, cost)
        while level > size:
            self._drop(start, level)
            level //= 2
            for half in (start, start + level):
                bisect.insort(self._free[level], half)
            start = _cheapest((start, start + level), level, cost)
        self._drop(start, size)
        return start

    def take_at(self, start: int, size: int) -> None:
        """Take this very cell.

        Raises:
            StateError: it is not free as a whole.
        """
        level = self.level_over(start, size)
        if level is None:
            raise StateError(f"the cell of {size} GPUs at GPU {start} is taken, or part of a taken one")
        while level > size:
            outer = start - start % level
            self._drop(outer, level)
            level //= 2
            for half in (outer, outer + level):
                bisect.insort(self._free[level], half)
        self._drop(start, size)

    def release(self, start: int, size: int) -> None:
        """Free a taken cell and merge it with its buddy as long as that is free, too."""
        while size < self._layout.top_size(start) and self._has(start ^ size, size):
            self._drop(start ^ size, size)
            start &= ~size
            size *= 2
        bisect.insort(self._free[size], start)

    def short_of(self, wanted: Mapping[int, int]) -> dict[int, int]:
        """How many of the wanted cells could not be taken one after the other, by size."""
        missing = {}
        left = 0
        level = 1 << max((size.bit_length() for size in (*wanted, *self._free)), default=1)
        while level:
            have = 2 * left + len(self._free.get(level, ()))
            need = wanted.get(level, 0)
            if need > have:
                missing[level] = need - have
            left = max(have - need, 0)
            level //= 2
        return missing

    def level_over(self, start: int, size: int) -> int | None:
        """Size of the free cell that is or contains this one, None if it is not free as a whole."""
        level = size
        while level <= self._layout.top_size(start):
            if self._has(start - start % level, level):
                return level
            level *= 2
        return None

    def _has(self, start: int, size: int) -> bool:
        starts = self._free.get(size, [])
        at = bisect.bisect_left(starts, start)
        return at < len(starts) and starts[at] == start

    def _drop(self, start: int, size: int) -> None:
        starts = self._free[size]
        del starts[bisect.bisect_left(starts, start)]


def _cheapest(starts: Iterable[int], size: int, cost: Callable[[int, int], int]) -> int:
    """The first start of cost 0, else the first of the least cost."""
    best, least = -1, math.inf
    for start in starts:
        price = cost(start, size)
        if price < least:
            best, least = start, price
        if price == 0:
            break
    return best


def check_quotas(pool: CellPool, quotas: Mapping[str, Mapping[int, int]]) -> None:
    """Refuse promises that the cluster cannot keep all at once.

    Raises:
        InvalidSpec: a cell's size is no power of two, a count is negative, or there are too many cells.
    """
    total: dict[int, int] = defaultdict(int)
    for tenant, cells in quotas.items():
        for size, count in cells.items():
            if size < 1 or size & (size - 1):
                raise InvalidSpec(f"tenant {tenant!r}: a cell has 1, 2, 4, 8, ... GPUs, not {size}")
            if count < 0:
                raise InvalidSpec(f"tenant {tenant!r}: {count} cells of {size} GPUs; write 0 or more")
            total[size] += count
    missing = BuddyCells(CellLayout(pool)).short_of(total)
    if missing:
        size, count = max(missing.items())
        raise InvalidSpec(f"the tenants' cells need {count} more of {size} GPUs than this cluster has")
