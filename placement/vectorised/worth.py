"""What usual requests lose by many places at once: the measure of :mod:`placement.worth`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from placement import columns as k
from placement import mix as f
from placement import worth as w
from placement.columns import Ints
from placement.vectorised.fits import SHARED, WHOLE, Fits, Scene, slices_among
from placement.vectorised.numbers import ONE, THOUSAND

Floats = npt.NDArray[np.float64]

_MOST_KNOWN = 8
_known: dict[int, Worths] = {}

_RATIOS = len(w.FEED_WEIGHTS)
_FEED_WEIGHTS = np.array(w.FEED_WEIGHTS) / 8
_GPU_WEIGHT = np.array(w.GPU_WEIGHT)
_BEST_FIT = np.array(4000)
_MIB = np.array(1 / (1 << 20))
_RESOURCES = 4
"""The first columns of a node, CPU_FREE to EMPTIES; RAM in MiB."""
_RESOURCE_OF_RATIO = np.array([k.CPU_FREE] * (_RATIOS - 1) + [k.RAM_FREE])


def _table(mix: Ints, at: int, count: int) -> Ints:
    begin = int(mix[at])
    return mix[begin : begin + count]


def _one_of(numbers: Ints) -> Ints:
    """The numbers of all kinds of GPUs, or one without an axis if it holds for all."""
    return np.array(numbers[0]) if (numbers == numbers[0]).all() else numbers


def _priced(mix: Ints, prices: Ints, kinds: int) -> tuple[Ints, Floats]:
    """CPU, RAM (MiB) and GPUs that are asked for at a price, each once, and the price on each kind of GPU."""
    some = (prices > 0).nonzero()[0]
    usual = _table(mix, f.BIG_AT, len(prices) * w.BIG_COLUMNS).reshape(-1, w.BIG_COLUMNS).take(some, 0)
    asked, which = np.unique(usual[:, :3], axis=0, return_inverse=True)
    by_kind = np.zeros((len(asked), kinds))
    bits = np.minimum(np.arange(kinds), k.BIT_LIMIT)
    np.add.at(by_kind, which.reshape(-1), (usual[:, 3:] >> bits & 1) * prices.take(some)[:, None])
    return asked, by_kind


class Worths:
    """What of a compiled mix of usual requests depends on nothing else, laid out for whole arrays.

    What a node's CPU and RAM allow is a division each: the compute that they can feed at every ratio, and the
    places for usual requests of several GPUs that have a price; so are the places by empty GPUs.  These are
    lines of one table.  It is of floats, which divide in a tenth of the time: below 2**53 they are exact, and
    a quotient is rounded down to the same; more than that has only what is unlimited.

    Attributes:
        resource, factors, units: by line: the column of a node, times what, divided by what; boundless: lines
            of what nothing is asked of.
        requests: how many have a price, those that differ in the kind of GPU alone counted once; prices: of
            each on each kind, [requests, kinds].
        kind_prices: by kind, None if all are 0.
        totals: memory by kind; shares: worth by compute left, one after the other by kind; either is the same
            for all kinds if it has no axis, or as many entries as for one kind.
    """

    def __init__(self, mix: Ints) -> None:
        self.mix = mix
        count, kinds = int(mix[f.BIG_N]), int(mix[f.KINDS])
        tables = (f.BIG_PRICES_AT, count), (f.KIND_PRICES_AT, kinds)
        self._where = np.concatenate([np.arange(size) + int(mix[at]) for at, size in tables])
        self._stamp = mix.take(self._where).tobytes()
        big_prices, kind_prices = (_table(mix, at, size).copy() for at, size in tables)
        asked, self.prices = _priced(mix, big_prices, kinds)
        self.requests = len(asked)
        units = np.concatenate((_table(mix, f.RATIOS_AT, _RATIOS), asked.T.reshape(-1)))
        of_requests = np.repeat((k.CPU_FREE, k.RAM_FREE, k.EMPTIES), len(asked))
        self.resource = np.concatenate((_RESOURCE_OF_RATIO, of_requests))
        self.factors = np.repeat((1000.0, 1.0), (_RATIOS, 3 * len(asked)))[:, None]
        self.boundless = (units == 0).nonzero()[0]
        self.units = np.maximum(units, 1.0)[:, None]
        self.kind_prices = kind_prices if kind_prices.any() else None
        self.totals = _one_of(np.maximum(_table(mix, f.TOTALS_AT, kinds), 1))
        shares = _table(mix, f.WORTH_AT, kinds * 1001).reshape(kinds, 1001)
        self.shares = shares[0] if (shares == shares[0]).all() else shares.reshape(-1)
        self.slices_at = int(mix[f.SLICES_AT])

    @property
    def holds(self) -> bool:
        """Whether all prices are as they were."""
        return self.mix.take(self._where).tobytes() == self._stamp

    def allowed(self, rest: Floats) -> Floats:
        """What so much of the node allows, [cases, columns, nodes]: [cases, lines, nodes]."""
        times: Floats = rest.take(self.resource, 1)
        times *= self.factors
        times /= self.units
        np.floor(times, out=times)
        if len(self.boundless):
            times[:, self.boundless] = w.MUCH
        return times


def worths_of(mix: Ints) -> Worths:
    """The same for all looks until a price changes."""
    worths = _known.get(id(mix))
    if worths is None or worths.mix is not mix or not worths.holds:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        worths = _known[id(mix)] = Worths(mix)
    return worths


# -- the GPU itself ----------------------------------------------------------------------------------------


def _of_shares(scene: Scene, fits: Fits, worths: Worths) -> Ints:
    """What is free of each GPU is worth as a share, before and after one more, int64 [2, places]."""
    gpu, kind = fits.gpu, fits.gpu[k.MODEL]
    rest = np.empty((2, 2, len(kind)), np.int64)  # compute and memory, before and after
    rest[:] = gpu[k.FREE_MILLI : k.FREE_MEMORY + 1]
    rest[1, 0] = fits.left
    memory = rest[1, 1]
    memory -= fits.term[k.MEMORY]
    # The scarcer of compute and memory counts.
    total = worths.totals if not worths.totals.ndim else worths.totals.take(kind)
    held = np.minimum(rest[:, 1], total)  # a thousand times as much is a number
    if scene.ask[k.OFFERED] & ~SHARED:
        np.maximum(held, 0, out=held)
    held *= THOUSAND
    held //= total
    np.minimum(held, rest[:, 0], out=held)
    if len(worths.shares) > 1001:
        held += kind * 1001
    worth: Ints = worths.shares.take(held)
    if fits.term.number(k.CLIENT_LIMIT) != k.MANY:
        worth[1, gpu[k.CLIENTS] + ONE >= fits.term[k.CLIENT_LIMIT]] = 0
    return worth


def _lost_there(scene: Scene, fits: Fits, taken: Ints, worths: Worths) -> Ints:
    """What the free part of each GPU loses by one share."""
    gpu, kind, offered = fits.gpu, fits.gpu[k.MODEL], scene.ask[k.OFFERED]
    worth = _of_shares(scene, fits, worths) if offered & SHARED else np.zeros((2, len(kind)), np.int64)
    before, after = worth
    if fits.cut is not None:
        mig = slices_among(offered, fits.rank)
        slices = kind[mig] * 4096 + worths.slices_at
        before[mig] = worths.mix.take(slices + gpu[k.MIG_STATE, mig])
        after[mig] = worths.mix.take(slices + fits.cut[mig])
    if fits.opens:
        before[fits.empty] = 1000
    if offered & WHOLE:
        after[fits.rank == k.EXCLUSIVE_RANK] = 0
    lost: Ints = (before - after) * _GPU_WEIGHT
    lost += taken * (gpu[k.FREE_MILLI] + fits.left) // _BEST_FIT
    return lost


# -- the rest of the node ----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Taken:
    """What is taken at some places.

    Attributes:
        at: the node of each place, as it stands in the scene, None if each is a place; kind: of its GPU.
        milli: thousandths of that; opened: how many empty GPUs, None if none anywhere.
    """

    at: Ints | None
    kind: Ints
    milli: Ints | int
    opened: Ints | int | None


def _of_first(scene: Scene, opened: int) -> _Taken:
    """Whole GPUs of the kind of each node's first."""
    return _Taken(None, scene.gpus[scene.rows, 0, k.MODEL], 1000 * opened, opened)


