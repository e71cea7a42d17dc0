"""Pressure adds up: each neighbour slows a job by what both use of the same channel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from placement.interference.base import UNKNOWN, Coupling, Prediction, Resident
from placement.model import WHOLE_GPU_MILLI, Mode


@dataclass(frozen=True, slots=True)
class AdditiveCoefficients:
    """How strongly a channel couples two residents; dimensionless, and the relative margin of the bound."""

    timeslice_turn: float = 1.12
    mps_sm: float = 0.46
    shared_dram: float = 0.35
    margin: float = 0.10


class AdditiveInterference:
    """Slowdown of resident i = 1 + sum over neighbours j and channels c of k_c * use_ic * use_jc.

    Time-sliced neighbours take turns, so each costs ``timeslice_turn`` of its own busy time whatever i uses.
    MPS neighbours compete for SMs and DRAM bandwidth.  MIG slices are apart; a slice or an MPS share smaller
    than the job's own SM use slows it by the ratio.  The defaults follow the one public table of the same
    workload under all mechanisms (nos, YOLOS-small on A100-80GB, 1/3/5/7 pods): time slicing about 1.11 n,
    MPS 1.86 / 2.74 / 3.64.  A resident without a profile makes everyone on the GPU unknown.
    """

    name = "additive"

    def __init__(self, coefficients: AdditiveCoefficients | None = None) -> None:
        self._k = coefficients or AdditiveCoefficients()

    def predict(self, gpu_model: str, residents: tuple[Resident, ...]) -> tuple[Prediction, ...]:
        """One prediction per resident; alone on a whole GPU is exactly 1.0 with or without a profile."""
        if len(residents) == 1 and residents[0].compute_milli >= WHOLE_GPU_MILLI:
            return (Prediction(1.0, 1.0),)
        uses = [_use_of(resident) for resident in residents]
        shared = [use for use, resident in zip(uses, residents, strict=True) if resident.mode is not Mode.MIG]
        return tuple(
            UNKNOWN if use is None else self._one(use, () if use.mode is Mode.MIG else shared) for use in uses
        )

    def coupling(self, gpu_model: str, resident: Resident) -> Coupling | None:
        """The same sum without the factor for small shares, in thousandths; slices are apart."""
        profile = resident.profile
        if profile is None or profile.sm_milli is None or resident.mode in (Mode.MIG, Mode.EXCLUSIVE):
            return None
        if resident.mode is Mode.TIMESLICE:
            return Coupling((profile.sm_milli, 0), (round(1000 * self._k.timeslice_turn), 0))
        dram = profile.dram_milli or 0
        return Coupling(
            (min(profile.sm_milli, resident.compute_milli), dram),
            (round(self._k.mps_sm * profile.sm_milli), round(self._k.shared_dram * dram)),
        )

    def alone_milli(self, gpu_model: str, resident: Resident) -> int | None:
        """The factor for small shares; taking turns costs nobody anything without neighbours."""
        profile = resident.profile
        if profile is None or profile.sm_milli is None:
            return None
        if resident.mode not in (Mode.MIG, Mode.MPS):
            return 1000
        return max(profile.sm_milli * WHOLE_GPU_MILLI // resident.compute_milli, 1000)

    def _one(self, me: _Use, shared: Sequence[_Use | None]) -> Prediction:
        """The slowdown of one among all who share with it, itself included."""
        slowdown = 1.0
        for other in shared:
            if other is me:
                continue
            if other is None:
                return UNKNOWN
            if other.mode is Mode.TIMESLICE or me.mode is Mode.TIMESLICE:
                slowdown += self._k.timeslice_turn * other.sm
            else:
                slowdown += self._k.mps_sm * me.sm * other.sm_in_share
                slowdown += self._k.shared_dram * me.dram * other.dram
        if me.mode is Mode.MPS or me.mode is Mode.MIG:
            slowdown *= max(1.0, me.sm * WHOLE_GPU_MILLI / me.compute_milli)
        return Prediction(slowdown, 1 + (slowdown - 1) * (1 + self._k.margin))


class _Use:
    """What a resident uses of the GPU, of 1; ``sm_in_share`` at most as much as its share is."""

    __slots__ = ("compute_milli", "dram", "mode", "sm", "sm_in_share")

    def __init__(self, resident: Resident, sm_milli: int, dram_milli: int) -> None:
        self.mode, self.compute_milli = resident.mode, resident.compute_milli
        self.sm, self.dram = sm_milli / 1000, dram_milli / 1000
        self.sm_in_share = min(self.sm, resident.compute_milli / 1000)


def _use_of(resident: Resident) -> _Use | None:
    """What a resident uses, None if that is unknown."""
    profile = resident.profile
    if profile is None or profile.sm_milli is None:
        return None
    return _Use(resident, profile.sm_milli, profile.dram_milli or 0)
