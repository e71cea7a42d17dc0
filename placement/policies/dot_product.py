"""Match the shape of the request to the shape of what is left."""

from __future__ import annotations

from typing import Any

from placement.policies.base import Placement
from placement.policies.offer import Offer, smaller


class DotProduct(Placement):
    """The node whose free CPU and GPU compute, multiplied with what is asked for, give the least.

    As in the experiments of FGD (ATC'23, section 6.1; dot_product_score.go of its artifact): relative to a
    machine of 128 cores and 8 GPUs, rounded up to a hundredth; inside the node the fullest GPU.
    """

    name = "dot-product"
    source = "FGD, ATC'23, section 6.1"

    @staticmethod
    def score(at: Offer) -> Any:
        """Hundredths of the product of two machines; 8 GPUs weigh as much as 128 cores, so a GPU's 256."""
        cpu = smaller(at.cpu_left + at.cpu, 1 << 28)  # of unlimited CPU the product would pass 64 bits
        product = cpu * at.cpu + 256 * (at.node_left + at.taken) * at.taken
        return (product + 327679999) // 327680000

    @staticmethod
    def within(at: Offer) -> Any:
        """The fullest GPU that fits."""
        return at.gpu_left
