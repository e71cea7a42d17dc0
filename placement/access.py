"""Rows of arrays as tuples of numbers: in compiled code a view of an array costs more than what is read.

Plain Python takes what is there already: nested lists.  Compiled code reads each column once and keeps no
view.
"""

from __future__ import annotations

from typing import Any

from placement import columns as k
from placement.columns import Cube, Row, Table
from placement.jit import numba


def gpu_of(gpus: Table, slot: int) -> Row:
    """One GPU of a node."""
    return gpus[slot]


def node_of(nodes: Table, row: int) -> Row:
    """One node."""
    return nodes[row]


def entries_of(ask: Row) -> Row:
    """A compiled request."""
    return ask


def term_of(terms: Cube, rank: int, kind: int) -> Row:
    """The terms of a compiled request for a mode on a kind of GPU."""
    return terms[rank][kind]


def cell(cube: Cube, i: int, j: int, n: int) -> int:
    """One number of three dimensions."""
    return cube[i][j][n]


def is_refused(refused: Table, rank: int, number: int) -> bool:
    """Whether a neighbourhood is known to be refused in a mode."""
    return number < len(refused[rank]) and refused[rank][number] != 0


if numba is not None:
    from numba.extending import overload
    from numba.np.unsafe import ndarray as _unsafe

    to_fixed_tuple: Any = _unsafe.to_fixed_tuple

    _GPU, _NODE, _TERM, _ASK = k.GPU_COLUMNS, k.NODE_COLUMNS, k.TERM_COLUMNS, k.ASK_ENTRIES

    def _gpu_of(gpus, slot):  # type: ignore[no-untyped-def]
        return to_fixed_tuple(gpus[slot], _GPU)

    def _node_of(nodes, row):  # type: ignore[no-untyped-def]
        return to_fixed_tuple(nodes[row], _NODE)

    def _entries_of(ask):  # type: ignore[no-untyped-def]
        return to_fixed_tuple(ask, _ASK)

    def _term_of(terms, rank, kind):  # type: ignore[no-untyped-def]
        return to_fixed_tuple(terms[rank, kind], _TERM)

    def _cell(cube, i, j, n):  # type: ignore[no-untyped-def]
        return cube[i, j, n]

    def _is_refused(refused, rank, number):  # type: ignore[no-untyped-def]
        return number < refused.shape[1] and refused[rank, number] != 0

    overload(gpu_of)(lambda gpus, slot: _gpu_of)
    overload(node_of)(lambda nodes, row: _node_of)
    overload(entries_of)(lambda ask: _entries_of)
    overload(term_of)(lambda terms, rank, kind: _term_of)
    overload(cell)(lambda cube, i, j, n: _cell)
    overload(is_refused)(lambda refused, rank, number: _is_refused)
