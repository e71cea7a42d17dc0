"""Prices of what is scarce: places for requests of several GPUs, and kinds of GPUs that some must have.

Scarcity is the demand that would arrive while the free compute fills up with the usual requests, against what
is left of the thing itself.  It is kept in sixteenths and squared, so that a price is 0 while there is plenty
and a whole GPU where the last ones are taken.  Prices are reviewed now and then, and a level is kept until
the scarcity has clearly left it: rows of scores stay valid in between.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from placement import columns as k
from placement import mix as m
from placement.cluster import Cluster
from placement.columns import Ints
from placement.partition import needs_of
from placement.worth_tables import is_big, milli_of

LEVELS = 16
"""A price has so many steps."""

SLACK = 0.5
"""A level is kept while the scarcity is at most so far outside it."""

_MUCH = 1 << 40


@dataclass(frozen=True, slots=True)
class _Scarce:
    """What can get scarce: ``asked`` is its weight in the mix, in the unit that is left of it."""

    asked: int
    kinds: frozenset[int]
    request: tuple[int, int, int] | None
    """CPU, RAM (MiB) and GPUs of a request of several GPUs; None for the compute of these kinds."""


class Prices:
    """The prices in the compiled mix of a cluster.

    Attributes:
        levels: one per scarce thing, 0 to :data:`LEVELS`: all that a restart has to know.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._things: list[_Scarce] = []
        self._total = 0
        self.levels: tuple[int, ...] = ()

    def rebuild(self) -> None:
        """The mix or the kinds are others: the tables have been compiled anew."""
        mix, kinds = self._cluster.figures.mix, self._cluster.kinds
        served = [
            frozenset(i for i, kind in enumerate(kinds) if needs_of(u.request, u.profile, *kind)) for u in mix
        ]
        milli = [usual.weight * milli_of(usual, kinds) for usual in mix]
        self._total = sum(milli)
        big = [
            _Scarce(u.weight, s, (u.request.cpu_milli, u.request.ram_bytes >> 20, u.request.gpus))
            for u, s in zip(mix, served, strict=True)
            if is_big(u)
        ]
        everything = frozenset(range(len(kinds)))
        sets = {s for u, s in zip(mix, served, strict=True) if u.request.gpus and s and s != everything}
        confined = [
            _Scarce(sum(amount for amount, s in zip(milli, served, strict=True) if s <= inside), inside, None)
            for inside in sorted(sets, key=lambda s: sorted(kinds[kind][0] for kind in s))
        ]
        self._things = big + confined
        if len(self.levels) != len(self._things):
            self.levels = ()
            self.levels = self._reviewed()
        self._enter()

    def review(self) -> bool:
        """Look at what is scarce now; gives whether a price has changed."""
        levels = self._reviewed()
        if levels == self.levels:
            return False
        self.levels = levels
        self._enter()
        return True

    def _reviewed(self) -> tuple[int, ...]:
        free_by_kind = self._free_by_kind()
        free = int(free_by_kind.sum())
        levels = []
        for i, thing in enumerate(self._things):
            left = self._places(thing) if thing.request else int(free_by_kind[list(thing.kinds)].sum())
            scarcity = LEVELS * thing.asked * free / (self._total * left) if self._total and left else 0.0
            before = self.levels[i] if self.levels else None
            if before is not None and before - SLACK <= scarcity < before + 1 + SLACK:
                levels.append(before)
            else:
                levels.append(min(LEVELS, int(scarcity)))
        return tuple(levels)

    def _free_by_kind(self) -> Ints:
        gpus = self._cluster.gpus  # slots without a GPU have nothing free
        kinds, free = gpus[:, :, k.MODEL].ravel(), gpus[:, :, k.FREE_MILLI].ravel()
        sums = np.bincount(kinds, weights=free, minlength=len(self._cluster.kinds))
        return sums.astype(np.int64)

    def _places(self, thing: _Scarce) -> int:
        """Places in the whole cluster for a request of several GPUs."""
        cpu, ram_mib, gpus = thing.request or (0, 0, 1)
        nodes = self._cluster.nodes
        places = nodes[:, k.EMPTIES] // gpus
        if cpu:
            places = np.minimum(places, np.minimum(nodes[:, k.CPU_FREE], _MUCH) // cpu)
        if ram_mib:
            places = np.minimum(places, np.minimum(nodes[:, k.RAM_FREE] >> 20, _MUCH) // ram_mib)
        of_kind = np.isin(self._cluster.gpus[:, :1, k.MODEL], list(thing.kinds)).any(1)
        return int(places[of_kind].sum())

    def _enter(self) -> None:
        """Write the prices into the compiled mix, in thousandths of a GPU."""
        tables = self._cluster.mix_tables
        big_at, kind_at = int(tables[m.BIG_PRICES_AT]), int(tables[m.KIND_PRICES_AT])
        tables[kind_at : kind_at + len(self._cluster.kinds)] = 0
        for i, (thing, level) in enumerate(zip(self._things, self.levels, strict=True)):
            price = 1000 * level * level // LEVELS**2
            if thing.request is not None:
                tables[big_at + i] = price * thing.request[2]
                continue
            for kind in thing.kinds:
                tables[kind_at + kind] = max(int(tables[kind_at + kind]), price)
        self._cluster.value_anew()
