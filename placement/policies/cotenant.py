"""Take what others need least."""

from __future__ import annotations

from typing import Any

from placement.policies.base import Measure, Placement
from placement.policies.offer import Offer


class Cotenant(Placement):
    """The place whose loss to the usual requests is least, harm to neighbours and changes of mode included.

    The modes are weighed against each other: what a placement takes away from the requests that are usual
    here (:mod:`placement.worth`), the throughput that the newcomer and its neighbours are predicted to lose,
    and what changing the mode of an empty GPU costs.
    """

    name = "cotenant"
    any_mode = True
    aligned = True
    gathers = True
    weighs = Measure.FORGONE
    repartitions = True

    @staticmethod
    def score(at: Offer) -> Any:
        """Thousandths of a GPU lost, times 3."""
        return at.forgone
