"""Placement at random: the same in every replay, another with every seed, and no place is left out."""

from __future__ import annotations

import pytest

from tests.cases.desk import Desk, node

V100 = "V100-SXM2-32GB"
TWO_NODES = (node("a", f"2x{V100}"), node("b", f"2x{V100}"))


@pytest.mark.parametrize("policy", ["random", "srtf+random"])
def test_random_places_are_the_same_in_every_replay_and_differ_by_seed(policy):
    def places(seed: int) -> list[str]:
        desk = Desk(policy, (*TWO_NODES, node("c", f"4x{V100}")), seed=seed)
        return [order for i in range(8) for order in desk.submit(f"j{i}")]

    runs = [places(seed) for seed in range(6)]
    assert runs == [places(seed) for seed in range(6)]
    assert len({tuple(run) for run in runs}) == 6
    assert all(len({order.split()[-1] for order in run}) == 8 for run in runs)


def test_random_reaches_every_place():
    seen = {Desk("random", TWO_NODES, seed=seed).submit("j")[0].split()[-1] for seed in range(60)}
    assert seen == {"a-0", "a-1", "b-0", "b-1"}
