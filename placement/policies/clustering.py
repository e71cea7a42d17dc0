"""Put like workers together."""

from __future__ import annotations

from typing import Any

from placement.policies.base import Placement
from placement.policies.offer import Offer, where


class Clustering(Placement):
    """A node where only workers of this size are, else one where such are too, else an unused one.

    Sizes are: a share of a GPU, or so many whole GPUs.  A quarter of the score prefers nodes that are fuller.
    As in the experiments of FGD (ATC'23, section 6.1; gpu_clustering_score.go of its artifact).
    """

    name = "clustering"
    source = "FGD, ATC'23, section 6.1"

    @staticmethod
    def score(at: Offer) -> Any:
        """0 to 100, the lower the better."""
        among_such = where((at.shapes & at.shape) != 0, 50, where(at.shapes == 0, 25, 0))
        alone = where(at.shapes == at.shape, 25, 0)
        fuller = 25 * (8000 - at.node_left - at.taken) // 8000
        return where(at.taken > 0, 100 - among_such - alone - fuller, 0)

    @staticmethod
    def within(at: Offer) -> Any:
        """The fullest GPU that fits."""
        return at.gpu_left
