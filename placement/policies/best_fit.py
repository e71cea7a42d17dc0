"""Fill what is nearly full."""

from __future__ import annotations

from placement.policies.base import ScoreWeights


class BestFit:
    """Least compute left on the GPU, then least left on the node."""

    name = "best-fit"
    weights = ScoreWeights(gpu_left=1 << 20, node_left=1)
