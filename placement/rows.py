"""Rows of node scores, one per compiled request, brought up to date by the log of changed nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from placement import columns as k
from placement.ask import NO_SCORES, NOTHING_REFUSED, Ask, Geometries, plain_slice_tables, slice_tables
from placement.cluster import Cluster
from placement.columns import Ints
from placement.engine import COUNTING, Engine, Out, Way
from placement.kernels import pick_slots
from placement.model.frozen import made_often
from placement.policies.offer import Scores

MAX_ROW_BYTES = 192 << 20
"""Rows of scores are dropped, those longest without a look first, beyond this."""

_ROW_BYTES = 12

Near = tuple[int, int, int]
"""Score, row and info (see engine.Out) of a node."""


@made_often
@dataclass(frozen=True, slots=True)
class Seen:
    """What a bounded look has found: ``mine`` of the nodes on the first way.

    Attributes:
        found: rows, scores and infos of the nodes (see engine.Out; without the workers).
        done: how many nodes of the second way have been looked at; best: index of the best, -1 if unknown.
    """

    found: tuple[Ints, Ints, Any]
    mine: int
    done: int
    best: int


def _workers(infos: Any) -> Ints:
    """How many workers each node can hold."""
    workers: Ints = infos.astype(np.int64) >> k.CHOICE_BITS
    return workers


def _room_for_whole(nodes: Ints, ask: Sequence[int]) -> Ints:
    """How many workers with whole GPUs fit on each node; too many where its GPUs are of several kinds."""
    room = np.zeros(len(nodes), np.int64)
    rows = np.flatnonzero(nodes[:, k.EMPTIES] >= ask[k.GPUS])
    near = nodes[rows]
    workers = near[:, k.EMPTIES] // ask[k.GPUS]
    for asked, free in ((k.CPU, k.CPU_FREE), (k.RAM, k.RAM_FREE)):
        if ask[asked]:
            workers = np.minimum(workers, near[:, free] // ask[asked])
    able = (near[:, k.UP] == 1) & (near[:, k.MODELS] & ask[k.SERVED_BY] != 0)
    room[rows] = np.where(able, np.maximum(workers, 0), 0)
    return room


class Rows:
    """Looks at nodes for compiled requests, and keeps what was seen."""

    def __init__(self, cluster: Cluster, scores: Scores, *, compiled: bool) -> None:
        self.cluster = cluster
        self._scores = scores
        self._engine = Engine(scores, compiled=compiled)
        self._counting = Engine(COUNTING, compiled=compiled)
        self._tables: Any = None
        self._plain_tables: Any = None
        self._scratch: Any = None
        self._all: Ints = np.zeros(0, np.int64)
        self._kept: dict[int, Ask] = {}
        self._geometries: Geometries = ()

    def start_over(self) -> None:
        """The cluster's rows, kinds or tables are others."""
        count = len(self.cluster.members)
        self._kept.clear()
        self._geometries = tuple(self.cluster.geometries)
        self._tables = (*slice_tables(self._geometries), self.cluster.mix_tables)
        self._all = np.arange(count)
        self._scratch = np.zeros(count, np.int64), np.zeros(count, np.int32)
        self.copy_tables()

    def copy_tables(self) -> None:
        """Figures in the tables have changed."""
        mix = self.cluster.mix_tables
        plain_mix = mix if self._engine.compiled else mix.tolist()
        self._plain_tables = *plain_slice_tables(self._geometries), plain_mix

    @property
    def mig_after(self) -> Any:
        """Occupancies with a bundle of slices, int16 [kinds, states, bundles], -1 where it does not fit."""
        return self._tables[0]

    def look(self, ask: Ask) -> None:
        """Bring the row of a request up to date, or begin it."""
        count, changes = len(self.cluster.members), self.cluster.log.changes
        if ask.seen < 0:
            while self._kept and (len(self._kept) + 1) * _ROW_BYTES * count > MAX_ROW_BYTES:
                self._drop_oldest()
            ask.scores, ask.infos, ask.workers = np.zeros(count, np.int64), np.zeros(count, np.int32), 0
            self.rescore(ask, self._all)
        elif changes > ask.seen:
            changed = self.cluster.log.since(ask.seen)
            self.rescore(ask, self._all if changed is None or len(changed) > count else changed)
        else:
            return
        self._kept.pop(id(ask), None)
        self._kept[id(ask)] = ask
        ask.seen = changes

    def _drop_oldest(self) -> None:
        ask = self._kept.pop(next(iter(self._kept)))
        ask.seen, ask.scores, ask.infos = -1, NO_SCORES, None

    def rescore(self, ask: Ask, rows: Ints) -> None:
        """Score some nodes of a row anew."""
        tables = self._tables_of(ask, len(rows))
        state = self.cluster.state
        ask.workers += self._engine.rescore(rows, state, ask.entries, tables, (ask.scores, ask.infos))

    def aside(self, ask: Ask, asker: int, rows: Sequence[int]) -> list[Near]:
        """Some nodes for one who asks, without touching the row of scores."""
        if not rows:
            return []
        self._see_aside(ask, asker, np.array(rows, np.int64))
        scores, infos = self._scratch
        return [(scores.item(row), row, infos.item(row)) for row in rows]

    def _see_aside(self, ask: Ask, asker: int, rows: Ints) -> None:
        tables = self._tables_of(ask, len(rows))
        ask.entries[k.ASKER] = ask.plain[k.ASKER] = asker
        try:
            self._engine.rescore(rows, self.cluster.state, ask.entries, tables, self._scratch)
        finally:
            ask.entries[k.ASKER] = ask.plain[k.ASKER] = k.STRANGER

    def best(self, ask: Ask, rows: Ints | None, but: Ints | None) -> Near:
        """The node with the lowest score, the first among equals; of some ``rows`` only, without others."""
        scores, hidden = ask.scores, None
        if but is not None:
            hidden, scores[but] = scores[but], k.BAD
        best = self._engine.lowest(scores if rows is None else scores[rows])
        best = best if rows is None else int(rows[best])
        near = scores.item(best), best, ask.infos.item(best)
        if hidden is not None:
            scores[but] = hidden
        return near

    def seen_by(self, ask: Ask, asker: int, rows: Ints) -> Out:
        """Scores and infos of some nodes for one who asks, without touching the row of scores."""
        self._see_aside(ask, asker, rows)
        scores, infos = self._scratch
        return scores[rows], infos[rows]

    def room_by_row(self, ask: Ask) -> Ints:
        """An upper bound of how many workers fit on each node for a stranger, int64 [nodes]."""
        if ask.only_whole:
            return _room_for_whole(self.cluster.nodes, ask.plain)
        if ask.seen >= 0:
            self.look(ask)
            return _workers(ask.infos)
        entries = ask.entries.copy()
        entries[k.WEIGHS] = 0
        state, tables = self.cluster.state, self._tables_of(ask, len(self._all))
        self._counting.rescore(self._all, state, entries, tables, self._scratch)
        return _workers(self._scratch[1])

    @property
    def count(self) -> int:
        """How many nodes there are."""
        return len(self._all)

    def first_lowest(self, scores: Ints, rows: Ints) -> int:
        """Index of the lowest score, that of the first row among equals."""
        index: int = self._engine.first_lowest(scores, rows)
        return index

    def sight(self, ask: Ask, asker: int, ways: tuple[Way, Way], done: int) -> Seen:
        """Feasible nodes on one way and then on another, ``done`` of which have been looked at before.

        What has been refused does not count.
        """
        most = ways[0].most + ways[1].most
        found = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int32)
        query = self.cluster.state, ask.entries, (ask.terms, NOTHING_REFUSED, *self._tables)
        ask.entries[k.ASKER] = asker
        try:
            count, mine, done, best = self._engine.sight(ways, done, query, found)
        finally:
            ask.entries[k.ASKER] = k.STRANGER
        return Seen((found[0][:count], found[1][:count], found[2][:count]), mine, done, best)

    def empty_slots(self, ask: Ask, row: int) -> list[int]:
        """The empty GPUs of a node that a request would take whole, in order."""
        gpus, needs = self.cluster.gpus[row], ask.needs[k.EXCLUSIVE_RANK]
        modes, kinds = gpus[:, k.MODE].tolist(), gpus[:, k.MODEL].tolist()
        return [j for j, mode in enumerate(modes) if mode == k.EMPTY and needs[kinds[j]] is not None]

    def slots(self, ask: Ask, asker: int, row: int, rank: int) -> list[int]:
        """The slots of a node for a request in a mode, best first."""
        entries = [*ask.plain]
        entries[k.ASKER] = asker
        gpus, node = self.cluster.gpus[row].tolist(), self.cluster.nodes[row].tolist()
        return pick_slots(gpus, node, entries, rank, (self._plain_tables_of(ask), self._scores))

    def _tables_of(self, ask: Ask, rows: int) -> Any:
        """The tables for a look at so many rows, as the engine likes them."""
        if self._engine.looks_plainly(rows):
            return self._plain_tables_of(ask)
        return ask.terms, ask.refused, *self._tables

    def _plain_tables_of(self, ask: Ask) -> Any:
        return ask.plain_terms, ask.refused, *self._plain_tables
