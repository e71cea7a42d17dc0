"""Where the workers of a gang are tried: in the domains that they wish to share, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from operator import itemgetter

from placement.ask import Demand
from placement.columns import Ints
from placement.model import Level, Together, model_matches
from placement.topology import GATHERED, Topology, by_node, by_room, levels_of, roomiest

Room = Callable[[Demand], Ints]
"""An upper bound of how many workers of a demand fit on each node now, int64 [nodes]."""


class Gangs:
    """Binds the demands of gangs to the domains that would satisfy their wish."""

    def __init__(self, topology: Topology, room: Room, *, gathers: bool) -> None:
        self._topology = topology
        self._room = room
        self._gathers = gathers

    def scopes(self, demand: Demand, workers: int, *, or_most: bool) -> Iterator[Demand]:
        """The demand bound to each domain with room for all workers, and unbound if that is not required.

        The tightest level comes first; on each the domain in which the least is left, ties by name.  With
        ``or_most`` a gang that must be together is also tried where most of it may fit.
        """
        wish = demand.request.together or (GATHERED if self._gathers else None)
        if wish is None:
            yield demand
            return
        for level in levels_of(wish):
            yield from self._on_level(demand, workers, level, wish)
        if not wish.required:
            yield demand
        elif or_most:
            yield from self._where_most(demand, wish)

    def _on_level(self, demand: Demand, wanted: int, level: Level, wish: Together) -> Iterator[Demand]:
        if level is Level.GPU_TYPE:
            typed = [(self._workers(each), each) for each in self._typed(demand)]
            enough = [pair for pair in typed if pair[0] >= wanted]
            yield from (each for _workers, each in sorted(enough, key=itemgetter(0)))
            return
        domains = self._topology.domains(level, wish.level)
        if not len(domains):
            return
        found = by_node if level is Level.NODE else by_room
        for rows in found(domains, self._room(demand), wanted):
            yield replace(demand, rows=rows)

    def _where_most(self, demand: Demand, wish: Together) -> Iterator[Demand]:
        if wish.level is Level.GPU_TYPE:
            yield from sorted(self._typed(demand), key=self._workers, reverse=True)[:1]
            return
        for level in levels_of(wish):
            domains = self._topology.domains(level, wish.level)
            yield replace(demand, rows=roomiest(domains, self._room(demand)))

    def _typed(self, demand: Demand) -> list[Demand]:
        """The demand for each GPU model alone that would do."""
        chosen = demand.request.gpu_models
        return [
            replace(
                demand,
                request=replace(demand.request, gpu_models=(model,)),
                rows=self._topology.of_model(model),
                ask=None,
            )
            for model in self._topology.models()
            if not chosen or any(model_matches(selector, model) for selector in chosen)
        ]

    def _workers(self, demand: Demand) -> int:
        return int(self._room(demand)[demand.rows].sum())
