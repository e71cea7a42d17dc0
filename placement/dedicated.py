"""Which nodes have shared GPUs that are dedicated to one tenant: others of it may join there, nobody else."""

from __future__ import annotations

import bisect
from array import array
from collections.abc import Mapping

import numpy as np

from placement import columns as k
from placement.columns import Ints, Row


def dedicated_to(gpu: Row) -> tuple[int, bool] | None:
    """The tenant that has a shared GPU for itself, and whether of its own will; None if none has."""
    tenant = gpu[k.TENANT]
    if tenant < 0 or gpu[k.MODE] not in (k.MPS, k.TIMESLICE):
        return None
    return tenant, gpu[k.ISOLATED] == 1


class Dedicated:
    """How many shared GPUs of each node a tenant has for itself: in any way, or of its own will."""

    def __init__(self) -> None:
        self._counts: tuple[dict[int, dict[str, int]], dict[int, dict[str, int]]] = ({}, {})
        self._rows: dict[tuple[bool, int], array[int]] = {}

    def count(self, node: tuple[str, int], to: tuple[int, bool] | None, sign: int) -> None:
        """Count a GPU in or out, see :func:`dedicated_to`; ``node`` is the id and the row of its node."""
        if to is None:
            return
        (node_id, row), (tenant, by_will) = node, to
        for isolated in (False, True) if by_will else (False,):
            nodes = self._counts[isolated].setdefault(tenant, {})
            count = nodes.get(node_id, 0) + sign
            if count:
                nodes[node_id] = count
            else:
                del nodes[node_id]
            if count == max(sign, 0):  # it has become one of them, or is no longer
                self._enter((isolated, tenant), row, sign)

    def _enter(self, which: tuple[bool, int], row: int, sign: int) -> None:
        rows = self._rows.get(which)
        if rows is None:
            return
        at = bisect.bisect_left(rows, row)
        if sign > 0:
            rows.insert(at, row)
        else:
            del rows[at]

    def rows(self, tenant: int, row_of: Mapping[str, int], *, by_will: bool) -> Ints:
        """The rows of the nodes that have any, in order; ``row_of`` gives the row of each node."""
        which = by_will, tenant
        rows = self._rows.get(which)
        if rows is None:
            nodes = self._counts[by_will].get(tenant, {})
            rows = self._rows[which] = array("q", sorted(map(row_of.__getitem__, nodes)))
        return np.array(rows, np.int64)

    def renumber(self) -> None:
        """The rows of nodes are others than before."""
        self._rows.clear()
