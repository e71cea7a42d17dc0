"""One interface for every model of what neighbours do to each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from placement.model import Mode, Profile, StateError
from placement.model.frozen import made_often


@made_often
@dataclass(frozen=True, slots=True)
class Resident:
    """One job's share of a GPU, as an interference model sees it; the profile is None when unknown."""

    profile: Profile | None
    mode: Mode
    compute_milli: int


@made_often
@dataclass(frozen=True, slots=True)
class Prediction:
    """Slowdown against running alone on the whole GPU: expected, and an upper bound; None is unknown."""

    slowdown: float | None
    upper: float | None


@made_often
@dataclass(frozen=True, slots=True)
class Coupling:
    """A resident's part in a linear forecast, for ranking places quickly; thousandths, two channels.

    The slowdown that neighbours j add to resident i is about the sum over j and channels of
    sensitivity of i times pressure of j.
    """

    pressure: tuple[int, int]
    sensitivity: tuple[int, int]


UNKNOWN = Prediction(None, None)
ALONE = Prediction(1.0, 1.0)


class InterferenceModel(Protocol):
    """Predicts the slowdown of every resident of one GPU; never only pairs."""

    @property
    def name(self) -> str:
        """The name that users choose the model by."""

    def predict(self, gpu_model: str, residents: tuple[Resident, ...]) -> tuple[Prediction, ...]:
        """One prediction per resident, in the same order, whatever that order is."""


class LinearModel(Protocol):
    """A model whose forecasts are nearly linear may say so: the search then ranks places by it.

    Whether a place keeps all promises is decided by :meth:`InterferenceModel.predict` alone.
    """

    def coupling(self, gpu_model: str, resident: Resident) -> Coupling | None:
        """A resident's part in the sum, None if nothing is known of it."""


class ShareModel(Protocol):
    """A model that knows how much a small share slows a job may say so: places are then ranked by it too."""

    def alone_milli(self, gpu_model: str, resident: Resident) -> int | None:
        """Slowdown of a resident alone in its share, in thousandths (1000 is none); None if unknown."""


def coupling_of(model: InterferenceModel, gpu_model: str, resident: Resident) -> Coupling | None:
    """A resident's part in the linear forecast of a model, in whole thousandths; None where it has none.

    Raises:
        StateError: the model gave something that is no number.
    """
    coupling = getattr(model, "coupling", None)
    found: Coupling | None = None if coupling is None else coupling(gpu_model, resident)
    if found is None:
        return None
    (presses, presses_2), (senses, senses_2) = found.pressure, found.sensitivity
    if type(presses) is type(presses_2) is type(senses) is type(senses_2) is int:
        return found
    try:  # a model of somebody else's may compute fractions
        return Coupling((int(presses), int(presses_2)), (int(senses), int(senses_2)))
    except (ValueError, OverflowError) as problem:
        what = f"interference model {model.name!r}: {found} on {gpu_model}"
        raise StateError(f"{what} is not made of numbers") from problem


def alone_of(
    model: InterferenceModel, gpu_model: str, resident: Resident, mig_profile: str | None = None
) -> int:
    """How much a resident's own share or slice slows it beyond 1, in thousandths; 0 if that is unknown.

    What was measured in the slice is believed before the model.  A model that says nothing of shares is not
    asked to rank places by them.
    """
    alone_milli = getattr(model, "alone_milli", None)
    if alone_milli is None or resident.profile is None:
        return 0
    measured = resident.profile.slice_slowdown(gpu_model, mig_profile)
    slowed = alone_milli(gpu_model, resident) if measured is None else round(1000 * measured)
    return 0 if slowed is None else max(slowed - 1000, 0)
