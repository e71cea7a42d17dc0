"""Fill what is nearly full."""

from __future__ import annotations

from typing import Any

from placement.policies.base import Placement
from placement.policies.offer import Offer


class BestFit(Placement):
    """The node with the least CPU and GPU compute left, then its fullest GPU.

    Both are taken relative to a machine of 128 cores and 8 GPUs and rounded up to a hundredth, as in the
    experiments of FGD (ATC'23, section 6.1; best_fit_score.go of its artifact).
    """

    name = "best-fit"
    source = "FGD, ATC'23, section 6.1"

    @staticmethod
    def score(at: Offer) -> Any:
        """Hundredths left: 2560 thousandths of a core weigh as much as 160 thousandths of a GPU."""
        return (at.cpu_left + 16 * at.node_left + 2559) // 2560

    @staticmethod
    def within(at: Offer) -> Any:
        """The fullest GPU that fits."""
        return at.gpu_left
