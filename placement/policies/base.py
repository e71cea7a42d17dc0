"""What a policy is: an order of jobs and a preference among places, each one small file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from placement.model import Job


@dataclass(frozen=True, slots=True)
class ScoreWeights:
    """A placement preference as integers; the lowest score wins, ties by node id and slot.

    score = ``gpu_left`` x compute left on the chosen GPUs + ``node_left`` x compute left on the node, in
    thousandths of a GPU.  ``noise`` ignores both and draws one of the fitting places.
    """

    gpu_left: int = 0
    node_left: int = 0
    noise: bool = False


class PlacementPolicy(Protocol):
    """Which of the places that fit is taken."""

    @property
    def name(self) -> str:
        """The name that users choose the policy by."""

    @property
    def weights(self) -> ScoreWeights:
        """How places are scored."""


class OrderPolicy(Protocol):
    """Who comes first, and what the first may do to the others."""

    @property
    def name(self) -> str:
        """The name that users choose the policy by."""

    @property
    def strict(self) -> bool:
        """Whether nobody may overtake the first in line."""

    @property
    def preemptive(self) -> bool:
        """Whether a job may take the place of running jobs that rank behind it."""

    @property
    def rank_per_s(self) -> float:
        """How the rank of a running job changes per second: -1 where it is the time that is left, else 0."""

    @property
    def knows_durations(self) -> bool:
        """Whether a simulation tells this policy how long jobs take."""

    def rank(self, job: Job, remaining_s: float | None) -> float:
        """The lower the earlier; ``remaining_s`` is the solo run time left, None if unknown.

        Called when a job enters the queue; priority comes before it, submission time and sequence after it.
        """


def aging_of(order: OrderPolicy) -> float:
    """How the rank of a running job changes per second; orders that do not say leave it as it is."""
    return float(getattr(order, "rank_per_s", 0.0))


@dataclass(frozen=True, slots=True)
class Policy:
    """An order and a placement under the name that the user typed."""

    name: str
    order: OrderPolicy
    placement: PlacementPolicy

    @property
    def knows_durations(self) -> bool:
        """Whether a simulation tells this policy how long jobs take."""
        return self.order.knows_durations
