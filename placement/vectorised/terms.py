"""The terms of a request column by column: most are one number for every GPU that would do."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from placement import columns as k
from placement.columns import Ints

PULLS = k.SENSES, k.SENSES_2, k.PRESSES, k.PRESSES_2
"""What of a request meets what presses on a GPU and what is sensitive there: its columns from PRESSURE on."""

_MOST_KNOWN = 4096
_known: dict[int, Terms] = {}


class Terms:
    """The terms of a compiled request.

    Attributes:
        array: int64 [ranks, kinds, columns]; columns: the same, int64 [columns, ranks x kinds].
        same: by column the one number wherever a GPU would do, None if there are several.  It is an array
            without an axis: numpy works with one in half the time that it takes with an int.
        served: where a GPU would do, bool [ranks x kinds]; None if wherever it is offered.
        least: the least compute that would do.
        pulls: senses and presses, [4, 1], None if there are several; feels: whether any is not 0.
        left_by_used: compute left on a GPU with so many of its slices in use, None if it depends on more.
    """

    __slots__ = ("array", "columns", "feels", "kinds", "least", "left_by_used", "pulls", "same", "served")

    def __init__(self, array: Ints) -> None:
        self.array = array
        self.kinds = array.shape[1]
        self.columns: Ints = np.ascontiguousarray(array.reshape(-1, k.TERM_COLUMNS).T)
        served = self.columns[k.MILLI] > 0
        offered = served.reshape(-1, self.kinds)
        everywhere = bool((offered.any(1, keepdims=True) == offered).all())
        self.served: npt.NDArray[np.bool_] | None = None if everywhere else served
        some = self.columns[:, served] if served.any() else self.columns[:, :1]
        alike = (some == some[:, :1]).all(1).tolist()
        numbers = zip(alike, some[:, 0].tolist(), strict=True)
        self.least: Ints = some[k.MILLI].min()
        self.same: list[Ints | None] = [np.array(number) if one else None for one, number in numbers]
        pulls = [number for number in map(self.same.__getitem__, PULLS) if number is not None]
        self.pulls: Ints | None = np.array(pulls)[:, None] if len(pulls) == len(PULLS) else None
        self.feels = self.pulls is None or bool(self.pulls.any())
        self.left_by_used: Ints | None = None
        slices, cut = self.same[k.SLICES], self.same[k.CUT]
        if slices is not None and cut is not None and slices > 0:
            self.left_by_used = (slices - cut - np.arange(8)) * 1000 // slices


def terms_of(array: Ints) -> Terms:
    """The terms of a request, once for all looks."""
    terms = _known.get(id(array))
    if terms is None or terms.array is not array:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        terms = _known[id(array)] = Terms(array)
    return terms


class TermsAt:
    """The terms at some pairs of a rank and a kind of GPU; a column is read where it is asked for."""

    __slots__ = ("_at", "_kind", "_rank", "_read", "of")

    def __init__(self, terms: Terms, rank: Ints | int, kind: Ints) -> None:
        self.of = terms
        self._rank = rank
        self._kind = kind
        self._at: Ints | None = None
        self._read: dict[int, Ints] = {}

    @property
    def at(self) -> Ints:
        """Where the pairs stand among all."""
        if self._at is None:
            self._at = self._rank * self.of.kinds + self._kind
        return self._at

    def __getitem__(self, column: int) -> Ints:
        """A column: one number a pair, or an array without an axis that holds for all."""
        found: Ints | None = self.of.same[column]
        if found is None:
            found = self._read.get(column)
        if found is None:
            found = self._read[column] = self.of.columns[column].take(self.at)
        return found

    def some(self, column: int, which: Ints | slice) -> Ints:
        """A column for some of the pairs."""
        found = self[column]
        return found[which] if found.ndim else found

    @property
    def pulls(self) -> Ints:
        """Senses and presses, by :data:`PULLS`, [4, pairs], or [4, 1] if they are the same for all."""
        same = self.of.pulls
        return self.of.columns.take(PULLS, 0).take(self.at, 1) if same is None else same

    def number(self, column: int) -> int | None:
        """The one number of a column, None if there are several."""
        same = self.of.same[column]
        return None if same is None else int(same)
