"""What a change of geometry destroys.

Instances are written ``PROFILE@START``; ``=N`` says how many jobs are in it, ``!`` that it is not ours.
"""

from __future__ import annotations

import itertools
import random

import pytest

from placement.model import StateError, UnknownName
from placement.partition import (
    Change,
    Instance,
    MigGeometry,
    MigProfile,
    Standing,
    change_for,
    cheapest_change,
    geometry_of,
    legal_sets,
    state_of,
)


def geometry(model: str) -> MigGeometry:
    found = geometry_of(model)
    assert found is not None
    return found


A100, A30 = geometry("A100-SXM4-40GB"), geometry("A30-24GB")

# On no real GPU do the compute slices run out before the memory slices: two where they do, for the rule.
CUTS = (
    MigProfile("1c.1m", 1, 1, 1 << 30, tuple(range(8)), media=False),
    MigProfile("2c.2m", 2, 2, 2 << 30, (0, 2, 4, 6), media=False),
    MigProfile("3c.4m", 3, 4, 4 << 30, (0, 4), media=False),
)
SHORT, FOUR = MigGeometry(3, 8, CUTS), MigGeometry(4, 8, CUTS)


def instance(text: str) -> Instance:
    profile, start = text.split("@")
    return Instance(profile, int(start))


def standing(text: str) -> list[Standing]:
    found = []
    for word in text.split():
        place, _, residents = word.rstrip("!").partition("=")
        found.append(Standing(instance(place), int(residents or 0), ours=not word.endswith("!")))
    return found


def told(change: Change | None) -> str | None:
    """``-destroyed +created *reused /moved``, None where there is no change that helps."""
    if change is None:
        return None
    parts = [f"-{p}@{s}" for p, s in change.destroyed] + [f"+{p}@{s}" for p, s in change.created]
    return " ".join([*parts, *(f"*{p}@{s}" for p, s in change.reused), f"/{change.moved}"])


