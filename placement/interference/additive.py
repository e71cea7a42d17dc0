"""Pressure adds up: each neighbour slows a job by what both use of the same channel."""

from __future__ import annotations

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
        shared = [resident.mode is not Mode.MIG for resident in residents]
        return tuple(
            self._one(
                resident, [other for j, other in enumerate(residents) if j != i and shared[j] and shared[i]]
            )
            for i, resident in enumerate(residents)
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

    def _one(self, me: Resident, others: list[Resident]) -> Prediction:
        if me.profile is None or me.profile.sm_milli is None:
            return UNKNOWN
        sm, dram = me.profile.sm_milli / 1000, (me.profile.dram_milli or 0) / 1000
        slowdown = 1.0
        for other in others:
            if other.profile is None or other.profile.sm_milli is None:
                return UNKNOWN
            other_sm, other_dram = other.profile.sm_milli / 1000, (other.profile.dram_milli or 0) / 1000
            if Mode.TIMESLICE in (me.mode, other.mode):
                slowdown += self._k.timeslice_turn * other_sm
            else:
                slowdown += self._k.mps_sm * sm * min(other_sm, other.compute_milli / 1000)
                slowdown += self._k.shared_dram * dram * other_dram
        if me.mode in (Mode.MIG, Mode.MPS):
            slowdown *= max(1.0, sm * WHOLE_GPU_MILLI / me.compute_milli)
        return Prediction(slowdown, 1 + (slowdown - 1) * (1 + self._k.margin))
