"""Cells by example: layout, buddy allocation, late binding, guests that give way."""

from __future__ import annotations

import pytest

from placement.model import InvalidSpec, NotFound, StateError
from placement.planning.cell_layout import BuddyCells, CellLayout, CellPool, check_quotas
from placement.planning.cells import CellAsk, CellGrant, CellHold, CellPart, Cells

TWO_NODES = CellPool({"a": 8, "b": 8})
ONE_RACK = CellPool({f"n{i}": 8 for i in range(4)}, {f"n{i}": "r0" for i in range(4)})


def put(cells: Cells, holder: str, tenant: str, gpus: int, **ask: object) -> CellGrant | None:
    """Find and take, with the evictions done before."""
    grant = cells.find(CellAsk(tenant, gpus, **ask))
    if grant is not None:
        for guest in grant.evictions:
            cells.give(guest)
        cells.take(CellHold(holder, tenant, grant.parts))
    return grant


@pytest.mark.parametrize(
    ("pool", "tops", "span"),
    [
        (CellPool({"a": 8}), [8], 8),
        (CellPool({"a": 12}), [8, 4], 8),
        (CellPool({"a": 4, "b": 8}), [8, 4], 8),
        (CellPool({"a": 7}), [4, 2, 1], 4),
        (ONE_RACK, [32], 8),
        (CellPool({f"n{i}": 8 for i in range(6)}, {f"n{i}": "r" for i in range(6)}), [32, 16], 8),
        (CellPool({"a": 8, "b": 8, "c": 4}, {"a": "r", "b": "r", "c": "r"}), [16, 4], 8),
        (CellPool({"a": 12, "b": 8}, {"a": "r", "b": "r"}), [16, 4], 8),
    ],
)
def test_nodes_and_racks_are_cut_into_cells(pool, tops, span):
    layout = CellLayout(pool)
    assert [size for _start, size in layout.tops] == tops
    assert layout.span == span
    assert all(start % size == 0 for start, size in layout.tops)
    assert sorted(layout.number) == sorted((n, s) for n, count in pool.nodes.items() for s in range(count))


def test_buddies_split_the_lowest_larger_cell_and_merge_again():
    buddy = BuddyCells(CellLayout(TWO_NODES))
    taken = [(size, buddy.take(size, lambda start, size: 0)) for size in (1, 4, 1, 2, 8)]
    assert taken == [(1, 0), (4, 4), (1, 1), (2, 2), (8, 8)]
    assert buddy.take(1, lambda start, size: 0) is None
    for size, start in taken:
        buddy.release(start, size)
    assert buddy.short_of({8: 2}) == {}
    assert buddy.short_of({8: 3, 4: 1}) == {8: 1, 4: 1}


def test_the_dearer_of_two_free_cells_stays_free():
    buddy = BuddyCells(CellLayout(TWO_NODES))
    dear = {0, 1, 9}
    assert buddy.take(2, lambda start, size: len(dear & set(range(start, start + size)))) == 12


def test_this_very_cell_can_be_taken_once():
    buddy = BuddyCells(CellLayout(TWO_NODES))
    buddy.take_at(6, 2)
    assert buddy.short_of({8: 1, 4: 1, 2: 1}) == {}
    for start, size in ((4, 4), (6, 1), (0, 8), (0, 16)):
        with pytest.raises(StateError):
            buddy.take_at(start, size)


@pytest.mark.parametrize(
    ("quotas", "wrong"),
    [
        ({"t": {8: 2}}, None),
        ({"t": {8: 1}, "u": {4: 1, 2: 1, 1: 2}}, None),
        ({"t": {8: 1}, "u": {4: 1, 2: 2, 1: 1}}, "1 more of 1 GPUs"),
        ({"t": {16: 1}}, "1 more of 16 GPUs"),
        ({"t": {3: 1}}, "not 3"),
        ({"t": {2: -1}}, "write 0 or more"),
    ],
)
def test_promises_that_cannot_be_kept_are_refused(quotas, wrong):
    if wrong is None:
        check_quotas(TWO_NODES, quotas)
    else:
        with pytest.raises(InvalidSpec, match=wrong):
            check_quotas(TWO_NODES, quotas)


