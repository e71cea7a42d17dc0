"""Keep jobs apart."""

from __future__ import annotations

from typing import Any

from placement.policies.base import Placement
from placement.policies.offer import Offer


class Spread(Placement):
    """Most compute left on the node, then most left on the GPU."""

    name = "spread"
    source = "textbook"

    @staticmethod
    def score(at: Offer) -> Any:
        """Compute left on the node before that on the GPU."""
        return -(at.node_left << 20) - at.gpu_left
