"""The helpers of scores give the same for one value, for arrays, and compiled."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from placement.jit import numba
from placement.policies import PLACEMENTS, Offer, larger, level, smaller, where

STEPS = (-20, 0, 1, 5, 5, 90)
VALUES = (-(1 << 50), -21, -20, -19, -1, 0, 1, 2, 4, 5, 6, 89, 90, 91, 1 << 50)
REACHED = (0, 0, 1, 1, 1, 2, 3, 3, 3, 5, 5, 5, 6, 6, 6)


def level_here(value):
    return level(value, STEPS)


def where_here(value):
    return where(value > 4, value, -value)


def smaller_here(value):
    return smaller(value, 5 - value)


def larger_here(value):
    return larger(value, 5 - value)


EXPECTED = {
    level_here: REACHED,
    where_here: tuple(value if value > 4 else -value for value in VALUES),
    smaller_here: tuple(min(value, 5 - value) for value in VALUES),
    larger_here: tuple(max(value, 5 - value) for value in VALUES),
}
by_name = pytest.mark.parametrize("helper", EXPECTED, ids=lambda helper: helper.__name__)


@by_name
def test_one_value_at_a_time(helper):
    found = [helper(value) for value in VALUES]
    assert tuple(found) == EXPECTED[helper]
    assert {type(value) for value in found} == {int}


@by_name
@pytest.mark.parametrize("shape", [(15,), (3, 5), (5, 3)])
def test_arrays(helper, shape):
    found = helper(np.array(VALUES, np.int64).reshape(shape))
    assert found.shape == shape
    assert found.dtype == np.int64
    assert tuple(found.ravel().tolist()) == EXPECTED[helper]


@by_name
@pytest.mark.skipif(numba is None, reason="numba is not installed")
def test_compiled(helper):
    compiled = numba.njit(helper)
    assert tuple(compiled(value) for value in VALUES) == EXPECTED[helper]


def test_an_array_of_conditions_chooses_among_single_values():
    conditions = np.array([[True, False], [False, True]])
    assert where(conditions, 1, np.array([[10], [20]])).tolist() == [[1, 10], [20, 1]]
    assert where(np.bool_(False), 1, 2) == 2


def offer_with(draw: np.random.Generator, shape: tuple[int, ...]) -> Offer:
    """Offers with figures as they may be on a node of 8 GPUs."""
    most = {"cpu_left": 1 << 60, "ram_left": 1 << 60, "stranded": 1 << 33, "shapes": 255, "node_left": 8000}
    return Offer(*(draw.integers(0, most.get(name, 1000), shape) for name in Offer._fields))


@pytest.mark.parametrize("function", ["score", "within"])
@pytest.mark.parametrize("name", PLACEMENTS)
def test_every_score_is_the_same_for_one_and_for_many_and_stays_in_bounds(name, function):
    score = getattr(type(PLACEMENTS[name]()), function)
    many = offer_with(np.random.default_rng(1), (6, 8))
    found = np.zeros((6, 8), np.int64) + score(many)
    for i, j in np.ndindex(6, 8):
        one = score(Offer(*(int(column[i, j]) for column in many)))
        assert one == found[i, j]
        assert isinstance(one, int)
        assert abs(one) <= 1 << 50, inspect.getsource(score)
