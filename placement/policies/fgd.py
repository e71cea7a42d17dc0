"""Strand as little as possible: fragmentation gradient descent."""

from __future__ import annotations

import math
from typing import Any

from placement.mix import WHOLE
from placement.policies.base import Measure, Placement
from placement.policies.offer import Offer, level

_STEPS = tuple(math.ceil(1000 * WHOLE * math.log(j / (100 - j))) for j in range(1, 100))
"""Where 100 x sigmoid(x / 1000) reaches the whole numbers 1 to 99; x in thousandths of a GPU x WHOLE."""


class Fgd(Placement):
    """Where the compute that the usual requests cannot use grows least (FGD, ATC'23, section 4.3).

    The gradient goes through a sigmoid and is cut to whole hundredths, as in the paper's artifact
    (fgd_score.go): places that differ by less are equal, which decides more than it seems.
    """

    name = "fgd"
    source = "FGD, ATC'23, section 4"
    weighs = Measure.STRANDED

    @staticmethod
    def score(at: Offer) -> Any:
        """0 to 100, the lower the better."""
        return 100 - level(-at.stranded, _STEPS)
