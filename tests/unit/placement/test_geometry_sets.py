"""Every legal set of MIG instances of every GPU model, against a brute force over start slices.

The brute force below shares nothing with the code under test: it reads the tables as JSON and tries, for each
memory slice, nothing or each profile that may start there.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import placement.partition
from placement.model import KNOWN_GPU_MEMORY_BYTES
from placement.partition import (
    Instance,
    MigGeometry,
    every_instance,
    geometry_of,
    legal_sets,
    maximal_sets,
    state_of,
)

# What the collected listings call a GPU, our models of it, how many legal and how many complete sets it has.
LISTED = {
    "A30-24GB": (("A30-24GB",), 76, 17),
    "A100-40GB": (("A100-SXM4-40GB", "A100-PCIE-40GB"), 2319, 239),
    "A100-80GB": (("A100-SXM4-80GB", "A100-PCIE-80GB"), 2319, 239),
    "H100-80GB": (("H100-SXM5-80GB", "H100-PCIE-80GB"), 2319, 239),
    "H100-NVL-94GB": (("H100-NVL-94GB",), 2319, 239),
    "GH200-96GB": (("GH200-96GB",), 2319, 239),
    "H200-141GB": (("H200-SXM5-141GB",), 2319, 239),
    "B200-180GB": (("B200-180GB",), 2319, 239),
}
MODELS = [(listed, model) for listed, (models, _, _) in LISTED.items() for model in models]

# Of the two listings of this GPU the smaller memory is ours; where none gives it, a lower bound.
OUR_GIB = {
    ("B200-180GB", "1g.23gb"): 20.5,
    ("B200-180GB", "1g.23gb+me"): 20.5,
    ("B200-180GB", "3g.90gb"): 88.5,
    ("B200-180GB", "4g.90gb"): 88.5,
    ("B200-180GB", "7g.180gb"): 177.0,
}


class Row(NamedTuple):
    name: str
    compute: int
    memory: int
    starts: tuple[int, ...]
    media: bool


class Facts(NamedTuple):
    compute: int
    memory: int
    rows: tuple[Row, ...]


def shared_data(*parts: str) -> Any:
    root = os.environ.get("COTENANT_DATA", Path(__file__).parents[3] / "../shared/data")
    path = Path(root).joinpath(*parts)
    if not path.exists():
        pytest.skip("no shared data: set COTENANT_DATA")
    return json.loads(path.read_text("utf-8"))


def shipped_entry(model: str) -> dict[str, Any]:
    path = Path(placement.partition.__file__).with_name("mig_tables.json")
    entries = json.loads(path.read_text("utf-8"))["geometries"]
    (entry,) = [entry for entry in entries if model in entry["models"]]
    return entry


def facts_as_shipped(model: str) -> Facts:
    entry = shipped_entry(model)
    rows = [
        Row(p["name"], p["compute_slices"], p["memory_slices"], tuple(p["starts"]), p["media"])
        for p in entry["profiles"]
    ]
    return Facts(entry["compute_slices"], entry["memory_slices"], tuple(rows))


def facts_as_listed(listed: str) -> Facts:
    gpu = shared_data("mig_profiles.json")["gpus"][listed]
    rows = [
        Row(
            p["profile"],
            p["compute_slices"],
            p["placement_size"],
            tuple(p["placement_starts"]),
            p["media_extensions"],
        )
        for p in gpu["profiles"]
    ]
    return Facts(gpu["total_compute_slices"], gpu["total_memory_slices"], tuple(rows))


def may_stand(facts: Facts, chosen: list[tuple[Row, int]]) -> bool:
    slices = [cell for row, start in chosen for cell in range(start, start + row.memory)]
    return (
        len(slices) == len(set(slices))
        and all(0 <= cell < facts.memory for cell in slices)
        and sum(row.compute for row, _ in chosen) <= facts.compute
        and sum(row.media for row, _ in chosen) <= 1
    )


@functools.cache
def brute_force(facts: Facts) -> frozenset[frozenset[tuple[str, int]]]:
    choices = [
        [None, *((row, start) for row in facts.rows if start in row.starts)] for start in range(facts.memory)
    ]
    found = set()
    for picks in itertools.product(*choices):
        chosen = [pick for pick in picks if pick is not None]
        if may_stand(facts, chosen):
            found.add(frozenset((row.name, start) for row, start in chosen))
    return frozenset(found)


def complete(
    facts: Facts, legal: frozenset[frozenset[tuple[str, int]]]
) -> frozenset[frozenset[tuple[str, int]]]:
    """Legal sets of which no superset is legal."""
    places = [(row.name, start) for row in facts.rows for start in row.starts]
    return frozenset(s for s in legal if not any(p not in s and s | {p} in legal for p in places))


def geometry(model: str) -> MigGeometry:
    found = geometry_of(model)
    assert found is not None
    return found


@pytest.mark.parametrize(("listed", "model"), MODELS)
def test_the_legal_sets_are_those_of_a_brute_force_over_the_shipped_table(listed, model):
    legal, full = legal_sets(geometry(model)), maximal_sets(geometry(model))
    expected = brute_force(facts_as_shipped(model))
    assert set(legal) == expected
    assert set(full) == complete(facts_as_shipped(model), expected)
    assert (len(legal), len(full)) == LISTED[listed][1:]
    assert (len(set(legal)), len(set(full))) == LISTED[listed][1:]


@pytest.mark.parametrize(("listed", "model"), MODELS)
def test_the_legal_sets_are_those_of_a_brute_force_over_the_collected_listings(listed, model):
    expected = brute_force(facts_as_listed(listed))
    assert set(legal_sets(geometry(model))) == expected
    assert set(maximal_sets(geometry(model))) == complete(facts_as_listed(listed), expected)


def test_every_listed_gpu_has_a_table_and_every_table_a_known_model():
    assert set(shared_data("mig_profiles.json")["gpus"]) == set(LISTED)
    assert {model for _, model in MODELS} <= set(KNOWN_GPU_MEMORY_BYTES)
    assert {model for model in KNOWN_GPU_MEMORY_BYTES if geometry_of(model)} == {model for _, model in MODELS}


@pytest.mark.parametrize(("listed", "model"), MODELS)
def test_the_shipped_table_is_the_collected_listing(listed, model):
    assert facts_as_shipped(model) == facts_as_listed(listed)
    told = geometry(model)
    assert (told.compute_slices, told.memory_slices) == facts_as_listed(listed)[:2]
    entries = shared_data("mig_profiles.json")["gpus"][listed]["profiles"]
    assert {entry["placement_status"] for entry in entries} == {shipped_entry(model)["starts_status"]}
    for cut, entry in zip(told.profiles, entries, strict=True):
        assert (cut.name, cut.starts) == (entry["profile"], tuple(entry["placement_starts"]))
        gib = OUR_GIB.get((listed, cut.name), entry["memory_gib_reported"])
        assert cut.memory_bytes / 2**30 == pytest.approx(gib, abs=0.01)
        assert gib <= (entry["memory_gib_reported"] or entry["memory_gb_nominal"])


@pytest.mark.parametrize(("listed", "model"), MODELS)
def test_so_many_instances_of_one_profile_as_listed(listed, model):
    told = geometry(model)
    for entry in shared_data("mig_profiles.json")["gpus"][listed]["profiles"]:
        name = entry["profile"]
        assert told.room[0, told.profile_index(name)] == entry["max_instances"], name
        alone = [len(s) for s in legal_sets(told) if {i.profile for i in s} <= {name}]
        assert max(alone) == entry["max_instances"], name


@pytest.mark.parametrize("model", ["A30-24GB", "A100-SXM4-40GB", "B200-180GB"])
def test_the_room_tables_agree_with_the_brute_force(model):
    told, facts = geometry(model), facts_as_shipped(model)
    legal = brute_force(facts)

    def fits(standing, row):
        more = {start: standing | {(row.name, start)} for start in row.starts}
        return [start for start, larger in more.items() if larger != standing and larger in legal]

    @functools.cache
    def room(standing, row):
        return max((1 + room(standing | {(row.name, s)}, row) for s in fits(standing, row)), default=0)

    for standing in legal:
        state = state_of(told, [Instance(*i) for i in standing])
        assert state is not None
        for index, row in enumerate(facts.rows):
            assert told.room[state, index] == room(standing, row), (sorted(standing), row.name)
            assert int(told.start[state, index]) in (fits(standing, row) or [-1])
        assert told.places[state] == sum(len(fits(standing, row)) for row in facts.rows)


def test_a_slice_of_a_gpu_never_has_more_memory_than_the_gpu():
    for _, model in MODELS:
        for cut in geometry(model).profiles:
            assert 0 < cut.memory_bytes < KNOWN_GPU_MEMORY_BYTES[model]


def test_the_partitions_of_the_miso_data_are_the_complete_sets_of_plain_profiles():
    """MISO lists compute slices; all its partitions are ours, and ours are its and 4g + 3g."""
    plain = {"1g.5gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"}
    ours = {
        tuple(sorted(int(instance.profile[0]) for instance in standing))
        for standing in maximal_sets(geometry("A100-SXM4-40GB"))
        if {instance.profile for instance in standing} <= plain
    }
    listed = shared_data("miso", "partition_code.json")
    assert len(listed) == 18
    partitions = {tuple(sorted(slices)) for slices in listed.values()}
    assert partitions <= ours
    assert ours - partitions == {(3, 4)}


def test_every_instance_once_in_the_order_of_profiles_and_starts():
    assert every_instance(geometry("A30-24GB")) == (
        *(("1g.6gb", start) for start in range(4)),
        *(("1g.6gb+me", start) for start in range(4)),
        ("2g.12gb", 0),
        ("2g.12gb", 2),
        ("2g.12gb+me", 0),
        ("2g.12gb+me", 2),
        ("4g.24gb", 0),
    )


@pytest.mark.parametrize(
    ("instances", "state"),
    [
        ([], 0),
        ([("1g.6gb", 0)], 1 | 1 << 8),
        ([("2g.12gb+me", 2)], 0b1100 | 2 << 8 | 1 << 11),
        ([("2g.12gb+me", 2), ("1g.6gb", 1)], 0b1110 | 3 << 8 | 1 << 11),
        ([("2g.12gb+me", 2), ("1g.6gb+me", 1)], None),
        ([("2g.12gb", 2), ("1g.6gb", 3)], None),
        ([("2g.12gb", 1)], None),
    ],
)
def test_the_occupancy_of_instances_together(instances, state):
    assert state_of(geometry("A30-24GB"), [Instance(*i) for i in instances]) == state
    assert state_of(geometry("A30-24GB"), [Instance(*i) for i in reversed(instances)]) == state