AT_A_START = [
    # GPU, standing, wanted, what happens
    (A100, "", "1g.5gb@3", "+1g.5gb@3 /0"),
    (A100, "", "7g.40gb@0", "+7g.40gb@0 /0"),
    (A100, "1g.5gb@2=1", "1g.5gb@3", "+1g.5gb@3 /0"),
    # what overlaps goes, used or not, and nothing else does
    (A100, "1g.5gb@0 1g.5gb@1=1 1g.5gb@4=1", "2g.10gb@0", "-1g.5gb@0 -1g.5gb@1 +2g.10gb@0 /1"),
    (A100, "3g.20gb@4=1 1g.5gb@0", "4g.20gb@0", "-1g.5gb@0 +4g.20gb@0 /0"),
    (A100, "7g.40gb@0=1", "1g.5gb@6", "-7g.40gb@0 +1g.5gb@6 /1"),
    (A100, "1g.10gb@6=2", "3g.20gb@4", "-1g.10gb@6 +3g.20gb@4 /2"),
    (A100, "2g.10gb@0=1 2g.10gb@2 2g.10gb@4=1 1g.5gb@6", "7g.40gb@0",
     "-2g.10gb@0 -2g.10gb@2 -2g.10gb@4 -1g.5gb@6 +7g.40gb@0 /2"),
    # another profile of the same slices has to be made anew
    (A100, "2g.10gb@0", "1g.10gb@0", "-2g.10gb@0 +1g.10gb@0 /0"),
    (A100, "1g.5gb@0", "1g.5gb+me@0", "-1g.5gb@0 +1g.5gb+me@0 /0"),
    # there is one media engine
    (A100, "1g.5gb+me@6=1", "1g.5gb+me@0", "-1g.5gb+me@6 +1g.5gb+me@0 /1"),
    (A30, "2g.12gb+me@0=1", "1g.6gb+me@3", "-2g.12gb+me@0 +1g.6gb+me@3 /1"),
    (A30, "2g.12gb+me@0=1", "1g.6gb@3", "+1g.6gb@3 /0"),
    # what stands already is taken over
    (A100, "1g.5gb@0 1g.5gb@1=1", "1g.5gb@0", "*1g.5gb@0 /0"),
    (A100, "1g.5gb@0 1g.5gb@1=1", "1g.5gb@1", "*1g.5gb@1 /1"),
    # several at once
    (A100, "1g.5gb@0=1 1g.5gb@6", "3g.20gb@0 3g.20gb@4",
     "-1g.5gb@0 -1g.5gb@6 +3g.20gb@0 +3g.20gb@4 /1"),
    (A100, "3g.20gb@4=1 1g.5gb@1", "2g.10gb@0 2g.10gb@2", "-1g.5gb@1 +2g.10gb@0 +2g.10gb@2 /0"),
    (A100, "3g.20gb@4=1 2g.10gb@0 1g.5gb@2", "2g.10gb@0 2g.10gb@2", "-1g.5gb@2 +2g.10gb@2 *2g.10gb@0 /0"),
    (A100, "", "", "/0"),
    # no change makes it possible
    (A100, "", "1g.5gb@7", None),
    (A100, "", "3g.20gb@0 2g.10gb@2", None),
    (A100, "", "1g.5gb+me@0 1g.5gb+me@1", None),
    (A100, "1g.5gb@0!", "2g.10gb@0", None),
    (A100, "1g.5gb@0=1!", "1g.5gb@0", None),
    (A100, "1g.5gb@0!", "1g.5gb@0", None),
    (A100, "1g.5gb+me@5!", "1g.5gb+me@0", None),
    (A100, "1g.5gb@4=1!", "2g.10gb@0", "+2g.10gb@0 /0"),
    # too few compute slices: idle before busy, few residents, few instances, little compute
    (SHORT, "1c.1m@0 1c.1m@1 1c.1m@2", "1c.1m@7", "-1c.1m@0 +1c.1m@7 /0"),
    (SHORT, "1c.1m@0=1 1c.1m@1=1 1c.1m@2", "1c.1m@7", "-1c.1m@2 +1c.1m@7 /0"),
    (SHORT, "1c.1m@0=2 1c.1m@1=1 1c.1m@2=3", "1c.1m@7", "-1c.1m@1 +1c.1m@7 /1"),
    (SHORT, "2c.2m@0 1c.1m@2", "1c.1m@7", "-1c.1m@2 +1c.1m@7 /0"),
    (SHORT, "2c.2m@0=1 1c.1m@2=1", "2c.2m@6", "-2c.2m@0 +2c.2m@6 /1"),
    (SHORT, "2c.2m@0=2 1c.1m@2=1", "1c.1m@7", "-1c.1m@2 +1c.1m@7 /1"),
    (SHORT, "1c.1m@0=1 1c.1m@1=1 1c.1m@7", "2c.2m@6", "-1c.1m@0 -1c.1m@7 +2c.2m@6 /1"),
    (SHORT, "2c.2m@0 1c.1m@2=1", "3c.4m@4", "-2c.2m@0 -1c.1m@2 +3c.4m@4 /1"),
    (SHORT, "1c.1m@0! 1c.1m@1=1 1c.1m@2=1", "1c.1m@7", "-1c.1m@1 +1c.1m@7 /1"),
    (SHORT, "1c.1m@0! 2c.2m@2=1!", "1c.1m@7", None),
    (SHORT, "", "3c.4m@0 1c.1m@7", None),
    (FOUR, "", "3c.4m@0 1c.1m@7", "+3c.4m@0 +1c.1m@7 /0"),
    (FOUR, "1c.1m@0 1c.1m@1 2c.2m@2", "2c.2m@6", "-2c.2m@2 +2c.2m@6 /0"),
    (FOUR, "1c.1m@0=1 1c.1m@1=1 2c.2m@2=2", "2c.2m@6", "-2c.2m@2 +2c.2m@6 /2"),
    (FOUR, "1c.1m@0=1 1c.1m@1=1 2c.2m@2=3", "2c.2m@6", "-1c.1m@0 -1c.1m@1 +2c.2m@6 /2"),
    (FOUR, "1c.1m@0=2 1c.1m@1 2c.2m@2=2", "2c.2m@6", "-2c.2m@2 +2c.2m@6 /2"),
]  # fmt: skip

