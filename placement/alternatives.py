"""Other shares that would do for a request: smaller ones as far as a promise goes, several in one MIG slice.

A job that leaves its compute open and states how slow it may be gets the choice between the share that it can
use and one that keeps the promise; the policy weighs them.
"""

from __future__ import annotations

from placement.interference import InterferenceModel, Resident
from placement.model import Mode, Profile, Request
from placement.partition import (
    AUTO_STEP_MILLI,
    Need,
    by_size,
    geometry_of,
    need_in_slice,
    possible_modes,
    share_of,
)

Kind = tuple[str, int | None]
"""Model and memory (bytes) of a kind of GPU."""


def together_in_slice(
    request: Request, profile: Profile | None, kind: Kind, belief: InterferenceModel
) -> Need | None:
    """A share of one slice that holds all shares of a worker and keeps its promise, None if there is none."""
    need = need_in_slice(request, profile, *kind)
    if need is None or request.max_slowdown is None:
        return need
    resident = Resident(profile, need.mode, need.compute_milli)
    upper = belief.predict(kind[0], (resident,) * request.shares_per_gpu)[0].upper
    return need if upper is not None and upper <= request.max_slowdown else None


def slowed_together(belief: InterferenceModel, gpu_model: str, resident: Resident, copies: int) -> int:
    """How much so many equal residents of one slice are slowed beyond 1, thousandths; 0 if unknown."""
    slowdown = belief.predict(gpu_model, (resident,) * copies)[0].slowdown
    return 0 if slowdown is None else max(round(1000 * slowdown) - 1000, 0)


def short_of_turns(profile: Profile | None, milli: int) -> int:
    """How much such a part of the turns slows a job beyond 1 where others take all theirs, thousandths."""
    sm_milli = None if profile is None else profile.sm_milli
    return 0 if sm_milli is None else max(1000 * sm_milli // milli - 1000, 0)


def smaller(request: Request, profile: Profile | None, kind: Kind, belief: InterferenceModel) -> list[Need]:
    """In each mode that is shared, a share below what the job can use that keeps its promise.

    None without a promise, where the request states its compute, or where the job's use is unknown.
    """
    sm_milli = None if profile is None else profile.sm_milli
    if profile is None or sm_milli is None or request.max_slowdown is None:
        return []
    if request.compute_milli is not None or request.mig_profile is not None or request.shares_per_gpu > 1:
        return []
    share = share_of(request, profile, *kind)
    modes = possible_modes(request) if share is not None else frozenset()
    usual_milli, memory_bytes = share or (0, None)
    found: list[Need] = []
    for mode, allowed in ((Mode.MPS, (1 + request.max_slowdown) / 2), (Mode.TIMESLICE, request.max_slowdown)):
        # Clients slow each other all the time: half of what the promise allows is left for that.  Who takes
        # turns is slowed by the turns of others, and never by more than its own part of them says.
        milli = _rounded_up(sm_milli / allowed)
        if mode in modes and milli < usual_milli:
            found.append(Need(mode, milli, memory_bytes))
    found = [need for need in found if _keeps(belief, profile, (kind[0], None), need, request.max_slowdown)]
    sliced = _smaller_slice(request, profile, kind, belief) if Mode.MIG in modes else None
    return found if sliced is None else [*found, sliced]


def _rounded_up(milli: float) -> int:
    return max(-int(-milli // AUTO_STEP_MILLI) * AUTO_STEP_MILLI, AUTO_STEP_MILLI)


def _smaller_slice(request: Request, profile: Profile, kind: Kind, belief: InterferenceModel) -> Need | None:
    """The smallest slice that keeps the promise, None if that is the usual one or there is none."""
    geometry, share = geometry_of(kind[0]), share_of(request, profile, *kind)
    if geometry is None or share is None:
        return None
    usual_milli, memory_bytes = share
    for cut in by_size(geometry):
        facts = geometry.profiles[cut]
        need = Need(Mode.MIG, geometry.compute_milli(facts), facts.memory_bytes, cut)
        if need.compute_milli >= usual_milli:
            return None
        holds = memory_bytes is None or facts.memory_bytes >= memory_bytes
        if holds and _keeps(belief, profile, (kind[0], facts.name), need, request.max_slowdown or 1.0):
            return need
    return None


def _keeps(
    belief: InterferenceModel,
    profile: Profile,
    place: tuple[str, str | None],
    need: Need,
    max_slowdown: float,
) -> bool:
    """Whether a job alone in a share is as fast as promised; ``place`` is the GPU's model and the slice.

    What was measured in the slice is believed before the model.
    """
    model, cut = place
    measured = None if cut is None else profile.slice_slowdown(model, cut)
    if measured is not None:
        return measured <= max_slowdown
    upper = belief.predict(model, (Resident(profile, need.mode, need.compute_milli),))[0].upper
    return upper is not None and upper <= max_slowdown
