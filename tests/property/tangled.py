"""Policies that no one would want, but whose choices depend on every figure of an offer."""

from __future__ import annotations

from typing import Any

from placement.neighbourhood import Neighbour, Neighbourhood
from placement.policies import Placement
from placement.policies.base import Measure
from placement.policies.cotenant import Cotenant
from placement.policies.offer import Offer, larger, level, smaller, where


class Tangled(Placement):
    """All figures mixed up: whoever gets one of them wrong sends some job elsewhere."""

    name = "tangled"
    any_mode = True
    weighs = Measure.STRANDED
    weighs_lifetimes = True

    @staticmethod
    def score(at: Offer) -> Any:
        """A number from 0 to 96 that every figure has a part in."""
        amounts = at.taken * 3 + at.gpu_left * 7 + at.node_left * 13 + at.price * 5 + at.cpu * 11
        rest = at.cpu_left - at.cpu_left // 1009 * 1009 + at.ram_left - at.ram_left // 997 * 997
        counts = at.mode * 17 + at.gpus * 19 + at.empties * 23 + at.opened * 29 + at.residents * 31
        kinds = at.shape * 37 + at.shapes * 41 + at.suffered * 43 + at.inflicted * 47 + at.outlasts * 53
        strands = at.stranded // 1024 - at.stranded // 1024 // 1013 * 1013
        mixed = amounts + rest + counts + kinds + strands + at.wasted * 59
        return mixed - mixed // 97 * 97

    @staticmethod
    def within(at: Offer) -> Any:
        """A second number, so that equals of the first are told apart."""
        mixed = at.gpu_left * 5 + at.residents * 3 + at.stranded // 2048 + at.suffered - at.inflicted
        mixed += at.wasted
        return mixed - mixed // 7 * 7


class Steps(Placement):
    """Coarse steps through the helpers of offers: many equals, so that ties decide."""

    name = "steps"
    any_mode = True

    @staticmethod
    def score(at: Offer) -> Any:
        """How full the GPU would be, in four steps, unless it is empty."""
        return where(at.opened > 0, 2, level(at.gpu_left, (100, 300, 700)))

    @staticmethod
    def within(at: Offer) -> Any:
        """Company up to three, but little of it."""
        return larger(smaller(at.residents, 3), 1)


class Choosy(Steps):
    """Minds its company: no more than two that are known, and nobody in a hurry."""

    name = "choosy"
    judges_company = True

    def joins(self, newcomer: Neighbour, place: Neighbourhood) -> bool:
        """Whether there are few enough, all of a mind with the newcomer."""
        hurried = [neighbour.max_slowdown is not None for neighbour in place.neighbours]
        return len(hurried) < 2 and all(one == (newcomer.max_slowdown is not None) for one in hurried)


class Apart(Cotenant):
    """The default placement, but for gangs, whose workers it does not gather."""

    name = "apart"
    gathers = False
