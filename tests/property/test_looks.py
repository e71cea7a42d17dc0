"""What numpy sees on many nodes at once, against the plain functions, node after node."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from placement import columns as k
from placement.ask import NO_SCORES, Ask
from placement.columns import Ints
from placement.engine import Engine, Way
from placement.jit import numba
from placement.policies import Placement
from placement.vectorised import fits, look
from tests.property.test_search import COMPILED, POLICIES, PROFILES, Desk, Dice, lenient, seeds


class Scenes:
    """Random clusters in use, and what somebody asks for there."""

    def __init__(self, seed: int, policy: type[Placement], *, compiled: bool = False) -> None:
        self.desk = Desk(seed, policy, audited=False)
        self.desk.run(20)
        self.dice = Dice(seed + 1)
        self.scores = policy.score, policy.within
        self.engine = Engine(self.scores, compiled=compiled)
        self.state = self.desk.cluster.state

    @property
    def count(self) -> int:
        return len(self.desk.cluster.members)

    def ask(self) -> tuple[Ask, Ints]:
        """A request of some tenant, and random refusals."""
        search, dice = self.desk.search, self.dice
        ask = search.ask_of(search.demand(self.desk.job(), dice.of(*PROFILES)))
        ask.entries[k.ASKER] = ask.plain[k.ASKER] = dice.of(k.STRANGER, 0, 1)
        known = dice.of(0, 0, 3, 40)
        return ask, np.array([[dice.random() < 0.3 for _ in range(known)] for _ in range(k.RANKS)], np.int8)

    def tables(self, ask: Ask, refused: Ints) -> Any:
        return ask.terms, refused, *self.desk.search._rows._tables

    def one(self, row: int, ask: Ask, refused: Ints) -> tuple[int, int, int]:
        """Score, workers and choice of a node by the plain functions."""
        tables = ask.plain_terms, refused, *self.desk.search._rows._plain_tables
        return self.engine.offer(row, self.state, ask.plain, tables)

    def ways(self) -> tuple[tuple[Way, Way], int]:
        """Some rows first, if any, and some or all; how many of these have been seen already."""
        own, rows = self.rows(), self.rows()
        most = self.dice.of(0, 1, 3) if len(own) else 0
        first = Way(own, self.dice.randrange(len(own) or 1), most)
        begin, done = (self.dice.randrange(len(rows) or self.count) for _ in range(2))
        return (first, Way(rows, begin, self.dice.of(1, 2, 3, 9))), done

    def rows(self) -> Ints:
        some = sorted(self.dice.sample(range(self.count), self.dice.randrange(self.count + 1)))
        return np.array(some, np.int64) if self.dice.random() < 0.5 else NO_SCORES

    def walk(self, way: Way, done: int, ask: Ask, refused: Ints) -> tuple[list[tuple[int, ...]], int]:
        """The first nodes that can hold a request, one after the other, and how many had to be seen."""
        rows = way.rows.tolist() or list(range(self.count))
        found: list[tuple[int, ...]] = []
        while done < len(rows) and len(found) < way.most:
            row = rows[(way.begin + done) % len(rows)]
            score, _workers, choice = self.one(row, ask, refused)
            found += [(row, score, choice)] if score != k.BAD else []
            done += 1
        return found, done


MASK = (1 << k.CHOICE_BITS) - 1


def empty(most: int) -> tuple[Ints, Ints, Any]:
    return np.zeros(most, np.int64), np.zeros(most, np.int64), np.zeros(most, np.int32)


def entered(found: Any, count: int) -> list[tuple[int, ...]]:
    return [*zip(*(column[:count].tolist() for column in found), strict=True)]


@pytest.mark.parametrize("policy", POLICIES)
@settings(lenient, max_examples=4)
@given(seed=seeds)
def test_many_nodes_at_once_offer_what_each_does(policy, seed):
    scenes = Scenes(seed, POLICIES[policy])
    for _ in range(12):
        ask, refused = scenes.ask()
        rows, (_rows, scores, infos) = np.arange(scenes.count), empty(scenes.count)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("placement.engine.FEW_NODES", 0)
            patch.setattr(fits, "AT_ONCE", scenes.dice.of(0, 256))
            tables = scenes.tables(ask, refused)
            workers = scenes.engine.rescore(rows, scenes.state, ask.entries, tables, (scores, infos))
        expected = [scenes.one(row, ask, refused) for row in range(scenes.count)]
        held, choices = infos >> k.CHOICE_BITS, infos & MASK
        seen = [*zip(scores.tolist(), held.tolist(), choices.tolist(), strict=True)]
        assert seen == expected, f"seed {seed}, {ask.request}"
        assert workers == sum(one[1] for one in expected)


@pytest.mark.parametrize("policy", ["best-fit", "tangled", "cotenant", "fgd"])
@settings(lenient, max_examples=8)
@given(seed=seeds)
def test_a_bounded_look_finds_the_first_that_can_hold_a_request(policy, seed):
    scenes = Scenes(seed, POLICIES[policy])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(look, "FIRST_BLOCK", scenes.dice.of(1, 2, 256))
        patch.setattr(look, "MORE", scenes.dice.of(0, 1, 8))
        patch.setattr(fits, "AT_ONCE", scenes.dice.of(0, 2, 256))
        for _ in range(20):
            (ask, refused), (ways, done) = scenes.ask(), scenes.ways()
            found = empty(ways[0].most + ways[1].most)
            query = scenes.state, ask.entries, scenes.tables(ask, refused)
            count, mine, seen, _best = scenes.engine.sight(ways, done, query, found)
            first, _seen = scenes.walk(ways[0], 0, ask, refused)
            rest, expected = scenes.walk(ways[1], done, ask, refused)
            assert entered(found, count) == first + rest, f"seed {seed}, {ask.request}"
            assert (mine, seen) == (len(first), expected)


@pytest.mark.timeout(240)  # compiling takes seconds, on a busy machine many
@pytest.mark.skipif(numba is None, reason="numba is not installed")
@pytest.mark.parametrize("policy", COMPILED)
@settings(lenient, max_examples=8)
@given(seed=seeds)
def test_a_bounded_look_is_the_same_compiled(policy, seed):
    scenes = Scenes(seed, POLICIES[policy], compiled=True)
    plain = Engine(scenes.scores, compiled=False)
    for _ in range(20):
        (ask, refused), (ways, done) = scenes.ask(), scenes.ways()
        found = [empty(ways[0].most + ways[1].most) for _ in range(2)]
        query = scenes.state, ask.entries, scenes.tables(ask, refused)
        engines = scenes.engine, plain
        results = [engine.sight(ways, done, query, out) for engine, out in zip(engines, found, strict=True)]
        assert results[0][:3] == results[1][:3], f"seed {seed}, {ask.request}"
        nodes = entered(found[0], results[0][0])
        assert nodes == entered(found[1], results[1][0])
        # Only compiled the look tells the best: the lowest score, the first row among equals.
        best = min(range(len(nodes)), key=lambda i: (nodes[i][1], nodes[i][0]), default=-1)
        assert results[0][3] == best
