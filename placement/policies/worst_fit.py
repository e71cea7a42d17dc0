"""Keep everything loosely filled."""

from __future__ import annotations

from typing import Any

from placement.policies.base import Placement
from placement.policies.offer import Offer


class WorstFit(Placement):
    """The GPU with the most compute left, then the node with the most."""

    name = "worst-fit"
    source = "textbook"

    @staticmethod
    def score(at: Offer) -> Any:
        """Compute left on the GPU before that on the node."""
        return -(at.gpu_left << 20) - at.node_left
