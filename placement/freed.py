"""What was freed on the way of one decision, and whether it might be what a job lacked."""

from __future__ import annotations

from placement import columns as k
from placement.ask import Ask
from placement.cluster import Cluster


class Freed:
    """Rows of nodes where something became free.

    Attributes:
        rows: those that nobody has been told of; told: those that have been, since the decision began.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.rows: set[int] = set()
        self.told: list[int] = []
        self._cluster = cluster
        self._most: tuple[int, int] | None = None
        self._empties: int | None = None

    def tell(self) -> None:
        """Those who wait are told now."""
        self.told = sorted({*self.told, *self.rows})
        self.rows.clear()
        self.used()

    def used(self) -> None:
        """Something was taken: what is still free is to be looked up anew."""
        self._most = self._empties = None

    def might_help(self, ask: Ask, gpus: int) -> bool:
        """Whether what is still free of that might be what a worker with so many GPUs lacked."""
        if ask.only_whole:
            if self._empties is None:
                empties = self._cluster.nodes[:, k.EMPTIES].item
                self._empties = max(map(empties, self.told), default=0)
            return self._empties >= gpus
        if self._most is None:
            state = self._cluster.gpus[self.told]
            milli, memory = state[:, :, k.FREE_MILLI], state[:, :, k.FREE_MEMORY]
            self._most = int(milli.max(initial=0)), int(memory.max(initial=0))
        enough = ask.least_milli <= self._most[0] and ask.least_memory <= self._most[1]
        return enough or gpus == 0
