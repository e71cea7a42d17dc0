"""What a policy is: an order of jobs and a preference among places, each one small file."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from placement.alternatives import Smaller
from placement.model import InvalidSpec, Job, Mode, Node, Profile, Request
from placement.neighbourhood import Neighbour, Neighbourhood
from placement.partition import MigGeometry
from placement.policies.offer import Offer
from placement.policies.planner import Planner


class Measure(enum.IntEnum):
    """What the placements of usual requests lose by a placement."""

    NOTHING = 0
    STRANDED = 1
    """Compute that they can no longer use: FGD's measure."""
    FORGONE = 2
    """What it was worth to them: shadow prices."""


class Placement:
    """A preference among the places that fit: the lowest score wins, ties by node id and slot.

    Subclasses give a name and :meth:`score`; the rest says what the search has to provide for it.

    Attributes:
        source: where it is published, as users read it.
        any_mode: whether the score weighs the sharing modes against each other; if not, MPS comes before
            time slices, these before MIG slices and those before whole GPUs.
        smaller_slice: which smaller MIG slice than it can use a job may get that leaves its compute open, as
            far as its ``max_slowdown`` goes; only for scores that weigh the modes.
        noise: draw one of the places with the lowest score instead of the first.
        weighs: which measure the score reads, ``stranded`` or ``forgone``; None is computed unless asked for.
        weighs_lifetimes: whether the score reads ``outlasts``; if not, no job has a lifetime.
        judges_company: whether :meth:`joins` is to be asked.
        aligned: whole GPUs are taken in aligned blocks (pairs, quads, ...), the smallest that will do.
        gathers: workers of a gang are kept close together.
        modes: the sharing modes that this policy uses at all.
        repartitions: whether others may be moved for a job that does not fit, see placement.repartition.
        recuts: whether :meth:`slice_speeds` decides who gets which MIG slice, see placement.recutting.
        options: what may stand after a colon behind the name, as users read it; empty if nothing may.
        trials: whether pairs share on trial, and part again if they do too little together.
        idles: why a job may have to wait although there is room for it; empty if it never has to.
        forgets: what a restart may change of its decisions; empty if nothing.
    """

    name: ClassVar[str]
    source: ClassVar[str] = ""
    any_mode: ClassVar[bool] = False
    smaller_slice: ClassVar[Smaller] = Smaller.NONE
    noise: ClassVar[bool] = False
    weighs: ClassVar[Measure] = Measure.NOTHING
    weighs_lifetimes: ClassVar[bool] = False
    judges_company: ClassVar[bool] = False
    aligned: ClassVar[bool] = False
    gathers: ClassVar[bool] = False
    modes: ClassVar[frozenset[Mode]] = frozenset(Mode)
    repartitions: ClassVar[bool] = False
    recuts: ClassVar[bool] = False
    options: ClassVar[str] = ""
    trials: ClassVar[bool] = False
    idles: ClassVar[str] = ""
    forgets: ClassVar[str] = ""

    @property
    def counts_usable(self) -> bool:
        """Whether the cluster has to keep which usual requests could use a GPU."""
        return self.weighs is Measure.STRANDED

    @staticmethod
    def score(at: Offer) -> Any:
        """How undesirable a place is, an integer between -2**50 and 2**50.

        Called with single integers, compiled, and with arrays: see :mod:`placement.policies.offer`.
        """
        return at.mode * 0

    @staticmethod
    def within(at: Offer) -> Any:
        """Which of the GPUs of one node, where the scores are equal; the lowest, then the first slot."""
        return at.mode * 0

    def joins(self, newcomer: Neighbour, place: Neighbourhood) -> bool:
        """Whether a job may join this company, promises aside; must depend on nothing else."""
        return True

    def asks(self, job: Job) -> Request:
        """The request that places are sought by: the job's own, or a narrower one."""
        return job.request

    def planner(self) -> Planner | None:
        """Who names the places of jobs that ask for GPUs, if not the search by :meth:`score`; a new one."""
        return None

    def keep_apart(self, pairs: frozenset[tuple[str, str]]) -> None:
        """These profiles, by name and each pair in alphabetical order, have failed on trial together."""

    def slice_speeds(
        self, request: Request, profile: Profile | None, gpu_model: str, geometry: MigGeometry
    ) -> Mapping[str, float]:
        """How fast a job is on each MIG profile that would do, relative to the whole GPU; none: no slices."""
        return {}

    def misfit(self, order: OrderPolicy) -> str:
        """Why this makes no sense together with an order of jobs, empty if it does."""
        return ""

    def check(self, nodes: Sequence[Node]) -> None:
        """Refuse a cluster on which it could not keep what it promises.

        Raises:
            InvalidSpec: what is missing.
        """

    def with_options(self, text: str) -> Placement:
        """The same with what stands behind the colon.

        Raises:
            InvalidSpec: it is not what :attr:`options` says.
        """
        raise InvalidSpec(f"policy {self.name!r} takes no options, but was given {text!r}")


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
    placement: Placement

    @property
    def knows_durations(self) -> bool:
        """Whether a simulation tells this policy how long jobs take."""
        return self.order.knows_durations
