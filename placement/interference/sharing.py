"""Who slows whom on one GPU: all who share it, but those who share a MIG slice only each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from placement.interference.base import InterferenceModel, Prediction, Resident
from placement.model import WHOLE_GPU_MILLI, Mode, Profile, Share

Lodger = tuple[Profile | None, Share]
"""Who holds a share: what is known of the job (None: nothing), and the share."""


def predictions_of(
    model: InterferenceModel, gpu_model: str, lodgers: Sequence[Lodger]
) -> tuple[Prediction, ...]:
    """What is foreseen for each of those who are on a GPU, in their order."""
    residents = tuple(Resident(profile, share.mode, share.compute_milli) for profile, share in lodgers)
    if not any(lies_in_slice(share) for _profile, share in lodgers):
        return model.predict(gpu_model, residents)
    starts = [share.mig_start if lies_in_slice(share) else None for _profile, share in lodgers]
    found: dict[int, Prediction] = {}
    for start in dict.fromkeys(starts):
        together = [i for i, other in enumerate(starts) if other == start]
        crowd = tuple(residents[i] for i in together)
        predictions = (
            model.predict(gpu_model, crowd) if start is None else predictions_inside(model, gpu_model, crowd)
        )
        found |= zip(together, predictions, strict=True)
    return tuple(found[i] for i in range(len(lodgers)))


def predictions_inside(
    model: InterferenceModel, gpu_model: str, residents: Sequence[Resident]
) -> tuple[Prediction, ...]:
    """What is foreseen for those who divide a MIG slice among them.

    To them the slice is a smaller GPU, of which each uses so much more; and it slows each who could use more
    than all of it.  Memory bandwidth is taken to be divided as the compute is.
    """
    whole_milli = sum(resident.compute_milli for resident in residents)
    inside = tuple(_as_on_a_gpu(resident, whole_milli) for resident in residents)
    return tuple(
        _slower(prediction, (resident.profile.sm_milli or 0) / whole_milli if resident.profile else 0.0)
        for resident, prediction in zip(residents, model.predict(gpu_model, inside), strict=True)
    )


def _as_on_a_gpu(resident: Resident, whole_milli: int) -> Resident:
    """The same resident if the slice were all there is."""

    def part(milli: int | None) -> int | None:
        return None if milli is None else min(milli * WHOLE_GPU_MILLI // whole_milli, WHOLE_GPU_MILLI)

    profile = resident.profile
    if profile is not None:
        profile = replace(profile, sm_milli=part(profile.sm_milli), dram_milli=part(profile.dram_milli))
    # Parts that are rounded down together are all of it: nobody is slowed by what is lost so.
    return Resident(profile, resident.mode, -(-resident.compute_milli * WHOLE_GPU_MILLI // whole_milli))


def _slower(prediction: Prediction, times: float) -> Prediction:
    if times <= 1 or prediction.slowdown is None or prediction.upper is None:
        return prediction
    return Prediction(prediction.slowdown * times, prediction.upper * times)


def lies_in_slice(share: Share) -> bool:
    """Whether others may lie in the same MIG slice: it is an MPS share of it, or a part of its time."""
    return share.mig_profile is not None and share.mode is not Mode.MIG


def measured_alone(gpu_model: str, lodger: Lodger) -> float | None:
    """The slowdown measured for a job that has such a slice to itself; None if it was not, or it has none."""
    profile, share = lodger
    if profile is None or share.mode is not Mode.MIG:
        return None
    return profile.slice_slowdown(gpu_model, share.mig_profile)
