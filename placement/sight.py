"""A bounded look: the first so many nodes that could hold a request, from one drawn for the job on.

The workers of a job are offered one window of nodes after the other; each takes the best place of the
window, and the next window is opened when nothing in the last will do.  What has been refused in the past
does not decide what is in sight, so that nobody's answer depends on who has asked before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from placement import columns as k
from placement.ask import NO_SCORES, Ask
from placement.columns import Ints
from placement.rows import Near, Rows


@dataclass(slots=True)
class Sight:
    """The places that the workers of one job are offered.

    Attributes:
        asker: the number of the tenant who asks; size: the most nodes of a window.
        begin: where the look begins, counted among ``within``: the only rows that will do, empty for all.
        own: places where the asker may take what strangers may not, beside every window.
        nodes: the rows of the window.
    """

    rows: Rows
    ask: Ask
    asker: int
    size: int
    begin: int
    within: Ints = field(default_factory=lambda: NO_SCORES)
    own: Sight | None = None
    nodes: Ints = field(default_factory=lambda: NO_SCORES)
    _scores: Ints = field(default_factory=lambda: NO_SCORES)
    _infos: Any = None
    _done: int = 0

    def widen(self) -> bool:
        """Open the next window; False if all nodes have been seen."""
        if self._done >= (len(self.within) or self.rows.count):
            return False
        found = np.zeros(self.size, np.int64), np.zeros(self.size, np.int64), np.zeros(self.size, np.int32)
        place = self.begin, self._done, self.within
        count, self._done = self.rows.sight(self.ask, self.asker, place, found)
        self.nodes, self._scores, self._infos = found[0][:count], found[1][:count], found[2][:count]
        return True

    @property
    def opened(self) -> bool:
        """Whether there is a window."""
        return self._done > 0

    def all_nodes(self) -> Ints:
        """The rows of the window and of what is beside it."""
        return self.nodes if self.own is None else np.union1d(self.nodes, self.own.nodes)

    def look_again(self) -> None:
        """More is known of who refuses."""
        self._scores, self._infos = self.rows.seen_by(self.ask, self.asker, self.nodes)
        if self.own is not None:
            self.own.look_again()

    def changed(self, row: int) -> None:
        """A node is no longer as it was, or has refused."""
        there = self.nodes == row
        if there.any():
            self._scores[there], self._infos[there] = self.rows.seen_by(self.ask, self.asker, np.array([row]))
        if self.own is not None:
            self.own.changed(row)

    def best(self) -> Near:
        """The place with the lowest score, the first row among equals."""
        near = NOWHERE
        if len(self.nodes):
            at = self.rows.first_lowest(self._scores, self.nodes)
            near = self._scores.item(at), self.nodes.item(at), self._infos.item(at)
        return near if self.own is None else better(self.own.best(), near)

    def places(self) -> dict[int, Near]:
        """All places by row."""
        every = zip(self._scores.tolist(), self.nodes.tolist(), self._infos.tolist(), strict=True)
        places = {near[1]: near for near in every} if len(self.nodes) else {}
        return places if self.own is None else places | self.own.places()


NOWHERE: Near = (k.BAD, -1, 0)
"""Not a place."""


def better(own: Near, near: Near) -> Near:
    """The better of two places; of the same node it is the one that the asker has for itself."""
    return own if own[:2] <= near[:2] else near
