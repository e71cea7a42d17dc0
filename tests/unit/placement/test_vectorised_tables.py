"""What whole arrays are worked out from, against the tables that it is taken from."""

from __future__ import annotations

import random

import numpy as np
import pytest

from bench.decision_stream import build_nodes, usual_requests
from placement import columns as k
from placement import mix as f
from placement import worth as w
from placement.cluster import Cluster
from placement.vectorised.terms import PULLS, TermsAt, terms_of
from placement.vectorised.worth import worths_of


@pytest.fixture
def mix():
    cluster = Cluster(usual_requests())
    cluster.set_nodes(build_nodes(16))
    return cluster.mix_tables


def test_worths_are_kept_until_a_price_changes(mix):
    before = worths_of(mix)
    assert worths_of(mix) is before
    assert before.requests == 0
    mix[int(mix[f.BIG_PRICES_AT])] = 700
    assert worths_of(mix).requests == 1
    mix[int(mix[f.KIND_PRICES_AT])] = 80
    assert worths_of(mix).kind_prices.tolist()[0] == 80


def test_requests_that_differ_in_their_kinds_alone_are_one_with_the_sum_of_their_prices(mix):
    count, at = int(mix[f.BIG_N]), int(mix[f.BIG_AT])
    mix[int(mix[f.BIG_PRICES_AT]) :][:count] = range(1, count + 1)
    usual = mix[at : at + count * w.BIG_COLUMNS].reshape(-1, w.BIG_COLUMNS).tolist()
    worths = worths_of(mix)
    assert worths.requests == len({tuple(one[:3]) for one in usual}) < count
    for kind in range(int(mix[f.KINDS])):
        expected = sum(price for price, one in enumerate(usual, 1) if one[3] >> kind & 1)
        assert worths.prices[:, kind].sum() == expected


@pytest.mark.parametrize("most", [200, 1 << 20, w.MUCH])
def test_what_is_allowed_is_rounded_down_as_integers_are(mix, most):
    mix[int(mix[f.BIG_PRICES_AT]) :][: int(mix[f.BIG_N])] = 5
    worths, draw = worths_of(mix), random.Random(most)
    rest = np.array([[[draw.randrange(most) for _ in range(500)] for _ in range(4)] for _ in range(2)])
    units, factors = worths.units.astype(np.int64), worths.factors.astype(np.int64)
    rest[0] -= rest[0] % units.max()  # multiples of a unit, and one less
    rest[1] = np.maximum(rest[0] - 1, 0)
    expected = rest.take(worths.resource, 1) * factors // units
    expected[:, worths.boundless] = w.MUCH
    assert worths.allowed(rest.astype(np.float64)).tolist() == expected.tolist()


@pytest.mark.parametrize("alike", [True, False])
@pytest.mark.parametrize("rank", [k.MPS_RANK, None])
def test_terms_are_those_of_the_rank_and_the_kind(alike, rank):
    draw, kinds = random.Random(1), 3
    terms = np.zeros((k.RANKS, kinds, k.TERM_COLUMNS), np.int64)
    served = [(k.MPS_RANK, 0), (k.MPS_RANK, 2), (k.TIMESLICE_RANK, 0)]
    row = [draw.randrange(1, 99) for _ in range(k.TERM_COLUMNS)]
    for one in served:
        terms[one] = row if alike else [draw.randrange(1, 99) for _ in range(k.TERM_COLUMNS)]
    pairs = [one for one in served if rank in (None, one[0])]
    ranks, at = (np.array(column) for column in zip(*pairs, strict=True))
    found = TermsAt(terms_of(terms), ranks if rank is None else rank, at)
    for column in range(k.TERM_COLUMNS):
        expected = [terms[pair][column] for pair in pairs]
        assert np.broadcast_to(found[column], len(pairs)).tolist() == expected
        assert found.number(column) == (row[column] if alike else None)
    pulls = np.broadcast_to(found.pulls, (len(PULLS), len(pairs)))
    assert pulls.tolist() == [[terms[pair][column] for pair in pairs] for column in PULLS]
    assert found.of.served is not None
    assert found.of.served.reshape(k.RANKS, kinds).tolist() == (terms[:, :, k.MILLI] > 0).tolist()
