"""MIG geometry against NVIDIA's figures and against an independent search over all layouts."""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path

import pytest

from placement.model import UnknownName
from placement.partition import MigGeometry, geometry_of, mig_profile_names

A100, H100 = "A100-SXM4-80GB", "H100-SXM5-80GB"

# From NVIDIA's MIG user guide: compute slices (of 7), memory slices (of 8), most instances, starts, media.
GUIDE = {
    "1g.10gb": (1, 1, 7, (0, 1, 2, 3, 4, 5, 6), False),
    "1g.10gb+me": (1, 1, 1, (0, 1, 2, 3, 4, 5, 6), True),
    "1g.20gb": (1, 2, 4, (0, 2, 4, 6), False),
    "2g.20gb": (2, 2, 3, (0, 2, 4), False),
    "3g.40gb": (3, 4, 2, (0, 4), False),
    "4g.40gb": (4, 4, 1, (0,), False),
    "7g.80gb": (7, 8, 1, (0,), False),
}
CAN_STAND = [
    "7g.80gb@0",
    "4g.40gb@0 3g.40gb@4",
    "4g.40gb@0 2g.20gb@4 1g.10gb@6",
    "4g.40gb@0 1g.20gb@4 1g.20gb@6",
    "4g.40gb@0 1g.10gb@4 1g.10gb@5 1g.10gb@6",
    "3g.40gb@0 3g.40gb@4",
    "3g.40gb@4 2g.20gb@0 2g.20gb@2",
    "3g.40gb@4 2g.20gb@0 1g.10gb@2 1g.10gb@3",
    "3g.40gb@0 2g.20gb@4 1g.20gb@6",
    "3g.40gb@4 1g.10gb@0 1g.10gb@1 1g.10gb@2 1g.10gb@3",
    "2g.20gb@0 2g.20gb@2 2g.20gb@4 1g.10gb@6",
    "2g.20gb@0 2g.20gb@2 2g.20gb@4 1g.20gb@6",
    "1g.20gb@0 1g.20gb@2 1g.20gb@4 1g.20gb@6",
    "1g.10gb@0 1g.10gb@1 1g.10gb@2 1g.10gb@3 1g.10gb@4 1g.10gb@5 1g.10gb@6",
    "1g.10gb+me@0 1g.10gb@1 1g.10gb@2 1g.10gb@3 1g.10gb@4 1g.10gb@5 1g.10gb@6",
    "4g.40gb@0 1g.10gb+me@6 2g.20gb@4",
]
CANNOT_STAND = [
    "7g.80gb@0 1g.10gb@6",
    "7g.80gb@4",
    "4g.40gb@4",
    "4g.40gb@0 4g.40gb@4",
    "4g.40gb@0 3g.40gb@0",
    "4g.40gb@0 1g.10gb@3",
    "4g.40gb@0 2g.20gb@4 2g.20gb@6",
    "3g.40gb@2",
    "3g.40gb@0 3g.40gb@4 1g.10gb@6",
    "3g.40gb@4 1g.10gb@4",
    "2g.20gb@1",
    "2g.20gb@6",
    "1g.20gb@1",
    "1g.10gb@7",
    "1g.10gb@0 1g.10gb@0",
    "1g.10gb+me@0 1g.10gb+me@1",
]

Taken = tuple[frozenset[int], int, bool]
"""Memory slices taken, compute slices used, media engine used: what an independent search looks at."""
NOTHING: Taken = (frozenset(), 0, False)


def with_one_more(taken: Taken, name: str, start: int) -> Taken | None:
    compute, memory, _most, starts, media = GUIDE[name]
    wanted = frozenset(range(start, start + memory))
    if start not in starts or wanted & taken[0] or taken[1] + compute > 7 or (media and taken[2]):
        return None
    return taken[0] | wanted, taken[1] + compute, taken[2] or media


@functools.cache
def choices(taken: Taken, name: str) -> dict[int, Taken]:
    found = {start: with_one_more(taken, name, start) for start in GUIDE[name][3]}
    return {start: after for start, after in found.items() if after is not None}


@functools.cache
def room(taken: Taken, name: str) -> int:
    return max((1 + room(after, name) for after in choices(taken, name).values()), default=0)


@functools.cache
def reachable() -> frozenset[Taken]:
    """All occupancies that any layout can have."""
    seen, open_ = {NOTHING}, [NOTHING]
    while open_:
        taken = open_.pop()
        after = {a for name in GUIDE for a in choices(taken, name).values()} - seen
        seen |= after
        open_ += after
    return frozenset(seen)


def state_of(taken: Taken) -> int:
    return sum(1 << slot for slot in taken[0]) | taken[1] << 8 | taken[2] << 11


def geometry(model: str = A100) -> MigGeometry:
    found = geometry_of(model)
    assert found is not None
    return found


def lay_out(layout: str) -> int | None:
    """The occupancy of ``PROFILE@START ...``, None if one of them does not fit beside those before it."""
    table, state = geometry(), 0
    for piece in layout.split():
        name, start = piece.split("@")
        after = table.add(state, table.profile_index(name), int(start))
        if after is None:
            return None
        state = after
    return state


@pytest.mark.parametrize(
    ("model", "has_mig"),
    [
        (A100, True),
        ("A100-PCIE-80GB", True),
        (H100, True),
        ("H100-PCIE-80GB", True),
        ("V100-SXM2-32GB", False),
        ("T4-16GB", False),
        ("A100", False),
        ("", False),
    ],
)
def test_which_models_can_be_cut(model, has_mig):
    assert (geometry_of(model) is not None) is has_mig