def _lost_beside(scene: Scene, what: _Taken, worths: Worths) -> Ints:
    """What the rest of each node loses."""
    node = scene.node if what.at is None else scene.node.take(what.at, 0)
    rest = np.empty((2, _RESOURCES, len(node)))  # before and after
    rest[:] = node.T[:_RESOURCES]
    cpu, ram, free, empties = rest[1]  # changed in place: an index would have them written back once more
    cpu -= scene.ask[k.CPU]
    ram -= scene.ask[k.RAM]
    free -= what.milli
    if what.opened is not None:
        empties -= what.opened
    mib = rest[:, k.RAM_FREE]
    mib *= _MIB
    np.floor(mib, out=mib)
    allowed = worths.allowed(rest)
    fed = np.floor(np.dot(_FEED_WEIGHTS, np.minimum(allowed[:, :_RATIOS], rest[:, k.FREE_SUM, None])))
    gone: Floats = fed[0] - fed[1]
    if worths.requests and np.count_nonzero(rest[0, k.EMPTIES]):
        gone += _lost_to_several(allowed[:, _RATIOS:], what.kind, worths)
    lost: Ints = gone.astype(np.int64)
    if worths.kind_prices is not None:
        lost += worths.kind_prices.take(what.kind) * what.milli // THOUSAND
    return lost


