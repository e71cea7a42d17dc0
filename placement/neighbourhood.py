"""Neighbourhoods: what a newcomer would meet on a GPU, interned so that each is judged once.

A GPU's residents are reduced to what interference models can tell apart.  The number of a neighbourhood is
kept in the cluster's arrays; a model is asked once per new neighbourhood, not once per decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from placement.interference import Resident
from placement.model import Mode, Profile
from placement.model.frozen import made_often


@made_often
@dataclass(frozen=True, slots=True)
class Neighbour:
    """A resident and the worst slowdown it accepts, None if it promised itself nothing."""

    resident: Resident
    max_slowdown: float | None


@made_often
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


Token = tuple[int, str, int, float]
"""What of a resident matters to its neighbours, comparable; equal tokens are interchangeable residents."""

Known = tuple[Profile | None, Mode, int, float | None]
"""Profile, mode, compute in thousandths and promise of a resident."""


_NAME = {mode: mode.value for mode in Mode}  # the attribute of an enum is slower to read


def token_of(known: Known) -> Token | None:
    """The token of a resident; None for one of whom nothing is known and who was promised nothing."""
    profile, mode, milli, max_slowdown = known
    if profile is None and max_slowdown is None:
        return None
    # Profiles hold a mapping and cannot be hashed; within one scheduler a changed profile is a new object.
    return (0 if profile is None else id(profile), _NAME[mode], milli, max_slowdown or 0.0)


SWEEPS_KEPT = 4
"""Who has not asked for so many sweeps forgets everything."""


class NeighbourhoodTable:
    """Numbers for neighbourhoods; the neighbourhood itself is made when somebody asks for it.

    A number that no GPU has any more is set aside, and given to another neighbourhood only after
    a :meth:`sweep`; who remembers something of numbers asks :meth:`given_up_since`.
    """

    def __init__(self) -> None:
        self._numbers: dict[tuple[object, ...], int] = {}
        self._keys: list[tuple[object, ...]] = []
        self._known: list[tuple[str, int, tuple[Known, ...]]] = []
        self._made: dict[int, Neighbourhood] = {}
        self._gpus: list[int] = []
        self._aside: set[int] = set()
        self._free: list[int] = []
        self._given_up: list[frozenset[int]] = []
        self.sweeps = 0
        """How often numbers have been given up."""
        self.promised = False
        """Whether any resident of any of them has ever been promised anything."""

    def __len__(self) -> int:
        return len(self._known)

    def __getitem__(self, number: int) -> Neighbourhood:
        made = self._made.get(number)
        if made is None:
            gpu_model, kind, known = self._known[number]
            residents = [Neighbour(Resident(k[0], k[1], k[2]), k[3]) for k in known]
            made = self._made[number] = neighbourhood_of(gpu_model, kind, residents)
        return made

    def holds_promise(self, number: int) -> bool:
        """Whether any resident of a neighbourhood holds a promise."""
        return any(known[3] is not None for known in self._known[number][2])

    def number(self, gpu_model: str, kind: int, residents: Sequence[tuple[Token | None, Known]]) -> int:
        """The number of the neighbourhood of these residents on a GPU of that kind, whatever their order."""
        opaque, tokens = "", []
        for token, known in residents:
            if token is not None:
                tokens.append(token)
            elif not opaque:
                opaque = _NAME[known[1]]
        tokens.sort()
        key = (kind, opaque, *tokens)
        number = self._numbers.get(key)
        if number is None:
            facts = (gpu_model, kind, tuple(known for _token, known in residents))
            number = self._numbers[key] = self._enter(key, facts)
            self.promised = self.promised or any(known[3] is not None for _token, known in residents)
        return number

    def _enter(self, key: tuple[object, ...], facts: tuple[str, int, tuple[Known, ...]]) -> int:
        if self._free:
            number = self._free.pop()
            self._keys[number], self._known[number], self._gpus[number] = key, facts, 0
            return number
        self._keys.append(key)
        self._known.append(facts)
        self._gpus.append(0)
        return len(self._known) - 1

    def moved(self, before: int | None, after: int | None) -> None:
        """A GPU has another neighbourhood; None: it was not there before, or is no longer."""
        if after is not None:
            self._gpus[after] += 1
            self._aside.discard(after)
        if before is not None:
            self._gpus[before] -= 1
            if not self._gpus[before]:
                self._aside.add(before)

    @property
    def set_aside(self) -> int:
        """How many numbers no GPU has."""
        return len(self._aside)

    def given_up_since(self, sweeps: int) -> frozenset[int] | None:
        """The numbers given up after so many sweeps, which may mean others by now; None: too long ago."""
        since = self.sweeps - sweeps
        return frozenset().union(*self._given_up[-since:]) if 0 < since <= len(self._given_up) else None

    def sweep(self) -> None:
        """Give up the numbers that no GPU has."""
        gone = sorted(self._aside)
        self.sweeps += 1
        self._given_up = [*self._given_up, frozenset(gone)][-SWEEPS_KEPT:]
        self._aside.clear()
        for number in gone:
            del self._numbers[self._keys[number]]
            self._made.pop(number, None)
        self._free += gone
