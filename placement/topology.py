"""Which places belong together: GPUs of a node, nodes of an NVLink domain or rack, GPUs of one model."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from placement.cluster import Cluster
from placement.columns import Ints
from placement.model import Level, Node, Together, model_matches

_UP_TO = {
    Level.NODE: (Level.NODE,),
    Level.NVLINK: (Level.NODE, Level.NVLINK),
    Level.RACK: (Level.NODE, Level.NVLINK, Level.RACK),
    Level.GPU_TYPE: (Level.GPU_TYPE,),
}
"""Where the workers of a gang are looked for a common domain, the tightest first."""

GATHERED = Together(Level.RACK)
"""What a policy that gathers wishes for the gangs that state no wish: as near as they can be."""


_NONE = np.iinfo(np.int64).max
"""The room of a domain that is out of the question."""


def spans(nodes: Iterable[Node]) -> tuple[int, int, int]:
    """In how many racks, NVLink domains and nodes some workers are; the unknown is shared by nobody."""
    some = list(nodes)
    racks = {node.rack or (node.node_id,) for node in some}
    domains = {node.nvlink_domain or (node.node_id,) for node in some}
    return len(racks), len(domains), len({node.node_id for node in some})


def exceeds(one: Sequence[int], other: Sequence[int]) -> bool:
    """Whether one is greater than the other anywhere."""
    return any(mine > theirs for mine, theirs in zip(one, other, strict=True))


@functools.lru_cache(maxsize=4096)
def aligned(empty: tuple[int, ...], wanted: int) -> tuple[int, ...]:
    """The slots to take of the empty ones: the smallest free aligned block that holds them, lowest first.

    Blocks are pairs, quads and so on, aligned to their size, as links between GPUs of a node are.  Where no
    free block is large enough, the first empty slots are taken.
    """
    free = set(empty)
    size = 1
    while size < wanted:
        size *= 2
    blocks = []
    for start in sorted({slot // size * size for slot in free}):
        if all(slot in free for slot in range(start, start + size)):
            around = size
            while all(
                slot in free
                for slot in range(
                    start // (2 * around) * 2 * around, start // (2 * around) * 2 * around + 2 * around
                )
            ):
                around *= 2
            blocks.append((around, start))
    if not blocks:
        return tuple(sorted(free)[:wanted])
    start = min(blocks)[1]
    return tuple(range(start, start + wanted))


def levels_of(wish: Together) -> tuple[Level, ...]:
    """The levels whose domains would satisfy a wish, the tightest first."""
    return _UP_TO[wish.level]


def by_room(domains: Ints, workers: Ints, wanted: int) -> Iterator[Ints]:
    """Rows of each domain with room for so many workers, the least sufficient first, ties by number.

    ``domains`` are the numbers of the rows' domains, -1 for none; ``workers`` how many fit on each row.
    """
    room = _room(domains, workers)
    room = np.where(room >= wanted, room, _NONE)
    # Hardly ever more than the first is wanted: each is looked for when it is its turn.
    while len(room):
        domain = int(room.argmin())
        if room[domain] == _NONE:
            return
        yield np.flatnonzero(domains == domain)
        room[domain] = _NONE


def by_node(domains: Ints, workers: Ints, wanted: int) -> Iterator[Ints]:
    """The same where each domain is one node."""
    room = np.where((workers >= wanted) & (domains >= 0), workers, _NONE)
    while len(room):
        row = int(room.argmin())
        if room[row] == _NONE:
            return
        yield np.array([row], np.int64)
        room[row] = _NONE


def roomiest(domains: Ints, workers: Ints) -> Ints:
    """Rows of the domain with room for the most workers, the first among equals; none without domains."""
    room = _room(domains, workers)
    return np.flatnonzero(domains == room.argmax()) if len(room) else np.zeros(0, np.int64)


def _room(domains: Ints, workers: Ints) -> Ints:
    """How many workers fit in each domain, int64 [domains]."""
    if not len(domains):
        return np.zeros(0, np.int64)
    # In floats, exact for all that a cluster can hold.
    summed = np.bincount(domains + 1, workers, minlength=1)
    room: Ints = summed[1:].astype(np.int64)
    return room


class Topology:
    """The domains of a cluster's nodes; kept until its rows are others."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._generation = -1
        self._domains: dict[tuple[Level, Level], Ints] = {}
        self._models: dict[str, Ints] = {}

    def domains(self, level: Level, wish: Level) -> Ints:
        """The number of each row's domain of a level that lies within one of the wished level, -1 for none.

        Empty if no node is in any.  Domains are numbered in the order of their names.  A node is in one rack
        even if nobody knows which; that its GPUs are joined by NVLink must be known.
        """
        self._refresh()
        known = self._domains.get((level, wish))
        if known is None:
            names = [_name(node, row, level, wish) for row, node in enumerate(self._cluster.members)]
            order = {name: i for i, name in enumerate(sorted({name for name in names if name is not None}))}
            numbers = [-1 if name is None else order[name] for name in names]
            known = self._domains[level, wish] = np.array(numbers if order else [], np.int64)
        return known

    def models(self) -> list[str]:
        """The GPU models that there are, in alphabetical order."""
        return sorted({model for model, _memory in self._cluster.kinds})

    def of_model(self, model: str) -> Ints:
        """Rows where everything that answers to the name of a model is exactly that."""
        self._refresh()
        rows = self._models.get(model)
        if rows is None:
            pure = [_is_pure(node, model) for node in self._cluster.members]
            rows = self._models[model] = np.flatnonzero(np.array(pure, np.bool_))
        return rows

    def _refresh(self) -> None:
        if self._generation != self._cluster.generation:
            self._generation = self._cluster.generation
            self._domains.clear()
            self._models.clear()


def _name(node: Node, row: int, level: Level, wish: Level) -> tuple[str | int, ...] | None:
    """The name of a node's domain, unique and sortable among those of its level; None if it has none."""
    if wish is Level.NVLINK and node.nvlink_domain is None:
        return None
    if level is Level.NODE:
        return (row,)
    if level is Level.NVLINK and wish is Level.NVLINK:
        return None if node.nvlink_domain is None else (node.nvlink_domain,)
    if node.rack is None:
        return None
    if level is Level.NVLINK:
        return None if node.nvlink_domain is None else (node.rack, node.nvlink_domain)
    return (node.rack,)


def _is_pure(node: Node, model: str) -> bool:
    named = {gpu.model for gpu in node.gpus if model_matches(model, gpu.model)}
    return named == {model}
