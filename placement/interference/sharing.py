"""Who slows whom on one GPU: all who share it, but those who share a MIG slice only each other."""

from __future__ import annotations

from collections.abc import Sequence

from placement.interference.base import InterferenceModel, Prediction, Resident
from placement.model import Mode, Profile, Share

Lodger = tuple[Profile | None, Share]
"""Who holds a share: what is known of the job (None: nothing), and the share."""


def predictions_of(
    model: InterferenceModel, gpu_model: str, lodgers: Sequence[Lodger]
) -> tuple[Prediction, ...]:
    """What is foreseen for each of those who are on a GPU, in their order."""
    residents = tuple(Resident(profile, share.mode, share.compute_milli) for profile, share in lodgers)
    if not any(lies_in_slice(share) for _profile, share in lodgers):
        return model.predict(gpu_model, residents)
    apart = [share.mig_start if lies_in_slice(share) else None for _profile, share in lodgers]
    found: dict[int, Prediction] = {}
    for start in dict.fromkeys(apart):
        together = [i for i, other in enumerate(apart) if other == start]
        predictions = model.predict(gpu_model, tuple(residents[i] for i in together))
        found |= zip(together, predictions, strict=True)
    return tuple(found[i] for i in range(len(lodgers)))


def lies_in_slice(share: Share) -> bool:
    """Whether others may lie in the same MIG slice: it is an MPS share of it, or a part of its time."""
    return share.mig_profile is not None and share.mode is not Mode.MIG


def measured_alone(gpu_model: str, lodger: Lodger) -> float | None:
    """The slowdown measured for a job that has such a slice to itself; None if it was not, or it has none."""
    profile, share = lodger
    if profile is None or share.mode is not Mode.MIG:
        return None
    return profile.slice_slowdown(gpu_model, share.mig_profile)