def test_a_cell_is_bound_by_its_first_job_and_owed_again_after_its_last():
    cells = Cells(TWO_NODES, {"t": {4: 1}, "u": {8: 1, 4: 1}})
    assert put(cells, "one", "t", 1) == CellGrant((CellPart("a", (0,), 4),))
    assert put(cells, "two", "t", 2) == CellGrant((CellPart("a", (2, 3), 4),))
    assert put(cells, "three", "t", 2) is None, "one GPU of the cell is left, and t owns no other cell"
    assert put(cells, "four", "u", 8) == CellGrant((CellPart("b", tuple(range(8)), 8),))
    cells.give("one")
    cells.give("two")
    assert put(cells, "five", "u", 4).parts[0].cell == 4
    assert cells.holds() == Cells(TWO_NODES, {"t": {4: 1}, "u": {8: 1, 4: 1}}, cells.holds()).holds()


def test_guests_use_idle_gpus_outside_cells_first_and_give_way():
    cells = Cells(TWO_NODES, {"t": {8: 1}})
    put(cells, "job", "t", 4)
    assert cells.find(CellAsk("guest", 2, guaranteed=False)).parts[0].node == "b", "four of a are in a cell"
    assert put(cells, "first", "guest", 8, guaranteed=False).parts == (CellPart("b", tuple(range(8))),)
    assert put(cells, "second", "guest", 2, guaranteed=False).parts == (CellPart("a", (4, 5)),)
    assert put(cells, "third", "guest", 3, guaranteed=False) is None, "two GPUs are idle"
    assert cells.find(CellAsk("t", 2)).evictions == (), "two GPUs of its cell have no guest"
    assert cells.find(CellAsk("t", 3)).evictions == ("second",)
    assert cells.find(CellAsk("t", 5)) is None, "not in its private cluster"


def test_a_guaranteed_job_goes_where_the_fewest_guests_are():
    cells = Cells(TWO_NODES, {"t": {4: 2}})
    put(cells, "guest", "x", 6, guaranteed=False)
    put(cells, "small", "x", 1, guaranteed=False)
    grant = cells.find(CellAsk("t", 4))
    assert grant == CellGrant((CellPart("b", (0, 1, 2, 3), 4),))


def test_a_gang_stays_in_one_group_of_nodes_and_comes_whole_or_not_at_all():
    pool = CellPool({f"n{i}": 8 for i in range(6)}, {f"n{i}": f"r{i // 2}" for i in range(6)})
    cells = Cells(pool, {"t": {16: 2}, "u": {8: 2}})
    put(cells, "single", "t", 8)
    gang = put(cells, "gang", "t", 8, workers=2)
    assert {part.node for part in gang.parts} == {"n2", "n3"}
    assert {part.cell for part in gang.parts} == {16}
    before = cells.holds()
    assert cells.find(CellAsk("t", 8, workers=2)) is None
    assert cells.holds() == before
    assert put(cells, "another", "t", 8).parts[0].node == "n1"


def test_lost_nodes_leave_cells_without_a_place():
    quotas = {"t": {8: 1}, "u": {4: 2}}
    cells, smaller = Cells(TWO_NODES, quotas), Cells(CellPool({"a": 8}), quotas)
    for each, second in ((cells, True), (smaller, False)):
        assert put(each, "one", "t", 8) is not None
        assert (put(each, "two", "u", 4) is not None) is second


def test_a_bound_cell_serves_while_a_better_one_has_no_place():
    cells = Cells(CellPool({"a": 8}), {"t": {8: 1, 4: 1}})
    cells.take(CellHold("old", "t", (CellPart("a", (0,), 8),)))
    assert put(cells, "new", "t", 4).parts == (CellPart("a", (4, 5, 6, 7), 8),)


def test_what_cannot_be_held_is_refused_and_changes_nothing():
    cells = Cells(TWO_NODES, {"t": {4: 1}})
    put(cells, "job", "t", 2)
    free = CellPart("b", (0, 1, 2, 3), 4)
    for hold, error in (
        (CellHold("job", "t", (free,)), StateError),
        (CellHold("new", "t", (CellPart("a", (1, 2), 4),)), StateError),
        (CellHold("new", "t", (CellPart("b", (0, 5), 4),)), StateError),
        (CellHold("new", "t", (free, CellPart("a", (2, 3), 2))), StateError),
        (CellHold("new", "u", (free,)), NotFound),
        (CellHold("new", "t", (CellPart("c", (0,), 4),)), NotFound),
    ):
        with pytest.raises(error):
            cells.take(hold)
    with pytest.raises(NotFound):
        cells.give("new")
    assert [hold.holder for hold in cells.holds()] == ["job"]
    assert put(cells, "guest", "g", 8, guaranteed=False).parts[0].node == "b"
