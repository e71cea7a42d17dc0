"""Another MIG slice that would do for a request: one that holds several shares, or a smaller one.

A job that leaves its compute open and states how slow it may be gets the choice between the slice that it
can use and a smaller one that keeps the promise; the policy weighs them.  A smaller MPS share or time slice
is not offered: its holder is in the way of its neighbours for longer than it leaves room to others
(docs/decisions/0012).
"""

from __future__ import annotations

import enum
from collections.abc import Iterator

from placement.interference import InterferenceModel, Resident, alone_of, predictions_in_slice
from placement.model import Mode, Profile, Request
from placement.partition import Need, by_size, geometry_of, needs_in_slice, possible_modes, share_of


class Smaller(enum.Enum):
    """Which of the smaller slices that keep a promise is offered."""

    __hash__ = object.__hash__  # members are unique objects; the default hashes the name in Python

    NONE = "none"
    BEST = "best"
    """Of which a job takes least, what it loses to the smaller slice counted :data:`LOSS` times besides."""
    LEAST = "least"


LOSS = 2.5
"""As `cotenant` weighs it: see docs/decisions/0012."""

Kind = tuple[str, int | None]
"""Model and memory (bytes) of a kind of GPU."""


def other_slice(
    request: Request, profile: Profile | None, kind: Kind, belief: InterferenceModel, *, smaller: Smaller
) -> Need | None:
    """Another slice than the usual one, None if there is none: for several shares, or a ``smaller`` one."""
    if request.shares_per_gpu > 1:
        return _for_all_shares(request, profile, kind, belief)
    promised = request.max_slowdown is not None and request.compute_milli is None
    if smaller is Smaller.NONE or not promised or request.mig_profile is not None or profile is None:
        return None
    found = _smaller_slices(request, profile, kind, belief)
    if smaller is Smaller.LEAST:
        return next((need for need, _loss in found), None)
    return min(found, key=_cost, default=(None, 0))[0]


def _cost(found: tuple[Need, int]) -> float:
    need, lost = found
    return need.compute_milli * (1000 + LOSS * lost)


def slowed_together(
    belief: InterferenceModel, gpu_model: str, mig_profile: str, residents: tuple[Resident, ...]
) -> int:
    """How much equal residents of one slice are slowed beyond 1, thousandths; 0 if unknown."""
    slowdown = predictions_in_slice(belief, gpu_model, mig_profile, residents)[0].slowdown
    return 0 if slowdown is None else max(round(1000 * slowdown) - 1000, 0)


def _for_all_shares(
    request: Request, profile: Profile | None, kind: Kind, belief: InterferenceModel
) -> Need | None:
    """A share of the smallest slice that holds all shares of a worker and keeps its promise, None if none."""
    geometry = geometry_of(kind[0])
    for need in needs_in_slice(request, profile, *kind):
        if request.max_slowdown is None or geometry is None or need.mig_profile is None:
            return need
        residents = (Resident(profile, need.mode, need.compute_milli),) * request.shares_per_gpu
        cut = geometry.profiles[need.mig_profile].name
        upper = predictions_in_slice(belief, kind[0], cut, residents)[0].upper
        if upper is not None and upper <= request.max_slowdown:
            return need
    return None


def _smaller_slices(
    request: Request, profile: Profile, kind: Kind, belief: InterferenceModel
) -> Iterator[tuple[Need, int]]:
    """Smaller slices than the usual that keep the promise, the smallest first, and the loss of speed in each.

    The loss is the slowdown beyond 1, in thousandths.  Nothing if it is not known what the job uses.
    """
    geometry, share = geometry_of(kind[0]), share_of(request, profile, *kind)
    if profile.sm_milli is None or geometry is None or share is None:
        return
    usual_milli, memory_bytes = share
    for cut in by_size(geometry) if Mode.MIG in possible_modes(request) else ():
        facts = geometry.profiles[cut]
        need = Need(Mode.MIG, geometry.compute_milli(facts), facts.memory_bytes, cut)
        if need.compute_milli >= usual_milli:
            return
        slowdown = _slowdown_in(belief, profile, kind[0], need, facts.name)
        keeps = slowdown is not None and slowdown <= (request.max_slowdown or 1.0)
        if keeps and (memory_bytes is None or facts.memory_bytes >= memory_bytes):
            resident = Resident(profile, need.mode, need.compute_milli)
            yield need, alone_of(belief, kind[0], resident, facts.name)


def _slowdown_in(
    belief: InterferenceModel, profile: Profile, gpu_model: str, need: Need, cut: str
) -> float | None:
    """The slowdown in a slice as the model bounds it, or as measured if that is worse; None if unknown.

    Promises are judged by the model's bound, so a better measurement does not help.
    """
    upper = belief.predict(gpu_model, (Resident(profile, need.mode, need.compute_milli),))[0].upper
    return None if upper is None else max(upper, profile.slice_slowdown(gpu_model, cut) or 1.0)
