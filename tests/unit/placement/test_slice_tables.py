"""The tables of slices as arrays and as nested lists."""

from __future__ import annotations

import pytest

from placement.ask import plain_slice_tables, slice_tables
from placement.partition import geometry_of

A100, A30, V100 = (geometry_of(model) for model in ("A100-SXM4-80GB", "A30-24GB", "V100-SXM2-32GB"))


@pytest.mark.parametrize(
    "geometries",
    [(), (V100,), (A100,), (V100, A30), (A100, A30, A100, V100, V100), (V100, A30, A100, A30)],
)
def test_the_lists_are_the_arrays(geometries):
    assert plain_slice_tables(geometries) == tuple(table.tolist() for table in slice_tables(geometries))


def test_kinds_that_are_cut_alike_share_their_lists():
    """There may be many: each memory size of a model is a kind of its own."""
    for table in plain_slice_tables((A100, V100, A100)):
        assert table[0] is table[2] is not table[1]