def _lost_to_several(allowed: Floats, kind: Ints, worths: Worths) -> Floats:
    """What usual requests of several GPUs lose: by what CPU, RAM and empty GPUs allow."""
    count = worths.requests
    places = np.minimum(allowed[:, :count], allowed[:, count : 2 * count])
    np.minimum(places, allowed[:, 2 * count :], out=places)
    gone = places[0] - places[1]
    gone *= worths.prices.take(kind, 1)
    lost: Floats = np.add.reduce(gone)
    return lost


# -- both --------------------------------------------------------------------------------------------------


def forgone(scene: Scene, fits: Fits, taken: Ints) -> Ints | int:
    """What usual requests lose, per GPU that would take a share."""
    if scene.ask[k.WEIGHS] != k.FORGONE:
        return 0
    worths = worths_of(scene.tables[4])
    lost = _lost_there(scene, fits, taken, worths)
    opened: Any = fits.empty.view(np.int8) if fits.opens else None
    lost += _lost_beside(scene, _Taken(fits.node, fits.gpu[k.MODEL], taken, opened), worths)
    return lost


def forgone_bare(scene: Scene) -> Ints | int:
    """What usual requests lose by a request without GPUs, per node."""
    if scene.ask[k.WEIGHS] != k.FORGONE or not scene.gpus.shape[1]:
        return 0
    lost = _lost_beside(scene, _of_first(scene, 0), worths_of(scene.tables[4]))
    return np.where(scene.node[:, k.SIZE] > 0, lost, 0)


def forgone_whole(scene: Scene) -> Ints | int:
    """What usual requests lose by several whole GPUs, per node."""
    if scene.ask[k.WEIGHS] != k.FORGONE or not scene.gpus.shape[1]:
        return 0
    wanted = scene.ask[k.GPUS]
    return w.WHOLE_LOST * wanted + _lost_beside(scene, _of_first(scene, wanted), worths_of(scene.tables[4]))
