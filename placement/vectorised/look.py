"""The bounded look of :mod:`placement.sight` by numpy alone: the first so many nodes that have room.

The briefs of nodes rule most of them out, and cost little for many at once; GPUs are looked at on about as
many nodes as are still wanted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from placement import columns as k
from placement.columns import Ints
from placement.policies.offer import Scores
from placement.vectorised.fits import SHARED, Scene
from placement.vectorised.nodes import Found, State, offers_of, which_could

FIRST_BLOCK = 2048
"""So many nodes are sifted at first; each next block is twice as large."""

MORE = 16
"""GPUs to share are looked at on so many nodes more than are wanted: some that pass have no room."""

Place = tuple[int, int, Ints]
"""Where a look begins, how many nodes it has seen, and the only rows that will do, empty for all."""
Query = tuple[State, Ints, Any]
"""Arrays of the cluster, a compiled request, and its tables."""


def looks(several: Sequence[tuple[Place, Any]], query: Query, scores: Scores) -> list[tuple[int, int]]:
    """Look for nodes at several places at once: one look costs hardly less than all.

    Each place comes with the arrays that take the rows, scores and choices of as many nodes as are wanted.
    Gives for each how many were found, and how many have been seen by now, as if it were alone.
    """
    state, ask, tables = query
    entries = ask.tolist()
    every = [_Look(place, found, len(state[1])) for place, found in several]
    while going := [one for one in every if not one.over]:
        rows = [one.next_rows(state, entries) for one in going]
        together = rows[0] if len(rows) == 1 else np.concatenate(rows)
        nodes = state[1].take(together, 0)
        offered = offers_of(Scene(together, state[0], nodes, entries, tables, scores, counts=False))
        begin = 0
        for one, some in zip(going, rows, strict=True):
            end = begin + len(some)
            one.enter(some, (offered[0][begin:end], offered[1][begin:end], offered[2][begin:end]))
            begin = end
    return [(one.count, one.done) for one in every]


class _Look:
    """One look on its way.

    Attributes:
        count: how many nodes with room have been entered; done: how many have been seen.
    """

    def __init__(self, place: Place, found: Any, nodes: int) -> None:
        self.count = 0
        self._begin, self.done, self._within = place
        self._found = found
        self._size = len(self._within) or nodes
        self._wanted = len(found[0])
        self._sifted = self.done
        self._block = FIRST_BLOCK
        self._passed: Ints = np.zeros(0, np.int64)  # of those sifted but not seen: how many are before each
        self._taken = 0

    @property
    def over(self) -> bool:
        """Whether all are found or all have been seen."""
        return self.count == self._wanted or self.done >= self._size

    def next_rows(self, state: State, ask: list[int]) -> Ints:
        """The next rows whose GPUs are to be looked at."""
        enough = self._wanted - self.count + (MORE if ask[k.OFFERED] & SHARED else 0)
        while self._sifted < self._size and len(self._passed) < enough:
            passed = self._sift(state, ask)
            self._passed = np.concatenate((self._passed, passed)) if len(self._passed) else passed
        self._taken = enough
        return self._rows(self._passed[:enough])

    def _rows(self, before: Ints) -> Ints:
        """The rows that so many nodes come before."""
        at = (before + self._begin) % self._size
        return self._within.take(at) if len(self._within) else at

    def _sift(self, state: State, ask: list[int]) -> Ints:
        """Which of the next nodes may have room: how many are before each."""
        begin, count = self._sifted, min(self._block, self._size - self._sifted)
        if len(self._within):
            rows = self._rows(np.arange(begin, begin + count))
            briefs = state[2].take(rows)
        else:  # all at once up to the last row: a view costs nothing
            start = (self._begin + begin) % self._size
            count = min(count, self._size - start)
            rows, briefs = np.arange(start, start + count), state[2][start : start + count]
        self._sifted += count
        self._block *= 2
        return which_could(rows, briefs, state[1], ask) + begin

    def enter(self, rows: Ints, offered: Found) -> None:
        """Enter those of the next rows that have room."""
        scores, _workers, choices = offered
        fits = (scores != k.BAD).nonzero()[0][: self._wanted - self.count]
        here = slice(self.count, self.count + len(fits))
        self._found[0][here], self._found[1][here] = rows.take(fits), scores.take(fits)
        self._found[2][here] = choices.take(fits)
        self.count += len(fits)
        if self.count == self._wanted:
            self.done = int(self._passed[fits[-1]]) + 1
            return
        rest = self._passed[self._taken :]
        self.done = int(self._passed[self._taken - 1]) + 1 if len(rest) else self._sifted
        self._passed = rest
