"""Interference models, chosen by name from one visible list."""

from __future__ import annotations

from collections.abc import Callable

from placement.interference.additive import AdditiveCoefficients, AdditiveInterference
from placement.interference.base import (
    ALONE,
    UNKNOWN,
    Coupling,
    InterferenceModel,
    LinearModel,
    Prediction,
    Resident,
    ShareModel,
    alone_of,
    coupling_of,
)
from placement.interference.none import NoInterference
from placement.interference.sharing import (
    lies_in_slice,
    measured_alone,
    predictions_in_slice,
    predictions_of,
)
from placement.model import CotenantError, InvalidSpec, UnknownName

MODELS: dict[str, Callable[[], InterferenceModel]] = {
    "none": NoInterference,
    "additive": AdditiveInterference,
}


def model_named(name: str) -> InterferenceModel:
    """The interference model of that name.

    Raises:
        UnknownName: nobody registered it.
        CotenantError: it cannot be made.
    """
    build = MODELS.get(name)
    if build is None:
        raise UnknownName(
            f"interference model {name!r} is unknown; choose one of {', '.join(sorted(MODELS))}"
        )
    try:
        return build()
    except CotenantError:
        raise
    except Exception as problem:
        raise InvalidSpec(
            f"interference model {name!r} cannot be made: {type(problem).__name__}: {problem}"
        ) from problem


__all__ = [
    "ALONE",
    "MODELS",
    "UNKNOWN",
    "AdditiveCoefficients",
    "AdditiveInterference",
    "Coupling",
    "InterferenceModel",
    "LinearModel",
    "NoInterference",
    "Prediction",
    "Resident",
    "ShareModel",
    "alone_of",
    "coupling_of",
    "lies_in_slice",
    "measured_alone",
    "model_named",
    "predictions_in_slice",
    "predictions_of",
]
