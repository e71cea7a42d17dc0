"""Which partition of a MIG GPU serves a set of jobs best, and which of its slices is whose."""

from __future__ import annotations

import enum
import functools
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from placement.model import InvalidAmount, StateError
from placement.partition import Instance, MigGeometry, state_of

Counts = tuple[int, ...]
"""How many instances of each profile, by the profile's position in the geometry."""


class Goal(enum.Enum):
    """What the best partition has most of.

    SPEED: the sum of the jobs' speeds (MISO, SoCC'22).
    LATENCY: the least mean of step time over step time on the whole GPU (the authors' published code).
    """

    SPEED = "speed"
    LATENCY = "latency"


@dataclass(frozen=True, slots=True)
class MigPlan:
    """An instance for each job, in the order of jobs; ``score`` is what the goal counts, more is better."""

    instances: tuple[Instance, ...]
    score: float


def speeds_by_profile(
    geometry: MigGeometry, by_compute: Mapping[int, float | None], memory_bytes: int | None = None
) -> dict[str, float]:
    """Speeds by profile name from speeds by compute slices; too small a memory or None leaves a profile out.

    Profiles with a media engine are left out, too: they cost what others may need and speed up no step.
    """
    return {
        cut.name: speed
        for cut in geometry.profiles
        if not cut.media
        and (memory_bytes is None or cut.memory_bytes >= memory_bytes)
        and (speed := by_compute.get(cut.compute_slices)) is not None
    }


def best_partition(
    geometry: MigGeometry,
    jobs: Sequence[Mapping[str, float]],
    goal: Goal = Goal.SPEED,
    staying: Collection[Instance] = (),
    present: Sequence[Instance | None] = (),
) -> MigPlan | None:
    """The best legal partition with one slice for each job, None if none has a slice that each job fits into.

    ``jobs`` maps profile names to the speed relative to the whole GPU; a profile that is not named does not
    fit.  ``staying`` are instances of others that must not be touched.  ``present`` says which instance each
    job has now: of equal layouts the one that leaves most jobs where they are is taken.  Exact: assignments
    are not enumerated, but built job by job over the counts of profiles used, of which there are some dozens.

    Raises:
        InvalidAmount: a speed of 0 or less.
        StateError: the staying instances cannot stand together.
    """
    state = state_of(geometry, staying)
    if state is None:
        raise StateError(f"instances that cannot stand together: {[tuple(s) for s in staying]}")
    layouts = _layouts(geometry, state)
    reached: dict[Counts, tuple[float, int, Counts]] = {(0,) * len(geometry.profiles): (0.0, 0, ())}
    for job in jobs:
        worth = _worth(geometry, job, goal)
        ahead: dict[Counts, tuple[float, int, Counts]] = {}
        for counts, (score, spent, chosen) in reached.items():
            for profile, value, memory in worth:
                after = (*counts[:profile], counts[profile] + 1, *counts[profile + 1 :])
                if after not in layouts:
                    continue
                way = (score + value, spent - memory, (*chosen, profile))
                if after not in ahead or way[:2] > ahead[after][:2]:
                    ahead[after] = way
        reached = ahead
    if not reached:
        return None
    counts = max(reached, key=lambda found: reached[found][:2])
    score, _spent, chosen = reached[counts]
    return MigPlan(_seated(geometry, layouts[counts], chosen, present), score)


def _worth(geometry: MigGeometry, job: Mapping[str, float], goal: Goal) -> list[tuple[int, float, int]]:
    """(profile, value, memory slices) of all profiles that the job fits into."""
    if any(speed <= 0 for speed in job.values()):
        raise InvalidAmount(f"speeds {dict(job)}: leave out what does not fit, all others are above 0")
    return [
        (i, job[cut.name] if goal is Goal.SPEED else -1.0 / job[cut.name], cut.memory_slices)
        for i, cut in enumerate(geometry.profiles)
        if cut.name in job
    ]


@functools.lru_cache(maxsize=256)
def _layouts(geometry: MigGeometry, state: int) -> dict[Counts, list[tuple[tuple[int, int], ...]]]:
    """Every way to stand beside an occupancy, (profile, start) each, by the counts of profiles."""
    places = [
        (index, start) for index, cut in enumerate(geometry.profiles) if not cut.media for start in cut.starts
    ]
    found: dict[Counts, list[tuple[tuple[int, int], ...]]] = defaultdict(list)
    stack: list[tuple[tuple[tuple[int, int], ...], int, int]] = [((), state, 0)]
    while stack:
        chosen, occupied, first = stack.pop()
        used = [index for index, _start in chosen]
        found[tuple(used.count(i) for i in range(len(geometry.profiles)))].append(chosen)
        for place in range(first, len(places)):
            after = geometry.add(occupied, *places[place])
            if after is not None:
                stack.append(((*chosen, places[place]), after, place + 1))
    return dict(found)


def _seated(
    geometry: MigGeometry,
    layouts: Sequence[tuple[tuple[int, int], ...]],
    chosen: Counts,
    present: Sequence[Instance | None],
) -> tuple[Instance, ...]:
    """Starts for the chosen profiles: jobs stay where they are as far as one layout allows."""
    names = [geometry.profiles[profile].name for profile in chosen]
    now = [*present, *[None] * (len(chosen) - len(present))]
    stays = {job: seat for job, seat in enumerate(now) if seat is not None and seat.profile == names[job]}
    layout = min(
        (
            sorted(Instance(geometry.profiles[profile].name, start) for profile, start in places)
            for places in layouts
        ),
        key=lambda places: (-len({*places} & {*stays.values()}), places),
    )
    free = list(layout)
    seats: dict[int, Instance] = {}
    for job in sorted(range(len(names)), key=lambda job: (stays.get(job) not in layout, job)):
        kept = stays.get(job)
        seats[job] = kept if kept in free else next(place for place in free if place.profile == names[job])
        free.remove(seats[job])
    return tuple(seats[job] for job in range(len(names)))
