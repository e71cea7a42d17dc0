"""A bounded look: the first so many nodes that could hold a request, from one drawn for the job on.

The workers of a job are offered one window of nodes after the other; each takes the best place of the
window, and the next window, twice as large, is opened when nothing in the last will do.  What has been
refused in the past does not decide what is in sight, so that nobody's answer depends on who has asked before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from placement import columns as k
from placement.ask import NO_SCORES, Ask
from placement.columns import Ints
from placement.engine import NO_WAY, Way
from placement.rows import Near, Rows


@dataclass(slots=True)
class Sight:
    """The places that the workers of one job are offered.

    Attributes:
        asker: the number of the tenant who asks.
        way: where the windows lie, and how large the next is.
        own: places where the asker may take what strangers may not, beside every window.
        grows: whether what is in sight stays there when the next window is opened.
        nodes: the rows in sight, those of ``own`` before those of the window.
    """

    rows: Rows
    ask: Ask
    asker: int
    way: Way
    own: Way = NO_WAY
    grows: bool = False
    nodes: Ints = field(default_factory=lambda: NO_SCORES)
    _scores: Ints = field(default_factory=lambda: NO_SCORES)
    _infos: Any = None
    _mine: int = 0
    _done: int = 0
    _best: int = -1

    def widen(self) -> bool:
        """Open the next window, twice as large; False if all nodes have been seen."""
        if self._done >= (len(self.way.rows) or self.rows.count):
            return False
        if not self._done:
            seen = self.rows.sight(self.ask, self.asker, (self.own, self.way), 0)
            self.nodes, self._scores, self._infos = seen.found
            self._mine, self._best = seen.mine, seen.best
        else:
            seen = self.rows.sight(self.ask, self.asker, (NO_WAY, self.way), self._done)
            stay = slice(None if self.grows else self._mine)
            before = self.nodes[stay], self._scores[stay], self._infos[stay]
            both = [np.concatenate(parts) for parts in zip(before, seen.found, strict=True)]
            self.nodes, self._scores, self._infos = both
            self._best = -1
        self._done = seen.done
        self.way = Way(self.way.rows, self.way.begin, 2 * self.way.most)
        return True

    @property
    def opened(self) -> bool:
        """Whether there is a window."""
        return self._done > 0

    def look_again(self) -> None:
        """More is known of who refuses."""
        self._scores, self._infos = self.rows.seen_by(self.ask, self.asker, self.nodes)
        self._best = -1

    def changed(self, row: int) -> None:
        """A node is no longer as it was, or has refused."""
        there = self.nodes == row
        if there.any():
            self._scores[there], self._infos[there] = self.rows.seen_by(self.ask, self.asker, np.array([row]))
            self._best = -1

    def best(self) -> Near:
        """The place with the lowest score, the first row among equals."""
        if not len(self.nodes):
            return NOWHERE
        if self._best < 0:
            self._best = self.rows.first_lowest(self._scores, self.nodes)
        at = self._best
        return self._scores.item(at), self.nodes.item(at), self._infos.item(at)

    def places(self) -> dict[int, Near]:
        """All places by row."""
        if not len(self.nodes):
            return {}
        every = zip(self._scores.tolist(), self.nodes.tolist(), self._infos.tolist(), strict=True)
        return {near[1]: near for near in every}


NOWHERE: Near = (k.BAD, -1, 0)
"""Not a place."""


def better(own: Near, near: Near) -> Near:
    """The better of two places; of the same node it is the one that the asker has for itself."""
    return own if own[:2] <= near[:2] else near
