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
from placement.vectorised.nodes import State, offers_of, which_could

FIRST_BLOCK = 2048
"""So many nodes are sifted at first; each next block is twice as large."""

MORE = 12
"""GPUs to share are looked at on so many nodes more than are wanted, as some that pass have no room; each
next time on twice as many."""

_NO_ROWS: Ints = np.zeros(0, np.int64)

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
        which, values, choices, _workers = offers_of(
            Scene(together, state[0], nodes, entries, tables, scores, counts=False)
        )
        begin = first = 0
        for one, some in zip(going, rows, strict=True):
            last = len(which) if one is going[-1] else int(which.searchsorted(begin + len(some)))
            here = slice(first, last)
            one.enter(some, which[here] - begin if begin else which[here], (values[here], choices[here]))
            begin, first = begin + len(some), last
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
        self._block, self._more = FIRST_BLOCK, MORE
        self._passed: Ints = _NO_ROWS  # where those stand that are sifted but not seen
        self._taken = 0

    @property
    def over(self) -> bool:
        """Whether all are found or all have been seen."""
        return self.count == self._wanted or self.done >= self._size

    def next_rows(self, state: State, ask: list[int]) -> Ints:
        """The next rows whose GPUs are to be looked at."""
        enough = self._wanted - self.count + (self._more if ask[k.OFFERED] & SHARED else 0)
        self._more *= 2
        while self._sifted < self._size and len(self._passed) < enough:
            passed = self._sift(state, ask, enough)
            self._passed = np.concatenate((self._passed, passed)) if len(self._passed) else passed
        self._taken = enough
        return self._rows(self._passed[:enough])

    def _rows(self, at: Ints) -> Ints:
        """The rows that stand there."""
        return self._within.take(at) if len(self._within) else at

    def _sift(self, state: State, ask: list[int], enough: int) -> Ints:
        """Where those of the next nodes stand that may have room, about enough of them."""
        start, count = (self._begin + self._sifted) % self._size, min(self._block, self._size - self._sifted)
        most = enough + MORE
        self._block *= 2
        if not len(self._within):  # all at once up to the last row: a view costs nothing
            end = min(start + count, self._size)
            could, seen = which_could(state[2][start:end], (start, state[1]), ask, most)
            self._sifted += seen
            return could + start
        rows, beyond = self._within[start : start + count], start + count - self._size
        if beyond > 0:
            rows = np.concatenate((rows, self._within[:beyond]))
        could, seen = which_could(state[2].take(rows), (rows, state[1]), ask, most)
        self._sifted += seen
        could += start
        return could % self._size if beyond > 0 else could

    def enter(self, rows: Ints, which: Ints, offered: tuple[Ints, Ints]) -> None:
        """Enter those of the next rows that have room, with their scores and choices."""
        count = min(len(which), self._wanted - self.count)
        here = slice(self.count, self.count + count)
        self._found[0][here] = rows.take(which[:count])
        self._found[1][here], self._found[2][here] = offered[0][:count], offered[1][:count]
        self.count += count
        if self.count == self._wanted:
            self.done = self._seen_with(which.item(count - 1))
            return
        rest = self._passed[self._taken :]
        self.done = self._seen_with(self._taken - 1) if len(rest) else self._sifted
        self._passed = rest

    def _seen_with(self, index: int) -> int:
        """How many have been seen once one of those that passed has been."""
        return (self._passed.item(index) - self._begin) % self._size + 1
