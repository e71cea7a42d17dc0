"""The log of changed rows: whoever keeps what it has found out of rows looks again at those since."""

from __future__ import annotations

import numpy as np

from placement.columns import Ints

LOG_LIMIT = 1 << 17
"""So many changes are kept; when there are more, the older half is forgotten."""


class ChangeLog:
    """The numbers of the rows that have changed, in order."""

    __slots__ = ("_forgotten", "_logged", "_rows")

    def __init__(self) -> None:
        self._rows: Ints = np.zeros(LOG_LIMIT, np.int64)
        self._logged = 0
        self._forgotten = 0

    def add(self, row: int) -> None:
        """A row has changed."""
        logged, rows = self._logged, self._rows
        if logged == len(rows):
            half = logged // 2
            self._forgotten += half
            logged -= half
            rows[:logged] = rows[half : half + logged]
        rows[logged] = row
        self._logged = logged + 1

    def forget(self) -> None:
        """Rows are others than before: the changes so far say nothing about them."""
        self._forgotten += self._logged
        self._logged = 0

    def forget_all(self) -> None:
        """Every row is worth another look, also for those who know of all changes so far."""
        self._forgotten += self._logged + 1
        self._logged = 0

    @property
    def changes(self) -> int:
        """How many changes of rows there have been so far."""
        return self._forgotten + self._logged

    def since(self, changes: int) -> Ints | None:
        """The rows of all changes after the first so many, in order; None if that is too long ago.

        The answer is a view: valid until the next change.
        """
        if changes < self._forgotten:
            return None
        return self._rows[changes - self._forgotten : self._logged]
