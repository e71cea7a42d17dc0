"""Runs the offers of nodes through a policy's score: compiled where it can be, else plain or by numpy."""

from __future__ import annotations

import inspect
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from placement import (
    access,
    columns,
    fragments,
    kernels,
    measures,
    mix,
    one_gpu,
    several_gpus,
    summaries,
    worth,
)
from placement import columns as k
from placement.access import entries_of, fetch_ahead, node_of
from placement.columns import Ints
from placement.jit import compiled, numba, register_jitable, telling
from placement.kernels import node_offer
from placement.model.frozen import made_often
from placement.policies import Placement
from placement.policies import offer as offers
from placement.policies.offer import Score, Scores
from placement.summaries import may_hold
from placement.vectorised.fits import starts_of
from placement.vectorised.look import looks
from placement.vectorised.nodes import MOST_WORKERS, State
from placement.vectorised.nodes import offers as offers_of_nodes

FEW_NODES = 4
"""Up to so many nodes are scored one by one where there is no compiled kernel."""

Out = tuple[Ints, Any]
"""Scores (int64) and infos (int32: the bits of the choice, and above them workers) by node."""


@made_often
@dataclass(frozen=True, slots=True)
class Way:
    """Where a bounded look goes: over ``rows``, from that at ``begin`` on, until it has found ``most`` nodes.

    No rows are all rows of the cluster, unless ``most`` is 0 and nothing is looked for.
    """

    rows: Ints
    begin: int
    most: int


NO_WAY = Way(np.zeros(0, np.int64), 0, 0)
"""Nothing to look at."""


def workers_of(info: int) -> int:
    """How many workers a node can hold."""
    return info >> k.CHOICE_BITS


def choice_of(info: int) -> tuple[int, int]:
    """Rank of the mode, and the slot."""
    choice = info & (1 << k.CHOICE_BITS) - 1
    return choice // k.SLOTS, choice % k.SLOTS


_LOOPS = kernels, one_gpu, several_gpus, summaries, access
_MEASURES = measures, worth, fragments, mix, columns, offers


def _stamp(scores: Scores) -> int:
    """A checksum of all source that ends up in a compiled loop.

    The compiler's cache looks at the loop's own file and at what it closes over; so it closes over this.
    """
    parts = (*_LOOPS, *_MEASURES, *(sys.modules[score.__module__] for score in scores))
    return zlib.crc32("".join(map(inspect.getsource, parts)).encode())


def _make_walk(  # noqa: C901 - one loop
    scores_of: Scores, stamp: int
) -> Callable[..., tuple[int, int, int, int]]:
    """One loop for both ways to look at nodes, since each would be compiled for seconds.

    ``most`` 0: the given rows, scored in place; gives the change of the sum of workers.  Else: nodes (among
    ``rows``, if there are any) from ``begin`` on, ``done`` of which have been seen, until so many feasible
    ones are found, and before them those of ``own``, likewise; their infos are choices alone.  Gives how many
    are found, how many of them among ``own``, how many have been seen, and which is the best.  Arguments are
    one by one: the call would take longer with tuples of arrays.
    """
    score, within = scores_of

    def walk(  # type: ignore[no-untyped-def] # noqa: C901, PLR0912, PLR0913, PLR0917 - one loop
        own, rows, places, gpus, nodes, briefs, ask, terms, refused, after, room, mix, found, scores, infos
    ):
        own_begin, own_most, begin, done, most = places
        entries, tables = entries_of(ask), (terms, refused, after, room, mix)
        with_gpus = entries[k.GPUS] > 0
        change = 0 if stamp >= 0 else 1
        count, mine, best, lowest = 0, 0, -1, k.BAD
        for beside in (True, False):
            if beside:
                some, first, seen, wanted, end = own, own_begin, 0, own_most, len(own)
                if own_most == 0:
                    continue
            else:
                some, first, seen, wanted = rows, begin, done, count + most
                mine, end = count, len(rows) if len(rows) > 0 or most == 0 else len(nodes)
            while seen < end and (most == 0 or count < wanted):
                # Those that might do are noted and brought near before one of them is looked at.
                noted, until = count, len(found) if most == 0 else wanted
                while seen < end and noted < until:
                    i = first + seen
                    if i >= end:
                        i -= end
                    if len(some) > 0:
                        i = some[i]
                    seen += 1
                    if not with_gpus or may_hold(briefs[i], entries):
                        found[noted] = i
                        noted += 1
                        fetch_ahead(gpus, i)
                        fetch_ahead(nodes, i)
                    elif most == 0:
                        change -= infos[i] >> k.CHOICE_BITS
                        scores[i] = k.BAD
                        infos[i] = 0
                for at in range(count, noted):
                    i = found[at]
                    value, workers, choice = node_offer(
                        gpus[i], node_of(nodes, i), entries, tables, (score, within)
                    )
                    workers = min(workers, MOST_WORKERS)
                    if most == 0:
                        change += workers - (infos[i] >> k.CHOICE_BITS)
                        scores[i] = value
                        infos[i] = (workers << k.CHOICE_BITS) + choice
                    elif value < k.BAD:
                        if value < lowest or (value == lowest and i < found[best]):
                            lowest, best = value, count
                        found[count] = i
                        scores[count] = value
                        infos[count] = choice
                        count += 1
            if not beside:
                done = seen
        return change if most == 0 else count, mine, done, best

    return walk