@pytest.mark.parametrize("model", [A100, H100])
def test_the_profiles_are_those_of_the_guide(model):
    table = geometry(model)
    assert (table.compute_slices, table.memory_slices) == (7, 8)
    told = {p.name: (p.compute_slices, p.memory_slices, p.starts, p.media) for p in table.profiles}
    assert told == {name: (c, m, starts, me) for name, (c, m, _n, starts, me) in GUIDE.items()}


def test_the_profiles_are_those_of_the_collected_listings():
    root = Path(__file__).parents[3]
    path = Path(os.environ.get("COTENANT_DATA", root / "../shared/data")) / "mig_profiles.json"
    if not path.exists():
        pytest.skip("no shared data: set COTENANT_DATA")
    listings = json.loads(path.read_text("utf-8"))["gpus"]
    for model, listed in ((A100, "A100-80GB"), (H100, "H100-80GB")):
        told = {p.name: (p.compute_slices, p.memory_slices, p.starts) for p in geometry(model).profiles}
        entries = listings[listed]["profiles"]
        assert told == {
            e["profile"]: (e["compute_slices"], e["memory_slices"], tuple(e["placement_starts"]))
            for e in entries
        }
        for profile, entry in zip(geometry(model).profiles, entries, strict=True):
            assert profile.memory_bytes / 2**30 == pytest.approx(entry["memory_gib_reported"], abs=0.01)


@pytest.mark.parametrize(("name", "most"), [(name, facts[2]) for name, facts in GUIDE.items()])
@pytest.mark.parametrize("model", [A100, H100])
def test_so_many_of_one_profile_alone_fit(model, name, most):
    table = geometry(model)
    profile, state, placed = table.profile_index(name), 0, 0
    assert table.room[0, profile] == most
    while (start := int(table.start[state, profile])) >= 0:
        after = table.add(state, profile, start)
        assert after is not None
        state, placed = after, placed + 1
    assert placed == most


@pytest.mark.parametrize("layout", CAN_STAND)
def test_a_documented_layout_can_stand_in_any_order(layout):
    pieces = layout.split()
    states = {lay_out(layout), lay_out(" ".join(reversed(pieces))), lay_out(" ".join(sorted(pieces)))}
    assert len(states) == 1
    assert None not in states


@pytest.mark.parametrize("layout", CANNOT_STAND)
def test_a_layout_that_hardware_refuses_is_refused(layout):
    assert lay_out(layout) is None
    assert lay_out(" ".join(reversed(layout.split()))) is None


def test_every_reachable_occupancy_agrees_with_an_independent_search():
    table, wrong = geometry(), []
    for taken in reachable():
        state = state_of(taken)
        for name in GUIDE:
            profile = table.profile_index(name)
            starts = choices(taken, name)
            adds = {start: table.add(state, profile, start) for start in range(9)}
            fit = {start: after for start, after in adds.items() if after is not None}
            if fit != {start: state_of(after) for start, after in starts.items()}:
                wrong.append((taken, name, fit))
            best = int(table.start[state, profile])
            if best not in (starts or {-1: None}) or table.room[state, profile] != room(taken, name):
                wrong.append((taken, name, best, int(table.room[state, profile])))
    assert wrong == []
    assert len(reachable()) > 300


def options(taken: Taken) -> int:
    return sum(len(choices(taken, name)) for name in GUIDE)


def test_the_best_start_leaves_the_most_placements():
    table = geometry()
    for taken in reachable():
        for name in GUIDE:
            starts = choices(taken, name)
            if starts:
                best = int(table.start[state_of(taken), table.profile_index(name)])
                assert options(starts[best]) == max(map(options, starts.values())), (taken, name)


@pytest.mark.parametrize(
    ("first", "starts", "large"),
    [
        ("1g.10gb", [6, 5, 4], "4g.40gb"),
        ("1g.10gb", [6, 5, 4], "3g.40gb"),
        ("1g.10gb+me", [6], "4g.40gb"),
        ("1g.20gb", [6, 4], "4g.40gb"),
        ("2g.20gb", [4], "4g.40gb"),
        ("3g.40gb", [4], "4g.40gb"),
        ("3g.40gb", [4], "3g.40gb"),
        ("4g.40gb", [0], "3g.40gb"),
    ],
)
def test_small_slices_go_where_a_large_one_stays_possible(first, starts, large):
    table = geometry()
    profile, state, seen = table.profile_index(first), 0, []
    for _ in starts:
        seen.append(int(table.start[state, profile]))
        after = table.add(state, profile, seen[-1])
        assert after is not None
        state = after
    assert seen == starts
    assert table.room[state, table.profile_index(large)] == 1


def test_compute_left_is_rounded_down_and_never_negative():
    table = geometry()
    assert [int(table.free_milli[used << 8]) for used in range(8)] == [1000, 857, 714, 571, 428, 285, 142, 0]


@pytest.mark.parametrize(
    ("name", "milli"),
    [
        ("1g.10gb", 142),
        ("1g.20gb", 142),
        ("2g.20gb", 285),
        ("3g.40gb", 428),
        ("4g.40gb", 571),
        ("7g.80gb", 1000),
    ],
)
def test_compute_of_a_slice_in_thousandths(name, milli):
    table = geometry()
    assert table.compute_milli(table.profiles[table.profile_index(name)]) == milli


def test_an_unknown_profile_is_answered_with_the_known_ones():
    with pytest.raises(UnknownName, match=r"'5g.60gb' is unknown here; choose one of 1g.10gb, .*7g.80gb"):
        geometry().profile_index("5g.60gb")


def test_all_profile_names_once_and_in_order():
    names = mig_profile_names()
    assert names == tuple(sorted(set(names)))
    assert {*GUIDE, "1g.6gb+me", "2g.12gb+me", "7g.40gb", "4g.47gb", "3g.48gb", "1g.18gb", "7g.180gb"} <= set(
        names
    )
