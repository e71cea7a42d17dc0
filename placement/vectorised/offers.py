"""What a policy is asked to score, for many places at once: figures that are worked out when they are read.

Most scores read a few figures of an :class:`placement.policies.offer.Offer`; here only these cost anything.
A figure is an array of one number a place, or one number for all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from placement import columns as k
from placement.columns import Ints
from placement.vectorised.fits import Fits, Scene
from placement.vectorised.measures import stranding, stranding_of_whole
from placement.vectorised.numbers import THOUSAND
from placement.vectorised.terms import TermsAt
from placement.vectorised.worth import forgone, forgone_bare, forgone_whole

Figure = Ints | int


class Places:
    """Has the attributes of an offer; each is worked out once."""

    def __init__(self, figures: dict[str, Callable[[Any], Figure]], source: Any, **known: Figure) -> None:
        self._figures = figures
        self._source = source
        self.__dict__.update(known)

    def __getattr__(self, name: str) -> Figure:
        figure = self._figures.get(name)
        if figure is None:
            raise AttributeError(f"an offer has no {name!r}; a score reads its fields by name")
        found = figure(self._source)
        setattr(self, name, found)
        return found


# -- one share of one GPU ----------------------------------------------------------------------------------


class Shares:
    """A share on each of many GPUs."""

    def __init__(self, scene: Scene, fits: Fits) -> None:
        self.scene = scene
        self.ask = scene.ask
        self.fits = fits
        self.gpu = fits.gpu
        self.term = fits.term
        self.taken = fits.gpu[k.FREE_MILLI] - fits.left
        self._felt: tuple[Figure, Figure] | None = None

    @property
    def felt(self) -> tuple[Figure, Figure]:
        """What the newcomer suffers and inflicts."""
        if self._felt is None:
            self._felt = _felt(self.gpu, self.term)
        return self._felt

    def node(self, column: int) -> Ints:
        """A figure of the node of each GPU."""
        figures: Ints = self.scene.node[:, column].take(self.fits.node)
        return figures


def _felt(gpu: Ints, term: TermsAt) -> tuple[Figure, Figure]:
    if not term.of.feels:
        return 0, 0
    felt = gpu[k.PRESSURE : k.SENSITIVITY_2 + 1] * term.pulls
    suffered, inflicted = (felt[::2] + felt[1::2]) // THOUSAND
    return suffered, inflicted


def _price(of: Shares) -> Figure:
    return of.term[k.PRICE] * of.fits.empty.view(np.int8) if of.fits.opens else 0


def _wasted(of: Shares) -> Figure:
    return 0 if of.term.number(k.ALONE) == 0 else of.term[k.ALONE] * of.taken // THOUSAND


def _outlasts(of: Shares) -> Figure:
    lasting, lifetime = of.gpu[k.LASTING], of.ask[k.LIFETIME]
    if not lifetime:  # nobody is empty later by it, and who has no residents is not either
        return 0
    return np.where(lasting == 0, 1, np.maximum(lifetime + 1 - lasting, 0))


_MODE_RANK = np.array(k.MODE_RANK)


def _mode(of: Shares) -> Figure:
    rank = of.fits.rank
    return k.MODE_RANK[rank] if isinstance(rank, int) else _MODE_RANK.take(rank)


_OF_SHARES: dict[str, Callable[[Shares], Figure]] = {
    "mode": _mode,
    "node_left": lambda of: of.node(k.FREE_SUM) - of.taken,
    "cpu": lambda of: of.ask[k.CPU],
    "cpu_left": lambda of: of.node(k.CPU_FREE) - of.ask[k.CPU],
    "ram_left": lambda of: of.node(k.RAM_FREE) - of.ask[k.RAM],
    "gpus": lambda of: of.node(k.SIZE),
    "empties": lambda of: of.node(k.EMPTIES),
    "opened": lambda of: of.fits.empty.astype(np.int64) if of.fits.opens else 0,
    "residents": lambda of: of.gpu[k.CLIENTS],
    "shape": lambda of: np.where(np.equal(of.fits.rank, k.EXCLUSIVE_RANK), 2, 1),
    "shapes": lambda of: of.node(k.SHAPES),
    "stranded": lambda of: stranding(of.scene, of.fits),
    "forgone": lambda of: forgone(of.scene, of.fits, of.taken),
    "suffered": lambda of: of.felt[0],
    "inflicted": lambda of: of.felt[1],
    "price": _price,
    "outlasts": _outlasts,
    "wasted": _wasted,
}


def offers_of_shares(scene: Scene, fits: Fits) -> Places:
    """One share on each GPU that has room."""
    shares = Shares(scene, fits)
    return Places(_OF_SHARES, shares, taken=shares.taken, gpu_left=fits.left)


# -- several GPUs of a node --------------------------------------------------------------------------------


class _Sets:
    """A set of the same number of shares on each of some nodes; ``chosen``: int64 [nodes, GPUs], of pairs."""

    def __init__(self, shares: Places, chosen: Ints, scene: Scene, nodes: Ints) -> None:
        self._shares = shares
        self._chosen = chosen
        self._nodes = nodes
        self._node = scene.node
        self.ask = scene.ask

    def total(self, name: str) -> Figure:
        """The sum of a figure over the GPUs of each set."""
        of_each = getattr(self._shares, name)
        if not isinstance(of_each, np.ndarray):
            whole: int = of_each * self._chosen.shape[1]
            return whole
        summed: Ints = of_each[self._chosen].sum(1)
        return summed

    def node(self, column: int) -> Ints:
        """A figure of the node of each set."""
        figures: Ints = self._node[:, column][self._nodes]
        return figures

    @property
    def rank(self) -> Figure:
        """The mode, which is the same for all."""
        mode = self._shares.mode
        return mode if isinstance(mode, int) else mode[self._chosen[:, 0]]


def _total(name: str) -> Callable[[_Sets], Figure]:
    return lambda of: of.total(name)


_ADDED = ("taken", "gpu_left", "opened", "residents", "stranded", "forgone", "suffered", "inflicted", "price")
_OF_SETS: dict[str, Callable[[_Sets], Figure]] = {
    "mode": lambda of: of.rank,
    "node_left": lambda of: of.node(k.FREE_SUM) - of.total("taken"),
    "cpu": lambda of: of.ask[k.CPU],
    "cpu_left": lambda of: of.node(k.CPU_FREE) - of.ask[k.CPU],
    "ram_left": lambda of: of.node(k.RAM_FREE) - of.ask[k.RAM],
    "gpus": lambda of: of.node(k.SIZE),
    "empties": lambda of: of.node(k.EMPTIES),
    "shape": lambda of: 1,
    "shapes": lambda of: of.node(k.SHAPES),
    **{name: _total(name) for name in (*_ADDED, "outlasts", "wasted")},
}


def offers_of_sets(shares: Places, chosen: Ints, scene: Scene, nodes: Ints) -> Places:
    """Several shares on different GPUs of each node as one."""
    return Places(_OF_SETS, _Sets(shares, chosen, scene, nodes))


# -- whole GPUs, or none -----------------------------------------------------------------------------------


def _of_nodes(wanted: Callable[[Scene], int]) -> dict[str, Callable[[Scene], Figure]]:
    """What all offers of the whole GPUs of a node, or of none of them, have in common."""
    return {
        "mode": lambda _of: 0,
        "taken": lambda of: 1000 * wanted(of),
        "gpu_left": lambda _of: 0,
        "node_left": lambda of: of.node[:, k.FREE_SUM] - 1000 * wanted(of),
        "cpu": lambda of: of.ask[k.CPU],
        "cpu_left": lambda of: of.node[:, k.CPU_FREE] - of.ask[k.CPU],
        "ram_left": lambda of: of.node[:, k.RAM_FREE] - of.ask[k.RAM],
        "gpus": lambda of: of.node[:, k.SIZE],
        "empties": lambda of: of.node[:, k.EMPTIES],
        "opened": wanted,
        "residents": lambda _of: 0,
        "shape": lambda _of: 0,
        "shapes": lambda of: of.node[:, k.SHAPES],
        "stranded": stranding_of_whole,
        "forgone": forgone_bare,
        "suffered": lambda _of: 0,
        "inflicted": lambda _of: 0,
        "price": lambda _of: 0,
        "outlasts": lambda _of: 0,
        "wasted": lambda _of: 0,
    }


_OF_NONE = _of_nodes(lambda _of: 0)
_OF_WHOLE = _of_nodes(lambda of: of.ask[k.GPUS]) | {
    "mode": lambda _of: k.EXCLUSIVE_RANK,
    "shape": lambda of: 1 << min(of.ask[k.GPUS], k.MOST_SHAPES),
    "forgone": forgone_whole,
    "outlasts": lambda of: of.ask[k.GPUS] if of.ask[k.LIFETIME] > 0 else 0,
}


def bare_offers(scene: Scene) -> Places:
    """Nothing but CPU and RAM of each node."""
    return Places(_OF_NONE, scene)


def whole_offers(scene: Scene) -> Places:
    """The first empty GPUs of each node."""
    return Places(_OF_WHOLE, scene)
