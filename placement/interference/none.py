"""No interference: everybody runs as if alone."""

from __future__ import annotations

from placement.interference.base import ALONE, Prediction, Resident


class NoInterference:
    """Every resident runs at solo speed."""

    name = "none"

    def predict(self, gpu_model: str, residents: tuple[Resident, ...]) -> tuple[Prediction, ...]:
        """1.0 for everyone."""
        return (ALONE,) * len(residents)
