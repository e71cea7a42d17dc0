"""One interface for every model of what neighbours do to each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from placement.model import Mode, Profile


@dataclass(frozen=True, slots=True)
class Resident:
    """One job's share of a GPU, as an interference model sees it; the profile is None when unknown."""

    profile: Profile | None
    mode: Mode
    compute_milli: int


@dataclass(frozen=True, slots=True)
class Prediction:
    """Slowdown against running alone on the whole GPU: expected, and an upper bound; None is unknown."""

    slowdown: float | None
    upper: float | None


UNKNOWN = Prediction(None, None)
ALONE = Prediction(1.0, 1.0)


class InterferenceModel(Protocol):
    """Predicts the slowdown of every resident of one GPU; never only pairs."""

    @property
    def name(self) -> str:
        """The name that users choose the model by."""

    def predict(self, gpu_model: str, residents: tuple[Resident, ...]) -> tuple[Prediction, ...]:
        """One prediction per resident, in the same order, whatever that order is."""
