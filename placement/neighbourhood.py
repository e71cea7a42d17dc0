"""Neighbourhoods: what a newcomer would meet on a GPU, interned so that each is judged once.

A GPU's residents are reduced to what interference models can tell apart.  The number of a neighbourhood is
kept in the cluster's arrays; a model is asked once per new neighbourhood, not once per decision.
"""

from __future__ import annotations

from dataclasses import dataclass

from placement.interference import Resident
from placement.model import Mode


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A resident and the worst slowdown it accepts, None if it promised itself nothing."""

    resident: Resident
    max_slowdown: float | None


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """The residents of one GPU of a kind (model and memory, numbered by the cluster), in canonical order.

    ``opaque`` is the mode of residents of whom nothing is known and who were promised nothing, None without
    such; they are not listed one by one, since their number makes no difference to what can be foreseen.
    """

    gpu_model: str
    kind: int
    neighbours: tuple[Neighbour, ...] = ()
    opaque: Mode | None = None

    @property
    def promised(self) -> bool:
        """Whether any resident holds a promise."""
        return any(neighbour.max_slowdown is not None for neighbour in self.neighbours)


def neighbourhood_of(gpu_model: str, kind: int, residents: list[Neighbour]) -> Neighbourhood:
    """The canonical neighbourhood of these residents, whatever their order."""
    listed = [n for n in residents if n.resident.profile is not None or n.max_slowdown is not None]
    listed.sort(key=_order)
    opaque = next(
        (n.resident.mode for n in residents if n.resident.profile is None and n.max_slowdown is None), None
    )
    return Neighbourhood(gpu_model, kind, tuple(listed), opaque)


def _order(neighbour: Neighbour) -> tuple[str, str, int, float]:
    resident = neighbour.resident
    name = resident.profile.name if resident.profile is not None else ""
    return (name, resident.mode.value, resident.compute_milli, neighbour.max_slowdown or 0.0)


class NeighbourhoodTable:
    """Numbers for neighbourhoods, given once and kept for the life of the table."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[object, ...], int] = {}
        self.all: list[Neighbourhood] = []
        self.promised = False
        """Whether any resident of any of them has ever been promised anything."""

    def __len__(self) -> int:
        return len(self.all)

    def number(self, neighbourhood: Neighbourhood) -> int:
        """The number of this neighbourhood."""
        key = (neighbourhood.kind, neighbourhood.opaque, *map(_identity, neighbourhood.neighbours))
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.all)
            self.all.append(neighbourhood)
            self.promised |= neighbourhood.promised
        return number


def _identity(neighbour: Neighbour) -> tuple[object, ...]:
    # Profiles hold a mapping and cannot be hashed; within one scheduler a changed profile is a new object.
    resident = neighbour.resident
    return (id(resident.profile), resident.mode, resident.compute_milli, neighbour.max_slowdown)
