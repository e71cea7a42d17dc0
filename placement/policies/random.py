"""Any place that fits."""

from __future__ import annotations

from placement.policies.base import Placement


class Random(Placement):
    """A fitting node and a fitting GPU drawn from the run's seed and the job, the same in every replay."""

    name = "random"
    source = "FGD, ATC'23, section 6.1"
    noise = True
