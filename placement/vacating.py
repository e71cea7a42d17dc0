"""Shares that are already promised to somebody else while a preempted job still sits on them."""

from __future__ import annotations

from collections.abc import Iterable

from placement.model import Assignment


class Vacating:
    """Which jobs still sit on which GPUs and nodes, although they are no longer accounted for there."""

    def __init__(self) -> None:
        self._by_place: dict[str, set[str]] = {}

    @property
    def anybody(self) -> bool:
        """Whether anybody sits anywhere."""
        return bool(self._by_place)

    def add(self, job_id: str, assignments: Iterable[Assignment]) -> None:
        """A job has been told to leave these places."""
        for place in _places(assignments):
            self._by_place.setdefault(place, set()).add(job_id)

    def remove(self, job_id: str, assignments: Iterable[Assignment]) -> None:
        """A job has left these places."""
        for place in _places(assignments):
            sitting = self._by_place.get(place)
            if sitting is not None:
                sitting.discard(job_id)
                if not sitting:
                    del self._by_place[place]

    def sitting_on(self, assignments: Iterable[Assignment], *, node_matters: bool) -> set[str]:
        """Who still sits on these shares; on the same nodes at all if CPU or RAM is asked for."""
        if not self._by_place:
            return set()
        places = [place for place in _places(assignments) if node_matters or place.startswith("gpu:")]
        return set().union(*(self._by_place.get(place, ()) for place in places))


def _places(assignments: Iterable[Assignment]) -> list[str]:
    places: list[str] = []
    for assignment in assignments:
        places.append(f"node:{assignment.node_id}")
        places.extend(f"gpu:{share.gpu_uuid}" for share in assignment.shares)
    return places