ANYWHERE = [
    # GPU, standing, wanted profile, what happens
    (A100, "", "7g.40gb", "+7g.40gb@0 /0"),
    (A100, "", "1g.5gb", "+1g.5gb@6 /0"),
    (A100, "", "3g.20gb", "+3g.20gb@4 /0"),
    # an idle instance of that profile is taken as it stands, before a new one is made
    (A100, "1g.5gb@0", "1g.5gb", "*1g.5gb@0 /0"),
    (A100, "1g.5gb@0=1 1g.5gb@2", "1g.5gb", "*1g.5gb@2 /0"),
    # nothing is destroyed where there is room
    (A100, "1g.5gb@4=1 1g.5gb@6", "2g.10gb", "+2g.10gb@2 /0"),
    # idle before busy
    (A100, "3g.20gb@0=1 2g.10gb@4=1 1g.5gb@6", "1g.10gb", "-1g.5gb@6 +1g.10gb@6 /0"),
    (A100, "2g.10gb@0 2g.10gb@2=1 3g.20gb@4=1", "1g.5gb", "-2g.10gb@0 +1g.5gb@1 /0"),
    (A100, "3g.20gb@0 3g.20gb@4=1", "1g.5gb", "-3g.20gb@0 +1g.5gb@3 /0"),
    # few busy
    (A100, "1g.5gb@0=1 1g.5gb@1=1 1g.5gb@2=1 1g.5gb@3 2g.10gb@4=2 1g.5gb@6=1", "2g.10gb",
     "-1g.5gb@2 -1g.5gb@3 +2g.10gb@2 /1"),
    (A100, "3g.20gb@0=3 3g.20gb@4=2", "2g.10gb", "-3g.20gb@4 +2g.10gb@4 /2"),
    (A100, "1g.5gb@0=1 1g.5gb@1=1 3g.20gb@4=1", "3g.20gb", "*3g.20gb@4 /1"),
    # of equals, a busy instance of that profile changes hands
    (A100, "1g.5gb@2=1 1g.5gb@3 2g.10gb@0=2 2g.10gb@4=1 1g.5gb@6=1", "2g.10gb", "*2g.10gb@4 /1"),
    # of equals, the one that leaves the most places for others
    (A100, "3g.20gb@0=1 1g.5gb+me@5=1", "2g.10gb", "-3g.20gb@0 +2g.10gb@2 /1"),
    # not ours
    (A100, "3g.20gb@0=1! 3g.20gb@4=5", "2g.10gb", "-3g.20gb@4 +2g.10gb@4 /5"),
    (A100, "3g.20gb@0=1! 3g.20gb@4=5", "7g.40gb", None),
    (A100, "7g.40gb@0!", "1g.5gb", None),
    # a GPU with four slices
    (A30, "1g.6gb@0=1 1g.6gb@1 1g.6gb@2 1g.6gb@3", "2g.12gb", "-1g.6gb@2 -1g.6gb@3 +2g.12gb@2 /0"),
    (A30, "1g.6gb@0=1 1g.6gb@1 1g.6gb@2=1 1g.6gb@3=1", "2g.12gb", "-1g.6gb@0 -1g.6gb@1 +2g.12gb@0 /1"),
    (A30, "2g.12gb+me@0=1 2g.12gb@2=1", "2g.12gb+me", "*2g.12gb+me@0 /1"),
]  # fmt: skip


