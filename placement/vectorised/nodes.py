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
    welcome,
    workers_beside_gpus,
)
from placement.vectorised.offers import bare_offers, offers_of_sets, offers_of_shares, whole_offers

MOST_WORKERS = 1 << 20
"""More workers than this on one node are not counted."""

State = tuple[Ints, Ints, Ints]
"""Arrays of GPUs, nodes and briefs, see :mod:`placement.columns` and :mod:`placement.summaries`."""

Found = tuple[Ints, Ints, Ints]
"""Scores, workers and choices of some nodes, int64 [nodes] each."""


def offers(rows: Ints, state: State, ask: Ints, tables: tuple[Any, ...], scores: Scores) -> Found:
    """What these nodes offer."""
    entries = ask.tolist()
    # Most nodes are ruled out by what is known of them without a look at their GPUs.
    could = which_could(rows, state[2].take(rows), state[1], entries)
    found = _nothing(len(rows))
    if len(could):
        rows = rows.take(could)
        some = offers_of(Scene(rows, state[0], state[1].take(rows, 0), entries, tables, scores))
        for column, values in zip(found, some, strict=True):
            column[could] = values
    return found


def which_could(rows: Ints, briefs: Ints, nodes: Ints, ask: list[int]) -> Ints:
    """Which of these rows are not ruled out by the briefs and figures of their nodes, by index."""
    if not ask[k.GPUS]:
        return has_room_beside(nodes.take(rows, 0), ask).nonzero()[0]
    could: Ints = may_hold_each(briefs, ask).nonzero()[0]
    return could.take(has_room_beside(nodes.take(rows.take(could), 0), ask).nonzero()[0])


def offers_of(scene: Scene) -> Found:
    """What nodes offer that are not ruled out beforehand; no workers where these do not count."""
    ask, count = scene.ask, len(scene.rows)
    if not count:
        return _nothing(0)
    if ask[k.GPUS] == 0:
        values: Ints = np.zeros(count, np.int64) + scene.scores[0](bare_offers(scene))
        return values, workers_beside_gpus(scene.node, ask), np.zeros(count, np.int64)
    values, shares, choices = (_best_gpu if ask[k.GPUS] == 1 else _best_set)(scene)
    if scene.counts:
        shares = np.minimum(workers_beside_gpus(scene.node, ask), shares)
    return values, shares, choices


def _nothing(count: int) -> Found:
    return np.full(count, k.BAD, np.int64), np.zeros(count, np.int64), np.zeros(count, np.int64)


def _best_gpu(scene: Scene) -> Found:
    """The best GPU and mode of each node, and how many shares its GPUs hold."""
    best, shares, choices = _nothing(len(scene.node))
    fits = fits_of(scene, first_alone=True)
    if len(fits.node):
        if fits.room is not None:
            nodes, room = _room(fits, fits.room, several=len(scene.ranks) > 1)
            shares[nodes] = room
        fits = welcome(scene, fits)
    if not len(fits.node):
        return best, shares, choices
    offer = offers_of_shares(scene, fits)
    values = scene.scores[0](offer) + scene.ask[k.MODE_STEP] * fits.rank
    starts = starts_of(fits.node)
    best[fits.node.take(starts)] = np.minimum.reduceat(values, starts)
    # Among equals of a node the second preference decides, then the mode, then the slot.
    equal = (values == best.take(fits.node)).nonzero()[0]
    if len(equal) > len(starts):
        inside = np.zeros(len(values), np.int64) + scene.scores[1](offer)
        keys = fits.slot, fits.rank, inside, fits.node
        equal = equal.take(np.lexsort([key.take(equal) for key in keys]))
        equal = equal.take(starts_of(fits.node.take(equal)))
    choices[fits.node.take(equal)] = fits.rank.take(equal) * k.SLOTS + fits.slot.take(equal)
    return best, shares, choices


def _room(fits: Fits, room: Ints, *, several: bool) -> tuple[Ints, Ints]:
    """Which nodes have room, and for how many shares, if all were of the mode of which most fit on a GPU."""
    node, alike = fits.node, fits.alike
    if several:
        starts = starts_of(node * k.SLOTS + fits.slot)
        node, room = node.take(starts), np.maximum.reduceat(room, starts)
        alike = None if alike is None else alike.take(starts)
    if alike is not None:
        room = room * alike
    starts = starts_of(node)
    return node.take(starts), np.add.reduceat(room, starts)


def _best_set(scene: Scene) -> Found:
    """The best mode for several GPUs of each node, and how many such sets there are."""
    best, shares, choices = _nothing(len(scene.node))
    wanted, every = scene.ask[k.GPUS], fits_of(scene, first_alone=False)
    for rank in scene.ranks:
        fits = every.some((every.rank == rank).nonzero()[0])
        nodes = _with_enough(fits, wanted)
        if not len(nodes):
            continue
        if fits.room is not None:
            in_all = np.zeros(len(best), np.int64)
            some = starts_of(fits.node)
            in_all[fits.node[some]] = np.add.reduceat(fits.room, some)
            shares[nodes] += in_all[nodes] // wanted
        fits = welcome(scene, fits)
        nodes = _with_enough(fits, wanted)
        if not len(nodes):
            continue
        values = np.zeros(len(nodes), np.int64) + _scores_of_sets(scene, rank, fits, nodes)
        values += scene.ask[k.MODE_STEP] * rank
        better = values < best[nodes]
        best[nodes[better]], choices[nodes[better]] = values[better], rank * k.SLOTS
    return best, shares, choices


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
    order = np.lexsort((fits.slot, zero + within(shares), zero + score(shares), fits.node))
    chosen = order[starts_of(fits.node)[:, None] + np.arange(scene.ask[k.GPUS])]
    return score(offers_of_sets(shares, chosen, scene, nodes))
