"""What neighbours do to each other by the additive model, from its formula and not from the core's code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bench.slices import COMPUTE_SLICES, MEMORY_SLICES, SLICES_80GB
from placement.model import Job, Mode, Profile, Share

TURN, SM, DRAM = 1.12, 0.46, 0.35
"""The additive model of interference: per neighbour in turns, in SMs, in DRAM."""
MARGIN = 0.10
"""Of its bound, of what is foreseen beyond 1."""
WHOLE_MILLI = 1000


@dataclass(frozen=True, slots=True)
class Held:
    """One worker's share of a GPU."""

    job: Job
    profile: Profile | None
    worker: int
    share: Share

    def __str__(self) -> str:
        return f"{self.job.job_id}/{self.worker}"


def slowdown(me: Held, others: Sequence[Held]) -> float | None:
    """Expected slowdown of a resident against running alone on the whole GPU, None if it is unknown.

    The additive model: time-sliced neighbours cost their own busy time, MPS neighbours what both use of the
    SMs and of DRAM bandwidth, slices nothing; a share smaller than the job's own use slows it by the ratio.
    Those who divide a slice are as on a GPU of that size, which slows who could use more than it is.
    """
    if _divides_slice(me):
        alike, beyond = _as_on_a_gpu(me, others)
        return None if alike is None else alike * beyond
    share, profile = me.share, me.profile
    if share.mode is Mode.EXCLUSIVE or (not others and share.compute_milli >= WHOLE_MILLI):
        return 1.0
    if profile is None or profile.sm_milli is None:
        return None
    busy, bandwidth = profile.sm_milli / 1000, (profile.dram_milli or 0) / 1000
    total = 1.0
    for other in others if share.mode is not Mode.MIG else ():
        if other.share.mode is Mode.MIG:
            continue
        if other.profile is None or other.profile.sm_milli is None:
            return None
        other_busy = other.profile.sm_milli / 1000
        if Mode.TIMESLICE in (share.mode, other.share.mode):
            total += TURN * other_busy
        else:
            total += SM * busy * min(other_busy, other.share.compute_milli / 1000)
            total += DRAM * bandwidth * (other.profile.dram_milli or 0) / 1000
    if share.mode in (Mode.MIG, Mode.MPS):
        total *= max(1.0, profile.sm_milli / share.compute_milli)
    return total


def bound(me: Held, others: Sequence[Held]) -> float | None:
    """What the slowdown is said to be at most: a tenth more than expected beyond 1, of each of its causes."""
    expected, beyond = _as_on_a_gpu(me, others) if _divides_slice(me) else (slowdown(me, others), 1.0)
    return None if expected is None else _at_most(expected) * _at_most(beyond)


def _at_most(expected: float) -> float:
    return 1 + (expected - 1) * (1 + MARGIN)


def _divides_slice(me: Held) -> bool:
    return me.share.mig_profile is not None and me.share.mode is not Mode.MIG


def _as_on_a_gpu(me: Held, others: Sequence[Held]) -> tuple[float | None, float]:
    """The slowdown as if the slice were a GPU, and how much less than the job could use the slice is."""
    whole_milli = SLICES_80GB[me.share.mig_profile or ""].compute * WHOLE_MILLI // COMPUTE_SLICES
    used_milli = 0 if me.profile is None else me.profile.sm_milli or 0
    return slowdown(_outside(me), [_outside(other) for other in others]), max(1.0, used_milli / whole_milli)


def _outside(held: Held) -> Held:
    """The same resident if its slice were all of the GPU."""
    cut, known = SLICES_80GB[held.share.mig_profile or ""], held.profile
    milli = held.share.compute_milli * COMPUTE_SLICES // cut.compute
    share = replace(held.share, mig_profile=None, compute_milli=milli)
    if known is not None:
        sm, dram = known.sm_milli, known.dram_milli
        known = replace(
            known,
            sm_milli=None if sm is None else min(-(-sm * COMPUTE_SLICES // cut.compute), WHOLE_MILLI),
            dram_milli=None if dram is None else min(-(-dram * MEMORY_SLICES // cut.memory), WHOLE_MILLI),
        )
    return replace(held, share=share, profile=known)
