"""The same offers as :mod:`placement.kernels`, for many nodes at once with numpy alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from placement import columns as k
from placement.columns import Ints
from placement.policies.offer import Scores
from placement.summaries import may_hold_each
from placement.vectorised.fits import (
    Fits,
    Scene,
    fits_of,
    has_room_beside,
    starts_of,
    taken,
    welcome,
    workers_beside_gpus,
)
from placement.vectorised.offers import bare_offers, offers_of_sets, offers_of_shares, whole_offers

MOST_WORKERS = 1 << 20
"""More workers than this on one node are not counted."""

State = tuple[Ints, Ints, Ints]
"""Arrays of GPUs, nodes and briefs, see :mod:`placement.columns` and :mod:`placement.summaries`."""

Best = tuple[Ints, Ints, Ints, Ints | None]
"""The nodes of a scene that have a place, by index, their scores and choices; then, if it counts, how many
workers each node of the scene can hold: int64 [nodes], refused places included."""

_NONE: Ints = np.zeros(0, np.int64)


def offers(
    rows: Ints, state: State, ask: Ints, tables: tuple[Any, ...], scores: Scores
) -> tuple[Ints, Ints, Ints]:
    """Scores, workers and choices of these nodes, int64 [nodes] each."""
    entries = ask.tolist()
    # Most nodes are ruled out by what is known of them without a look at their GPUs.
    could, _all = which_could(state[2].take(rows), (rows, state[1]), entries)
    found = np.full(len(rows), k.BAD, np.int64), np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
    if len(could):
        rows = rows.take(could)
        scene = Scene(rows, state[0], state[1].take(rows, 0), entries, tables, scores)
        which, values, choices, workers = offers_of(scene)
        which = could.take(which)
        found[0][which], found[2][which] = values, choices
        if workers is not None:
            found[1][could] = workers
    return found


def which_could(
    briefs: Ints, where: tuple[Ints | int, Ints], ask: list[int], most: int = 1 << 40
) -> tuple[Ints, int]:
    """Which nodes are not ruled out by their briefs and figures, by index; and how many have been looked at.

    ``where``: the rows that the briefs belong to, or the first of as many in a row; and the figures of all
    nodes, of which at most so many are read.
    """
    rows, nodes = where
    could: Ints = may_hold_each(briefs, ask).nonzero()[0] if ask[k.GPUS] else np.arange(len(briefs))
    seen = len(briefs)
    if len(could) > most:
        could = could[:most]
        seen = int(could[-1]) + 1
    near = nodes.take(could + rows if isinstance(rows, int) else rows.take(could), 0)
    return could.take(has_room_beside(near, ask).nonzero()[0]), seen


def offers_of(scene: Scene) -> Best:
    """What nodes offer that are not ruled out beforehand."""
    ask, count = scene.ask, len(scene.rows)
    if not count:
        return _NONE, _NONE, _NONE, _NONE
    if ask[k.GPUS] == 0:
        values = _spread(scene.scores[0](bare_offers(scene)), count)
        return np.arange(count), values, np.zeros(count, np.int64), workers_beside_gpus(scene.node, ask)
    which, values, choices, shares = (_best_gpu if ask[k.GPUS] == 1 else _best_set)(scene)
    if shares is not None:
        shares = np.minimum(workers_beside_gpus(scene.node, ask), shares)
    return which, values, choices, shares


def _spread(figure: Any, count: int) -> Ints:
    """One number for each place, where a score gave one for all."""
    return figure if isinstance(figure, np.ndarray) else np.full(count, figure, np.int64)


def _best_gpu(scene: Scene) -> Best:
    """The best GPU and mode of each node, and how many shares its GPUs hold."""
    shares: Ints | None = np.zeros(len(scene.node), np.int64) if scene.counts else None
    fits = fits_of(scene, first_alone=True)
    if len(fits.node):
        if shares is not None and fits.room is not None:
            nodes, room = _room(fits, fits.room, several=not isinstance(fits.rank, int))
            shares[nodes] = room
        fits = welcome(scene, fits)
    if not len(fits.node):
        return _NONE, _NONE, _NONE, shares
    offer = offers_of_shares(scene, fits)
    values = _spread(scene.scores[0](offer), len(fits.node))
    if scene.ask[k.MODE_STEP]:
        values = values + scene.ask[k.MODE_STEP] * fits.rank
    starts = starts_of(fits.node)
    which, lowest = fits.node.take(starts), np.minimum.reduceat(values, starts)
    best = np.empty(len(scene.node), np.int64)
    best[which] = lowest
    equal = (values == best.take(fits.node)).nonzero()[0]
    if len(equal) > len(starts):
        equal = _first_of_equals(fits, equal, scene.scores[1](offer))
    choices = taken(fits.rank, equal) * k.SLOTS + fits.place.take(equal) % scene.gpus.shape[1]
    return which, lowest, choices, shares


def _first_of_equals(fits: Fits, equal: Ints, inside: Any) -> Ints:
    """Among equals of a node the second preference decides, then the mode, then the slot."""
    nodes = fits.node.take(equal)
    keys = [key.take(equal) for key in (fits.rank, inside) if isinstance(key, np.ndarray)]
    if keys:  # else they stand in order, as they do by slot
        equal = equal.take(np.lexsort([*keys, nodes]))
        nodes = fits.node.take(equal)
    return equal.take(starts_of(nodes))


def _room(fits: Fits, room: Ints, *, several: bool) -> tuple[Ints, Ints]:
    """Which nodes have room, and for how many shares, if all were of the mode of which most fit on a GPU."""
    node, alike = fits.node, fits.alike
    if several:
        starts = starts_of(fits.place)
        node, room = node.take(starts), np.maximum.reduceat(room, starts)
        alike = None if alike is None else alike.take(starts)
    if alike is not None:
        room = room * alike
    starts = starts_of(node)
    return node.take(starts), np.add.reduceat(room, starts)


def _best_set(scene: Scene) -> Best:
    """The best mode for several GPUs of each node, and how many such sets there are."""
    count = len(scene.node)
    best, choices = np.full(count, k.BAD, np.int64), np.zeros(count, np.int64)
    shares: Ints | None = np.zeros(count, np.int64) if scene.counts else None
    wanted, every = scene.ask[k.GPUS], fits_of(scene, first_alone=False)
    for rank in scene.ranks:
        fits = every.of_rank(rank)
        nodes = _with_enough(fits, wanted)
        if not len(nodes):
            continue
        if shares is not None and fits.room is not None:
            in_all = np.zeros(count, np.int64)
            some = starts_of(fits.node)
            in_all[fits.node[some]] = np.add.reduceat(fits.room, some)
            shares[nodes] += in_all[nodes] // wanted
        fits = welcome(scene, fits)
        nodes = _with_enough(fits, wanted)
        if not len(nodes):
            continue
        values = _spread(_scores_of_sets(scene, rank, fits, nodes), len(nodes))
        values = values + scene.ask[k.MODE_STEP] * rank
        better = values < best[nodes]
        best[nodes[better]], choices[nodes[better]] = values[better], rank * k.SLOTS
    which = (best != k.BAD).nonzero()[0]
    return which, best.take(which), choices.take(which), shares


def _with_enough(fits: Fits, wanted: int) -> Ints:
    """Nodes where so many GPUs have room."""
    return (np.bincount(fits.node) >= wanted).nonzero()[0]


def _scores_of_sets(scene: Scene, rank: int, fits: Fits, nodes: Ints) -> Any:
    """The score of the best GPUs of each of these nodes, where there are enough."""
    score, within = scene.scores
    if rank == k.EXCLUSIVE_RANK:
        some = Scene(scene.rows[nodes], scene.gpus, scene.node[nodes], scene.ask, scene.tables, scene.scores)
        return score(whole_offers(some))
    enough = np.zeros(len(scene.node), np.bool_)
    enough[nodes] = True
    fits = fits.some(enough[fits.node].nonzero()[0])
    shares, zero = offers_of_shares(scene, fits), np.zeros(len(fits.node), np.int64)
    order = np.lexsort((zero + within(shares), zero + score(shares), fits.node))  # they stand by slot
    chosen = order[starts_of(fits.node)[:, None] + np.arange(scene.ask[k.GPUS])]
    return score(offers_of_sets(shares, chosen, scene, nodes))
