"""A mix of usual requests compiled for the kernels: all tables in one flat array."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from placement import mix as m
from placement.columns import Ints
from placement.fragments import fragment_tables
from placement.mix import Kinds, Mix
from placement.partition import MigGeometry
from placement.worth_tables import worth_tables


def compile_mix(mix: Mix, kinds: Kinds, geometries: Sequence[MigGeometry | None]) -> Ints:
    """The tables of a mix on these GPU kinds, int64; without usual requests nothing is worth anything."""
    tables = fragment_tables(mix, kinds, geometries) | worth_tables(mix, kinds, geometries)
    header = np.zeros(m.HEADER, np.int64)
    at = m.HEADER
    for place, table in tables.items():
        header[place] = at
        at += table.size
    for place, count in m.COUNTED.items():
        header[count] = len(tables[place]) if place == m.BIG_AT else tables[place].shape[1]
    header[m.KINDS] = len(kinds)
    return np.concatenate([header, *(table.ravel() for table in tables.values())])