def _lowest(scores: Any) -> int:
    """Index of the lowest score, the first among equals."""
    best = 0
    for i in range(1, len(scores)):
        if scores[i] < scores[best]:
            best = i
    return best


def _first_lowest(scores: Any, rows: Any) -> int:
    """Index of the lowest score, that of the first row among equals."""
    best = 0
    for i in range(1, len(scores)):
        if scores[i] < scores[best] or (scores[i] == scores[best] and rows[i] < rows[best]):
            best = i
    return best


def _alike(at: offers.Offer) -> Any:
    """All places are alike."""
    return 0


COUNTING: Scores = (_alike, _alike)
"""The scores of who does not weigh places but counts them."""

_compiled_lowest = compiled(_lowest)
_compiled_first_lowest = compiled(_first_lowest)
_known: set[Score] = set()
_kernels: dict[Scores, Callable[..., tuple[int, int, int, int]]] = {}


def _compiled_walk(scores: Scores) -> Callable[..., tuple[int, int, int, int]]:
    """The loop compiled with these scores inside; once per process."""
    walk = _kernels.get(scores)
    if walk is None:
        for score in scores:
            if score not in _known:
                _known.add(register_jitable(score))
        walk = _kernels[scores] = numba.njit(cache=True)(_make_walk(scores, _stamp(scores)))
    return walk


_NO_ROWS = NO_WAY.rows
_IN_PLACE = 0, 0, 0, 0, 0
_NOTED = 32
"""Rows that are scored in place are brought near so many at a time."""


