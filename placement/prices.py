"""Prices of what is scarce: places for requests of several GPUs, and kinds of GPUs that some must have.

Scarcity is the demand that would arrive while the free compute fills up with the usual requests, against what
is left of the thing itself.  It is kept in sixteenths and squared, so that a price is 0 while there is plenty
and a whole GPU where the last ones are taken.  Prices are reviewed now and then, and a level is kept until
the scarcity has clearly left it: rows of scores stay valid in between.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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

Kind = tuple[str, int | None]
"""Model and memory (bytes) of a kind of GPU."""


@dataclass(frozen=True, slots=True)
class _Scarce:
    """What can get scarce: ``asked`` is its weight in the mix, in the unit that is left of it.

    Kinds of GPUs are by model and memory: their numbers may be others after a restart.
    """

    asked: int
    kinds: frozenset[Kind]
    request: tuple[int, int, int] | None
    """CPU, RAM (MiB) and GPUs of a request of several GPUs; None for the compute of these kinds."""


class Prices:
    """The prices in the compiled mix of a cluster.

    Attributes:
        levels: one per scarce thing, 0 to :data:`LEVELS`: all that a restart has to know.  Those set before
            the first :meth:`rebuild` belong to the nodes that the cluster has then.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._things: list[_Scarce] | None = None
        self._total = 0
        self.levels: tuple[int, ...] = ()

    def rebuild(self) -> None:
        """The nodes, the mix or the kinds are others, and the tables may have been compiled anew.

        Levels are kept if what can get scarce is the same as before.
        """
        things = self._scarce()
        known = self._things is None and len(self.levels) == len(things)
        if not known and things != self._things:
            self.levels = ()
        self._things = things
        if not self.levels:
            self.levels = self._reviewed(things)
        self._enter(things)

    def review(self) -> bool:
        """Look at what is scarce now; gives whether a price has changed."""
        things = self._things or []
        levels = self._reviewed(things)
        if levels == self.levels:
            return False
        self.levels = levels
        self._enter(things)
        return True

    def _scarce(self) -> list[_Scarce]:
        """What can get scarce on the nodes as they are; a kind of which there is no GPU left is none."""
        mix, kinds = self._cluster.figures.mix, self._present()
        served = [frozenset(kind for kind in kinds if needs_of(u.request, u.profile, *kind)) for u in mix]
        milli = [usual.weight * milli_of(usual, kinds) for usual in mix]
        self._total = sum(milli)
        big = [
            _Scarce(u.weight, s, (u.request.cpu_milli, u.request.ram_bytes >> 20, u.request.gpus))
            for u, s in zip(mix, served, strict=True)
            if is_big(u)
        ]
        everything = frozenset(kinds)
        sets = {s for u, s in zip(mix, served, strict=True) if u.request.gpus and s and s != everything}
        confined = [
            _Scarce(sum(amount for amount, s in zip(milli, served, strict=True) if s <= inside), inside, None)
            for inside in sorted(sets, key=lambda s: sorted(map(_in_order, s)))
        ]
        return big + confined

    def _present(self) -> list[Kind]:
        """The kinds of the GPUs that there are, in an order that does not depend on their numbers."""
        gpus, kinds = self._cluster.gpus, self._cluster.kinds
        found = np.unique(gpus[:, :, k.MODEL][gpus[:, :, k.MODE] != k.ABSENT])
        return sorted((kinds[number] for number in found.tolist()), key=_in_order)

    def _reviewed(self, things: Iterable[_Scarce]) -> tuple[int, ...]:
        free_by_kind = self._free_by_kind()
        free = int(free_by_kind.sum())
        levels = []
        for i, thing in enumerate(things):
            numbers = self._numbers(thing)
            left = self._places(thing.request, numbers) if thing.request else int(free_by_kind[numbers].sum())
            scarcity = LEVELS * thing.asked * free / (self._total * left) if self._total and left else 0.0
            before = self.levels[i] if self.levels else None
            if before is not None and before - SLACK <= scarcity < before + 1 + SLACK:
                levels.append(before)
            else:
                levels.append(min(LEVELS, int(scarcity)))
        return tuple(levels)

    def _numbers(self, thing: _Scarce) -> list[int]:
        """The numbers of its kinds of GPUs."""
        return [number for number, kind in enumerate(self._cluster.kinds) if kind in thing.kinds]

    def _up(self) -> npt.NDArray[np.bool_]:
        """Which nodes new work may go to: what is free on others is no supply."""
        up: npt.NDArray[np.bool_] = self._cluster.nodes[:, k.UP] == 1
        return up

    def _free_by_kind(self) -> Ints:
        gpus = self._cluster.gpus[self._up()]  # slots without a GPU have nothing free
        kinds, free = gpus[:, :, k.MODEL].ravel(), gpus[:, :, k.FREE_MILLI].ravel()
        sums = np.bincount(kinds, weights=free, minlength=len(self._cluster.kinds))
        return sums.astype(np.int64)

    def _places(self, request: tuple[int, int, int], kinds: list[int]) -> int:
        """Places in the whole cluster for a request of several GPUs of some kinds."""
        cpu, ram_mib, gpus = request
        nodes = self._cluster.nodes
        places = nodes[:, k.EMPTIES] // gpus
        if cpu:
            places = np.minimum(places, np.minimum(nodes[:, k.CPU_FREE], _MUCH) // cpu)
        if ram_mib:
            places = np.minimum(places, np.minimum(nodes[:, k.RAM_FREE] >> 20, _MUCH) // ram_mib)
        of_kind = np.isin(self._cluster.gpus[:, :1, k.MODEL], kinds).any(1)
        return int(places[of_kind & self._up()].sum())

    def _enter(self, things: Iterable[_Scarce]) -> None:
        """Write the prices into the compiled mix, in thousandths of a GPU."""
        tables = self._cluster.mix_tables
        big_at, kind_at = int(tables[m.BIG_PRICES_AT]), int(tables[m.KIND_PRICES_AT])
        tables[kind_at : kind_at + len(self._cluster.kinds)] = 0
        for i, (thing, level) in enumerate(zip(things, self.levels, strict=True)):
            price = 1000 * level * level // LEVELS**2
            if thing.request is not None:
                tables[big_at + i] = price * thing.request[2]
                continue
            for number in self._numbers(thing):
                tables[kind_at + number] = max(int(tables[kind_at + number]), price)
        self._cluster.value_anew()


def _in_order(kind: Kind) -> tuple[str, int]:
    model, memory_bytes = kind
    return model, -1 if memory_bytes is None else memory_bytes
