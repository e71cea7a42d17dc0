"""Which MIG instances can stand together, and what a change of them would have to destroy."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from placement.model import StateError
from placement.partition.geometry import MigGeometry, MigProfile


class Instance(NamedTuple):
    """A MIG instance by its profile and its first memory slice: what a GPU can hold one of."""

    profile: str
    start: int


@dataclass(frozen=True, slots=True)
class Standing:
    """An instance that exists, and how many jobs are in it: 0 is idle.

    One that is not ``ours`` to take or to destroy was made by somebody else, or a resident cannot be moved.
    """

    instance: Instance
    residents: int = 0
    ours: bool = True


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of a GPU's instances, in the order of starts, and how many residents are moved for it.

    ``reused`` stand already and are handed over as they are; their former residents are among the moved.
    """

    destroyed: tuple[Instance, ...] = ()
    created: tuple[Instance, ...] = ()
    reused: tuple[Instance, ...] = ()
    moved: int = 0


def every_instance(geometry: MigGeometry) -> tuple[Instance, ...]:
    """Every instance that can stand alone, in the order of profiles and starts."""
    return tuple(Instance(cut.name, start) for cut in geometry.profiles for start in cut.starts)


def state_of(geometry: MigGeometry, instances: Collection[Instance]) -> int | None:
    """The occupancy of these instances together, None if the hardware does not allow them.

    Raises:
        UnknownName: a profile that this GPU does not have.
    """
    state: int | None = 0
    for profile, start in instances:
        index = geometry.profile_index(profile)
        state = None if state is None else geometry.add(state, index, start)
    return state


@functools.cache
def legal_sets(geometry: MigGeometry) -> tuple[frozenset[Instance], ...]:
    """Every set of instances that can stand together, the empty one among them; each once."""
    places = [
        (Instance(cut.name, start), index, start)
        for index, cut in enumerate(geometry.profiles)
        for start in cut.starts
    ]

    def grown(chosen: tuple[Instance, ...], state: int, first: int) -> Iterator[frozenset[Instance]]:
        yield frozenset(chosen)
        for place in range(first, len(places)):
            instance, index, start = places[place]
            after = geometry.add(state, index, start)
            if after is not None:
                yield from grown((*chosen, instance), after, place + 1)

    return tuple(grown((), 0, 0))


@functools.cache
def maximal_sets(geometry: MigGeometry) -> tuple[frozenset[Instance], ...]:
    """The legal sets to which no instance can be added: the GPU's complete partitions."""
    return tuple(found for found in legal_sets(geometry) if _is_full(geometry, found))


def _is_full(geometry: MigGeometry, instances: Collection[Instance]) -> bool:
    state = state_of(geometry, instances)
    return state is not None and not geometry.room[state].any()


def change_for(
    geometry: MigGeometry, present: Sequence[Standing], wanted: Collection[Instance]
) -> Change | None:
    """The least that must go so that the wanted instances stand empty; None if nothing makes it possible.

    What overlaps a wanted instance in memory slices, or holds the media engine that it needs, has to go.  If
    the compute slices do not suffice even then, others go too: idle ones first, then as few residents,
    instances and compute slices as will do.  A wanted instance that stands already is reused, an idle one at
    no cost, a busy one for the price of its residents: what shall stay as it is used is not to be wanted.

    Raises:
        UnknownName: a profile that this GPU does not have.
        StateError: the present instances cannot stand together, so the view of this GPU is wrong.
    """
    if state_of(geometry, [s.instance for s in present]) is None:
        raise StateError(f"instances that cannot stand together: {[tuple(s.instance) for s in present]}")
    if state_of(geometry, wanted) is None:
        return None
    reused = [s for s in present if s.instance in wanted]
    created = [want for want in wanted if all(want != s.instance for s in reused)]
    others = [s for s in present if s.instance not in wanted]
    forced = [s for s in others if any(_collide(geometry, s.instance, want) for want in wanted)]
    spared = [s for s in others if s not in forced]
    extra = _least(geometry, spared, _compute(geometry, wanted))
    if extra is None or not all(s.ours for s in (*forced, *reused)):
        return None
    gone = [*forced, *extra]
    return Change(
        destroyed=_in_order([s.instance for s in gone]),
        created=_in_order(created),
        reused=_in_order([s.instance for s in reused]),
        moved=sum(s.residents for s in (*gone, *reused)),
    )


def cheapest_change(geometry: MigGeometry, present: Sequence[Standing], profile: str) -> Change | None:
    """The cheapest way to one more empty instance of a profile, over all its starts; None if there is none.

    Fewest residents moved, then fewest busy instances and fewest instances destroyed; of equals an instance
    that stands already, then the start that leaves the most places for others, then the highest.

    Raises:
        UnknownName, StateError: as :func:`change_for`.
    """
    cut = geometry.profiles[geometry.profile_index(profile)]
    best: tuple[tuple[int, ...], Change] | None = None
    for start in cut.starts:
        change = change_for(geometry, present, [Instance(profile, start)])
        if change is not None:
            rank = (*_cost(change, present), -_places_after(geometry, present, change), -start)
            if best is None or rank < best[0]:
                best = rank, change
    return None if best is None else best[1]


def _cost(change: Change, present: Sequence[Standing]) -> tuple[int, int, int, int]:
    touched = {*change.destroyed, *change.reused}
    busy = sum(s.residents > 0 for s in present if s.instance in touched)
    return change.moved, busy, len(change.destroyed), len(change.created)


def _places_after(geometry: MigGeometry, present: Sequence[Standing], change: Change) -> int:
    kept = [s.instance for s in present if s.instance not in change.destroyed]
    state = state_of(geometry, [*kept, *change.created])
    return 0 if state is None else int(geometry.places[state])


def _least(geometry: MigGeometry, spared: Sequence[Standing], wanted_compute: int) -> list[Standing] | None:
    """Those that must go for their compute slices alone; so few stand that every choice is looked at."""
    used = _compute(geometry, [s.instance for s in spared])
    excess = used + wanted_compute - geometry.compute_slices
    if excess <= 0:
        return []
    ours = [s for s in spared if s.ours]
    choices: list[tuple[Standing, ...]] = [
        choice
        for size in range(1, len(ours) + 1)
        for choice in itertools.combinations(ours, size)
        if _compute(geometry, [s.instance for s in choice]) >= excess
    ]
    if not choices:
        return None
    return list(min(choices, key=functools.partial(_weight, geometry)))


def _weight(geometry: MigGeometry, choice: Sequence[Standing]) -> tuple[int, ...]:
    compute = _compute(geometry, [s.instance for s in choice])
    starts = sorted(s.instance.start for s in choice)
    return sum(s.residents for s in choice), len(choice), compute, *starts


def _collide(geometry: MigGeometry, one: Instance, other: Instance) -> bool:
    """Whether two instances want the same memory slice or the one media engine."""
    first, second = _cut(geometry, one), _cut(geometry, other)
    apart = one.start + first.memory_slices <= other.start or other.start + second.memory_slices <= one.start
    return not apart or (first.media and second.media)


def _cut(geometry: MigGeometry, instance: Instance) -> MigProfile:
    return geometry.profiles[geometry.profile_index(instance.profile)]


def _compute(geometry: MigGeometry, instances: Collection[Instance]) -> int:
    return sum(_cut(geometry, instance).compute_slices for instance in instances)


def _in_order(instances: Collection[Instance]) -> tuple[Instance, ...]:
    return tuple(sorted(instances, key=lambda instance: instance.start))