@pytest.mark.parametrize(("gpu", "present", "wanted", "expected"), AT_A_START)
def test_what_instances_at_given_starts_would_destroy(gpu, present, wanted, expected):
    assert told(change_for(gpu, standing(present), [instance(w) for w in wanted.split()])) == expected


@pytest.mark.parametrize(("gpu", "present", "profile", "expected"), ANYWHERE)
def test_the_cheapest_way_to_an_instance_of_a_profile(gpu, present, profile, expected):
    assert told(cheapest_change(gpu, standing(present), profile)) == expected


def cheapest_by_trying(present: list[Standing], profile: str) -> tuple[int, int, int, int] | None:
    """Residents moved, busy and all instances destroyed, instances made: over all that could be kept."""
    legal, cut = set(legal_sets(A100)), A100.profiles[A100.profile_index(profile)]
    costs = []
    for kept in itertools.product([True, False], repeat=len(present)):
        stay = frozenset(s.instance for s, keep in zip(present, kept, strict=True) if keep)
        gone = [s for s, keep in zip(present, kept, strict=True) if not keep]
        busy = sum(s.residents > 0 for s in gone)
        moved = sum(s.residents for s in gone)
        costs += [
            (moved, busy, len(gone), 1)
            for start in cut.starts
            if Instance(profile, start) not in stay and stay | {Instance(profile, start)} in legal
        ]
    costs += [(s.residents, int(s.residents > 0), 0, 0) for s in present if s.instance.profile == profile]
    return min(costs, default=None)


def test_no_cheaper_way_is_found_by_trying_all():
    chance = random.Random(7)
    sets = legal_sets(A100)
    for _ in range(300):
        present = [Standing(i, chance.choice([0, 0, 1, 2])) for i in sorted(chance.choice(sets))]
        profile = chance.choice(A100.profiles).name
        change = cheapest_change(A100, present, profile)
        assert change is not None
        touched = [s for s in present if s.instance in {*change.destroyed, *change.reused}]
        cost = (
            change.moved,
            sum(s.residents > 0 for s in touched),
            len(change.destroyed),
            len(change.created),
        )
        assert cost == cheapest_by_trying(present, profile), (present, profile)
        after = {s.instance for s in present} - {*change.destroyed} | {*change.created}
        assert frozenset(after) in set(sets)
        assert change.moved == sum(s.residents for s in touched)


def test_the_compute_slices_limit_what_stands_even_where_memory_is_left():
    assert state_of(SHORT, [instance("3c.4m@0"), instance("1c.1m@7")]) is None
    assert state_of(FOUR, [instance("3c.4m@0"), instance("1c.1m@7")]) == 0b10001111 | 4 << 8
    for gpu in (SHORT, FOUR):
        sets = {tuple(sorted(int(i.profile[0]) for i in found)) for found in legal_sets(gpu)}
        assert max(map(sum, sets)) == gpu.compute_slices
        assert len(sets) == {3: 7, 4: 11}[gpu.compute_slices]


def test_where_there_is_room_the_start_is_the_one_that_keeps_the_most_places():
    for present in legal_sets(A100):
        state = state_of(A100, present)
        assert state is not None
        for index, cut in enumerate(A100.profiles):
            start = int(A100.start[state, index])
            if start >= 0:
                change = cheapest_change(A100, [Standing(i, residents=1) for i in present], cut.name)
                assert change == Change(created=(Instance(cut.name, start),)), (present, cut.name)


def test_a_view_of_a_gpu_that_cannot_be_right_is_refused():
    with pytest.raises(StateError, match="cannot stand together"):
        change_for(A100, standing("3g.20gb@0 1g.5gb@3"), [instance("1g.5gb@6")])


def test_a_profile_that_the_gpu_does_not_have_is_refused():
    with pytest.raises(UnknownName, match=r"'1g\.6gb' is unknown here"):
        cheapest_change(A100, [], "1g.6gb")
    with pytest.raises(UnknownName, match=r"'1g\.6gb' is unknown here"):
        change_for(A100, [], [instance("1g.6gb@0")])
