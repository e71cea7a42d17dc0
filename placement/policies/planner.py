"""What a policy may bring that names places by itself, instead of a score that a search asks for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from placement.model import Assignment, Job, Node, Profile


@dataclass(frozen=True, slots=True)
class PlannedPart:
    """Whole GPUs for one worker: a node and slots there; ``cell`` is kept with what the worker holds."""

    node_id: str
    slots: tuple[int, ...]
    cell: int | None = None


@dataclass(frozen=True, slots=True)
class PlannedPlace:
    """A part for each worker, and the jobs that must leave before."""

    parts: tuple[PlannedPart, ...]
    evictions: tuple[str, ...] = ()


class Planner(Protocol):
    """Says where jobs that ask for GPUs go, and is told who holds what.

    What it is told after a restart is all that it may decide by.
    """

    def refusal(self, job: Job, nodes: Sequence[Node]) -> str:
        """Why a job can never have a place on these nodes, available or not; empty if it can."""

    def lay_out(self, nodes: Sequence[Node]) -> None:
        """These are the nodes that new work may go to, in the order of their ids."""

    def take(self, job: Job, assignments: Iterable[Assignment]) -> None:
        """These workers of a job hold shares from now on."""

    def give(self, job_id: str, worker: int) -> None:
        """One worker of a job holds nothing any more; it may never have been told of it."""

    def find(self, job: Job, profile: Profile | None) -> PlannedPlace | None:
        """Where a waiting job goes, None if it has no place now; changes nothing."""