class Engine:
    """One policy's score over the rows of a cluster."""

    def __init__(self, scores: Scores, *, compiled: bool = True) -> None:
        self.scores = scores
        self.compiled = compiled and numba is not None
        self._walk = _compiled_walk(scores) if self.compiled else None
        self._noted = np.zeros(_NOTED, np.int64)

    def warm_up(self) -> None:
        """Compile (or load from the cache) what the searches call."""
        if not self.compiled:
            return
        one = np.zeros(1, np.int64)
        state = np.zeros((1, 1, k.GPU_COLUMNS), np.int64), np.zeros((1, k.NODE_COLUMNS), np.int64), one
        after, room = np.zeros((1, 1, 1), np.int16), np.zeros((1, 1, 1), np.int8)
        terms = np.zeros((k.RANKS, 1, k.TERM_COLUMNS), np.int64)
        tables = terms, np.zeros((k.RANKS, 0), np.int8), after, room, np.zeros(1 << 13, np.int64)
        ask = np.zeros(k.ASK_ENTRIES, np.int64)
        out = np.zeros(1, np.int64), np.zeros(1, np.int32)
        self.rescore(one, state, ask, tables, out)
        self.lowest(out[0])
        self.first_lowest(out[0], out[0])

    def looks_plainly(self, rows: int) -> bool:
        """Whether so many rows are looked at by the plain functions, which like nested lists for tables."""
        return self._walk is None and rows <= FEW_NODES

    def rescore(self, rows: Ints, state: State, ask: Ints, tables: Any, out: Out) -> int:
        """Score rows into ``out``; returns the change of the sum of workers."""
        if self._walk is not None:
            return self._walk(_NO_ROWS, rows, _IN_PLACE, *state, ask, *tables, self._noted, *out)[0]
        if not self.looks_plainly(len(rows)):
            return self._many(rows, state, ask, tables, out)
        change = 0
        (scores, infos), entries = out, ask.tolist()
        for row in rows.tolist():
            value, workers, choice = self.offer(row, state, entries, tables)
            change += workers - (infos.item(row) >> k.CHOICE_BITS)
            scores[row], infos[row] = value, (workers << k.CHOICE_BITS) + choice
        return change

    def offer(self, row: int, state: State, ask: Any, tables: Any) -> tuple[int, int, int]:
        """Score, workers and choice of one node, by the plain functions."""
        if ask[k.GPUS] and not may_hold(state[2].item(row), ask):
            return k.BAD, 0, 0
        gpus, node = state[0][row].tolist(), state[1][row].tolist()
        value, workers, choice = node_offer(gpus, node, ask, tables, self.scores)
        return int(value), min(int(workers), MOST_WORKERS), int(choice)

    def _many(self, rows: Ints, state: State, ask: Ints, tables: Any, out: Out) -> int:
        rows = np.sort(rows)
        rows = rows.take(starts_of(rows))  # the log may name a node more than once
        scores, workers, choices = offers_of_nodes(rows, state, ask, tables, self.scores)
        workers = np.minimum(workers, MOST_WORKERS)
        change = int((workers - (out[1][rows] >> k.CHOICE_BITS)).sum())
        out[0][rows], out[1][rows] = scores, (workers << k.CHOICE_BITS) + choices
        return change

    def sight(
        self, ways: tuple[Way, Way], done: int, query: tuple[State, Ints, Any], found: Any
    ) -> tuple[int, int, int, int]:
        """Look for feasible nodes on one way and then on another, ``done`` of which have been seen.

        ``found`` are the rows, scores and infos of feasible nodes, arrays of the most that are wanted; gives
        how many there are, how many of them on the first way, how many nodes of the second have been seen by
        now, and the index of the best, -1 if it is not known.
        """
        (own, way), (state, ask, tables) = ways, query
        if self._walk is not None:
            places = own.begin, own.most, way.begin, done, way.most
            return self._walk(own.rows, way.rows, places, *state, ask, *tables, *found)
        first = (own.begin, 0, own.rows), [column[: own.most] for column in found]
        rest = (way.begin, done, way.rows), [column[own.most :] for column in found]
        (mine, _seen), (count, done) = looks([first, rest], query, self.scores)
        if mine < own.most:
            for column in found:
                column[mine : mine + count] = column[own.most : own.most + count]
        return mine + count, mine, done, -1

    def first_lowest(self, scores: Any, rows: Any) -> int:
        """Index of the lowest score, that of the first row among equals."""
        if self.compiled and _compiled_first_lowest is not None:
            return int(_compiled_first_lowest(scores, rows))
        equal = (scores == scores[scores.argmin()]).nonzero()[0]
        return int(equal[rows[equal].argmin()] if len(equal) > 1 else equal[0])

    def lowest(self, scores: Any) -> int:
        """Index of the lowest score, the first among equals."""
        if self.compiled and _compiled_lowest is not None:
            return int(_compiled_lowest(scores))
        return int(scores.argmin())


def compile_kernels(placement: Placement, tell: Callable[[str], None] = lambda _line: None) -> None:
    """Compile, or load from the cache, what searches by this policy call: no decision then pays for it.

    ``tell`` gets a line before anything is compiled, for whoever waits.
    """
    line = f"compiling the decision loops of {placement.name}, once per machine: up to half a minute"
    with telling(lambda: tell(line)):
        for scores in ((type(placement).score, type(placement).within), COUNTING):
            Engine(scores).warm_up()
        summaries.warm_up()
