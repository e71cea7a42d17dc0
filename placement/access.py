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


def fetch_ahead(rows: Any, i: int) -> None:
    """Have what is read soon brought into the cache: a whole row; there is nothing to do for lists."""


if numba is not None:
    from llvmlite import ir
    from numba.core import cgutils as _cgutils
    from numba.core import types
    from numba.extending import intrinsic, overload
    from numba.np.unsafe import ndarray as _unsafe

    to_fixed_tuple: Any = _unsafe.to_fixed_tuple
    cgutils: Any = _cgutils

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

    _LINE_BYTES = 64

    def _prefetch_line(typing, address):  # type: ignore[no-untyped-def]
        """Begin to read a line of memory without waiting for it."""

        def emit(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
            name = "llvm.prefetch.p0i8"
            function = cgutils.get_or_insert_function(builder.module, kind, name)
            to_read_often_data = [ir.Constant(number, value) for value in (0, 3, 1)]
            builder.call(function, [builder.inttoptr(arguments[0], byte), *to_read_often_data])
            return context.get_dummy_value()

        return types.void(types.intp), emit

    _prefetch: Any = intrinsic(_prefetch_line)

    def _fetch_ahead(rows, i):  # type: ignore[no-untyped-def]
        size = rows.strides[0]
        begin = rows.ctypes.data + i * size
        for at in range(0, size, _LINE_BYTES):
            _prefetch(begin + at)

    overload(fetch_ahead)(lambda rows, i: _fetch_ahead)
    overload(gpu_of)(lambda gpus, slot: _gpu_of)
    overload(node_of)(lambda nodes, row: _node_of)
    overload(entries_of)(lambda ask: _entries_of)
    overload(term_of)(lambda terms, rank, kind: _term_of)
    overload(cell)(lambda cube, i, j, n: _cell)
    overload(is_refused)(lambda refused, rank, number: _is_refused)
