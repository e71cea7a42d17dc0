"""Rows of node scores, one per compiled request, brought up to date by the log of changed nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from placement import columns as k
from placement.ask import NO_SCORES, NOTHING_REFUSED, Ask, Geometries, plain_slice_tables, slice_tables
from placement.cluster import Cluster
from placement.columns import Ints
from placement.engine import Engine
from placement.kernels import Scores, pick_slots

MAX_ROW_BYTES = 192 << 20
"""Rows of scores are dropped, those longest without a look first, beyond this."""

_ROW_BYTES = 12

Near = tuple[int, int, int]
"""Score, row and info (see engine.Out) of a node."""


class Rows:
    """Looks at nodes for compiled requests, and keeps what was seen."""

    def __init__(self, cluster: Cluster, scores: Scores, *, compiled: bool) -> None:
        self._cluster = cluster
        self._scores = scores
        self._engine = Engine(scores, compiled=compiled)
        self._tables: Any = None
        self._plain_tables: Any = None
        self._scratch: Any = None
        self._all: Ints = np.zeros(0, np.int64)
        self._marked = np.zeros(0, np.bool_)
        self._kept: dict[int, Ask] = {}
        self._geometries: Geometries = ()

    def start_over(self) -> None:
        """The cluster's rows, kinds or tables are others."""
        count = len(self._cluster.members)
        self._kept.clear()
        self._geometries = tuple(self._cluster.geometries)
        self._tables = (*slice_tables(self._geometries), self._cluster.mix_tables)
        self._all = np.arange(count)
        self._marked = np.zeros(count, np.bool_)
        self._scratch = np.zeros(count, np.int64), np.zeros(count, np.int32)
        self.copy_tables()

    def copy_tables(self) -> None:
        """Figures in the tables have changed."""
        mix = self._cluster.mix_tables
        plain_mix = mix if self._engine.compiled else mix.tolist()
        self._plain_tables = *plain_slice_tables(self._geometries), plain_mix

    @property
    def mig_start(self) -> Any:
        """Best start slices, int8 [kinds, states, bundles], -1 where none."""
        return self._tables[0]

    def look(self, ask: Ask) -> None:
        """Bring the row of a request up to date, or begin it."""
        count, changes = len(self._cluster.members), self._cluster.changes
        if ask.seen < 0:
            while self._kept and (len(self._kept) + 1) * _ROW_BYTES * count > MAX_ROW_BYTES:
                self._drop_oldest()
            ask.scores, ask.infos, ask.workers = np.zeros(count, np.int64), np.zeros(count, np.int32), 0
            self.rescore(ask, self._all)
        elif changes > ask.seen:
            changed = self._cluster.changed_since(ask.seen)
            self.rescore(ask, self._all if changed is None or len(changed) > count else changed)
        else:
            return
        self._kept.pop(id(ask), None)
        self._kept[id(ask)] = ask
        ask.seen = changes

    def _drop_oldest(self) -> None:
        ask = self._kept.pop(next(iter(self._kept)))
        ask.seen, ask.scores, ask.infos = -1, NO_SCORES, None

    def among(self, rows: Ints, some: Sequence[int]) -> Any:
        """Which of these rows are among some others, bool."""
        self._marked[some] = True
        found = self._marked[rows]
        self._marked[some] = False
        return found

    def rescore(self, ask: Ask, rows: Ints) -> None:
        """Score some nodes of a row anew."""
        tables = self._tables_of(ask, len(rows))
        state = self._cluster.gpus, self._cluster.nodes
        ask.workers += self._engine.rescore(rows, state, ask.entries, tables, (ask.scores, ask.infos))

    def aside(self, ask: Ask, asker: int, rows: Sequence[int]) -> list[Near]:
        """Some nodes for one who asks, without touching the row of scores."""
        if not rows:
            return []
        self._see_aside(ask, asker, np.array(rows, np.int64))
        scores, infos = self._scratch
        return [(scores.item(row), row, infos.item(row)) for row in rows]

    def _see_aside(self, ask: Ask, asker: int, rows: Ints) -> None:
        ask.entries[k.ASKER] = ask.plain[k.ASKER] = asker
        state = self._cluster.gpus, self._cluster.nodes
        self._engine.rescore(rows, state, ask.entries, self._tables_of(ask, len(rows)), self._scratch)
        ask.entries[k.ASKER] = ask.plain[k.ASKER] = k.STRANGER

    def best_aside(self, ask: Ask, asker: int, rows: Ints) -> Near:
        """The best of some nodes for one who asks, the first among equals."""
        self._see_aside(ask, asker, rows)
        scores, infos = self._scratch
        best = int(rows[scores[rows].argmin()])
        return scores.item(best), best, infos.item(best)

    def best(self, ask: Ask, rows: Ints | None, but: Ints) -> Near:
        """The node with the lowest score, the first among equals; of some ``rows`` only, without others."""
        scores = ask.scores
        hidden = scores[but] if len(but) else but
        if len(but):
            scores[but] = k.BAD
        best = self._engine.lowest(scores if rows is None else scores[rows])
        best = best if rows is None else int(rows[best])
        near = scores.item(best), best, ask.infos.item(best)
        if len(but):
            scores[but] = hidden
        return near

    def sight(self, ask: Ask, begin: int, done: int, found: Any) -> tuple[int, int]:
        """Feasible nodes from one on until ``found`` is full: how many, and how many have been looked at.

        What has been refused in the past does not decide what is in sight.
        """
        state = self._cluster.gpus, self._cluster.nodes
        query = state, ask.entries, (ask.terms, NOTHING_REFUSED, *self._tables)
        return self._engine.sight(begin, done, query, found)

    def slots(self, ask: Ask, asker: int, row: int, rank: int) -> list[int]:
        """The slots of a node for a request in a mode, best first."""
        entries = [*ask.plain]
        entries[k.ASKER] = asker
        gpus, node = self._cluster.gpus[row].tolist(), self._cluster.nodes[row].tolist()
        return pick_slots(gpus, node, entries, rank, (self._plain_tables_of(ask), self._scores))

    def _tables_of(self, ask: Ask, rows: int) -> Any:
        """The tables for a look at so many rows, as the engine likes them."""
        if self._engine.looks_plainly(rows):
            return self._plain_tables_of(ask)
        return ask.terms, ask.refused, *self._tables

    def _plain_tables_of(self, ask: Ask) -> Any:
        return ask.plain_terms, ask.refused, *self._plain_tables
