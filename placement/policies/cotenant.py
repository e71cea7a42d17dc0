"""Take what others need least."""

from __future__ import annotations

from typing import Any

from placement.alternatives import Smaller
from placement.partition.transitions import HORIZON_S
from placement.policies.base import Measure, Placement
from placement.policies.offer import Offer, larger

MOMENT_MS = 1_000
"""So long a change of mode is no reason to choose another mode: those who share would take turns for ever."""

HARM_PART = 4
"""Neighbours' harm counts a twelfth of what it costs: thousandths of a GPU, in a unit of a third of that.

On a full cluster more weight does not make less harm: jobs are scattered, and whole GPUs find no place."""

OWN_LOSS = 15
"""What a job's own small slice takes from it counts two and a half times, in a unit of a sixth: a slice that
nearly fits is worth its loss, half the speed is not."""

OUTLASTING = 100
"""Thousandths of a GPU, times 3, for each step of :attr:`Offer.outlasts`.  A small gain with a price: see
docs/decisions/0011."""


class Cotenant(Placement):
    """The place whose loss to the usual requests is least, harm to neighbours and changes of mode included.

    The modes are weighed against each other: what a placement takes away from the requests that are usual
    here (:mod:`placement.worth`), the throughput that the newcomer is predicted to lose to its own small
    share or slice, what it and its neighbours lose to each other, and what changing the mode of an empty
    GPU costs.
    """

    name = "cotenant"
    source = "our own"
    any_mode = True
    smaller_slice = Smaller.BEST
    aligned = True
    gathers = True
    weighs = Measure.FORGONE
    weighs_lifetimes = True
    repartitions = True

    @staticmethod
    def score(at: Offer) -> Any:
        """Thousandths of a GPU lost, times 3.

        What a job's own small share slows it is lost more than once: at half speed on a slice it holds the
        slice for twice the time, and is late itself (see :data:`OWN_LOSS`).  A slowdown by neighbours costs
        its part of the compute of whoever suffers it, neighbours as much as they hold on average, but only a
        twelfth of that (see :data:`HARM_PART`); a second of a GPU that changes its mode costs as much as a
        job that runs for :data:`HORIZON_S` can bear, as long as a move has to pay off (docs/decisions/0009).
        """
        held = larger(1000 - at.gpu_left - at.taken, 0) // larger(at.residents, 1)
        slowed = (at.suffered * at.taken + at.inflicted * held) // (1000 * HARM_PART)
        own, changing = OWN_LOSS * at.wasted // 2, 3 * larger(at.price - MOMENT_MS, 0) // HORIZON_S
        return at.forgone + slowed + (own + OUTLASTING * at.outlasts + changing)  # often these are 0
