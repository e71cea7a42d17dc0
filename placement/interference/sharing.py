"""Who slows whom on one GPU: all who share it, but those who share a MIG slice only each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from placement.interference.base import UNKNOWN, InterferenceModel, Prediction, Resident
from placement.model import WHOLE_GPU_MILLI, Mode, Profile, Share
from placement.partition.geometry import MigGeometry, MigProfile, geometry_of

Lodger = tuple[Profile | None, Share]
"""Who holds a share: what is known of the job (None: nothing), and the share."""


def predictions_of(
    model: InterferenceModel, gpu_model: str, lodgers: Sequence[Lodger]
) -> tuple[Prediction, ...]:
    """What is foreseen for each of those who are on a GPU, in their order."""
    residents = tuple(Resident(profile, share.mode, share.compute_milli) for profile, share in lodgers)
    if not any(lies_in_slice(share) for _profile, share in lodgers):
        return model.predict(gpu_model, residents)
    apart = [_slice_of(share) if lies_in_slice(share) else None for _profile, share in lodgers]
    found: dict[int, Prediction] = {}
    for place in dict.fromkeys(apart):
        together = [i for i, other in enumerate(apart) if other == place]
        those = tuple(residents[i] for i in together)
        predictions = (
            model.predict(gpu_model, those)
            if place is None
            else predictions_in_slice(model, gpu_model, place[0], those)
        )
        found |= zip(together, predictions, strict=True)
    return tuple(found[i] for i in range(len(lodgers)))


def predictions_in_slice(
    model: InterferenceModel, gpu_model: str, mig_profile: str, residents: tuple[Resident, ...]
) -> tuple[Prediction, ...]:
    """What is foreseen for those who share a MIG slice, in their order.

    A slice is a smaller GPU: each uses more of what it has than of the whole, and is slowed by the others as
    on a GPU that it uses so much of, and besides as if it had the slice to itself.
    """
    geometry = geometry_of(gpu_model)
    profiles = () if geometry is None else geometry.profiles
    cut = next((profile for profile in profiles if profile.name == mig_profile), None)
    if geometry is None or cut is None:  # such as where a GPU has come back as another model
        return (UNKNOWN,) * len(residents)
    scaled = tuple(_within(geometry, cut, resident) for resident in residents)
    slice_milli = geometry.compute_milli(cut)
    alone = (
        _alone(model, gpu_model, Resident(each.profile, Mode.MIG, slice_milli), mig_profile)
        for each in residents
    )
    return tuple(map(_both, model.predict(gpu_model, scaled), alone))


def _within(geometry: MigGeometry, cut: MigProfile, resident: Resident) -> Resident:
    """A resident of a slice as if the slice were a whole GPU."""
    compute, memory = (
        (geometry.compute_slices, cut.compute_slices),
        (geometry.memory_slices, cut.memory_slices),
    )
    profile = resident.profile
    if profile is not None:
        profile = replace(
            profile,
            sm_milli=_part(profile.sm_milli, compute),
            dram_milli=_part(profile.dram_milli, memory),
            l2_milli=_part(profile.l2_milli, memory),
        )
    return replace(resident, profile=profile, compute_milli=resident.compute_milli * compute[0] // compute[1])


def _part(used_milli: int | None, slices: tuple[int, int]) -> int | None:
    """A use of the whole GPU as one of a part, at most all of it; ``slices`` of the GPU and of the part."""
    return None if used_milli is None else min(-(-used_milli * slices[0] // slices[1]), WHOLE_GPU_MILLI)


def _alone(model: InterferenceModel, gpu_model: str, resident: Resident, mig_profile: str) -> Prediction:
    """What is foreseen for a job that has a slice to itself: as measured, or else by the model."""
    measured = None if resident.profile is None else resident.profile.slice_slowdown(gpu_model, mig_profile)
    return model.predict(gpu_model, (resident,))[0] if measured is None else Prediction(measured, measured)


def _both(one: Prediction, other: Prediction) -> Prediction:
    slowdown = None if one.slowdown is None or other.slowdown is None else one.slowdown * other.slowdown
    upper = None if one.upper is None or other.upper is None else one.upper * other.upper
    return Prediction(slowdown, upper)


def _slice_of(share: Share) -> tuple[str, int | None]:
    return share.mig_profile or "", share.mig_start


def lies_in_slice(share: Share) -> bool:
    """Whether others may lie in the same MIG slice: it is an MPS share of it, or a part of its time."""
    return share.mig_profile is not None and share.mode is not Mode.MIG


def measured_alone(gpu_model: str, lodger: Lodger) -> float | None:
    """The slowdown measured for a job that has such a slice to itself; None if it was not, or it has none."""
    profile, share = lodger
    if profile is None or share.mode is not Mode.MIG:
        return None
    return profile.slice_slowdown(gpu_model, share.mig_profile)
