"""Use GPUs that are in use before others."""

from __future__ import annotations

from typing import Any

from placement.policies.base import Placement
from placement.policies.offer import Offer, larger, where


class Packing(Placement):
    """A GPU in use, the fullest first; else a node in use with few free GPUs; else an unused node.

    As in the experiments of FGD (ATC'23, section 6.1; gpu_packing_score.go of its artifact).
    """

    name = "packing"
    source = "FGD, ATC'23, section 6.1"

    @staticmethod
    def score(at: Offer) -> Any:
        """0 to 100, the lower the better; a node without any GPU in use counts as unused."""
        unused = larger(33 - at.empties, at.empties)
        free = larger(50 - at.opened, 33)
        shared = larger(100 - (at.gpu_left + at.taken) * 100 // 1000 // 10, 50)
        value = where(at.empties == at.gpus, unused, where(at.opened > 0, free, shared))
        return where(at.taken > 0, 100 - value, 0)

    @staticmethod
    def within(at: Offer) -> Any:
        """The fullest GPU that fits."""
        return at.gpu_left
