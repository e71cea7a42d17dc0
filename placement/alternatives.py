"""Another MIG slice that would do for a request: one that holds several shares, or a smaller one.

A job that leaves its compute open and states how slow it may be gets the choice between the slice that it can
use and the smallest that keeps the promise; the policy weighs them.  A smaller MPS share or time slice is not
offered: its holder is in the way of its neighbours for longer than it leaves room to others
(docs/decisions/0012).
"""

from __future__ import annotations

from placement.interference import InterferenceModel, Resident, predictions_in_slice
from placement.model import Mode, Profile, Request
from placement.partition import Need, by_size, geometry_of, needs_in_slice, possible_modes, share_of

Kind = tuple[str, int | None]
"""Model and memory (bytes) of a kind of GPU."""


def other_slice(
    request: Request, profile: Profile | None, kind: Kind, belief: InterferenceModel, *, smaller: bool
) -> Need | None:
    """Another slice than the usual one, None if there is none: for several shares, or a ``smaller`` one."""
    if request.shares_per_gpu > 1:
        return _for_all_shares(request, profile, kind, belief)
    promised = request.max_slowdown is not None and request.compute_milli is None
    if not smaller or not promised or request.mig_profile is not None:
        return None
    return _smaller_slice(request, profile, kind, belief)


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


def _smaller_slice(
    request: Request, profile: Profile | None, kind: Kind, belief: InterferenceModel
) -> Need | None:
    """The smallest slice that keeps the promise, None if that is the usual one or nothing is known."""
    geometry, share = geometry_of(kind[0]), share_of(request, profile, *kind)
    if profile is None or profile.sm_milli is None or geometry is None or share is None:
        return None
    usual_milli, memory_bytes = share
    for cut in by_size(geometry) if Mode.MIG in possible_modes(request) else ():
        facts = geometry.profiles[cut]
        need = Need(Mode.MIG, geometry.compute_milli(facts), facts.memory_bytes, cut)
        if need.compute_milli >= usual_milli:
            return None
        slowdown = _slowdown_in(belief, profile, kind[0], need, facts.name)
        keeps = slowdown is not None and slowdown <= (request.max_slowdown or 1.0)
        if keeps and (memory_bytes is None or facts.memory_bytes >= memory_bytes):
            return need
    return None


def _slowdown_in(
    belief: InterferenceModel, profile: Profile, gpu_model: str, need: Need, cut: str
) -> float | None:
    """The slowdown in a slice as the model bounds it, or as measured if that is worse; None if unknown.

    Promises are judged by the model's bound, so a better measurement does not help.
    """
    upper = belief.predict(gpu_model, (Resident(profile, need.mode, need.compute_milli),))[0].upper
    return None if upper is None else max(upper, profile.slice_slowdown(gpu_model, cut) or 1.0)
