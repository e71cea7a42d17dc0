"""Keep jobs apart."""

from __future__ import annotations

from placement.policies.base import ScoreWeights


class Spread:
    """Most compute left on the node, then most left on the GPU."""

    name = "spread"
    weights = ScoreWeights(gpu_left=-1, node_left=-(1 << 20))
