"""When it is examined whom to move for a job: at occasions that are the same after a restart."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from placement import columns as k
from placement.ledger import Ledger
from placement.lifecycle import JobRecord
from placement.preemption import Wish
from placement.recutting import Recutting
from placement.repartition import Plan, Repartition
from placement.search import Search
from placement.waiting import WaitingLine

PLANS_A_STEP = 8
"""For so many jobs a step, at most, it is examined whom to move; the others wait for the next occasion."""

FIRST_IN_LINE = 2
"""When something was freed, so many of those who wait, each with its own demand, are examined."""


class Moving:
    """Asks for plans when a job is new, and for the first in line when something was freed or nodes changed.

    Where slices go by speed, residents get larger ones when something was freed near them and nobody took it.
    Nothing else is an occasion: not what the step itself brings about, nor how often a job was looked at
    before.  What is decided so depends on the events of the step and on what is kept, and on nothing that a
    restart forgets.  Policies that move nobody have none of these.
    """

    def __init__(self, search: Search, ledger: Ledger) -> None:
        self._recutting = Recutting(search, ledger) if search.placement.recuts else None
        self._repartition = Repartition(search, ledger)
        self._ledger = ledger
        self._search = search
        self._loosened: list[int] = []
        self._newcomers: set[str] = set()
        self._first: set[str] = set()
        self._stirred = False
        self._plans_left = 0

    def entered(self, record: JobRecord) -> None:
        """A job waits that did not wait before this step."""
        self._newcomers.add(record.job.job_id)

    def stir(self) -> None:
        """Nodes came, went or changed."""
        self._stirred = True

    def begin(self, line: WaitingLine, freed: Collection[int]) -> None:
        """Decisions begin; ``freed`` are rows of nodes where the events of this step have freed anything."""
        self._plans_left = PLANS_A_STEP
        self._loosened = sorted(freed)
        if freed or self._stirred:
            self._first = set(line.first_heads(FIRST_IN_LINE))

    def end(self) -> None:
        """All is decided."""
        self._newcomers.clear()
        self._first.clear()
        self._stirred = False

    def retries(self, job_id: str) -> bool:
        """Whether one who waits is worth another try: a place that does not help it may help one moved."""
        return job_id in self._first

    def plan(self, wish: Wish) -> Plan | None:
        """Whom to move for a job, None if that is impossible, not worth it, or not the time."""
        job = wish.record.job
        if not (self._occasion(wish) and self._plans_left) or job.immediate:
            return None
        self._plans_left -= 1
        return self._repartition.plan(wish, self._ledger.holder_of(job))

    def growths(self, now_s: float) -> list[Plan]:
        """Larger slices for residents of nodes where something was freed that nobody who waits has taken.

        Once a step, when all who wait have been looked at; few GPUs, in the order of nodes and slots.
        """
        rows, self._loosened = self._loosened, []
        if self._recutting is None or not rows:
            return []
        cluster = self._search.cluster
        rows = [row for row in rows if cluster.nodes.item(row, k.UP)]
        gpus = cluster.gpus[rows]
        loose = np.argwhere((gpus[:, :, k.MODE] == k.MIG) & (gpus[:, :, k.FREE_MILLI] > 0))
        places = [(rows[i], slot) for i, slot in loose[:PLANS_A_STEP].tolist()]
        plans = (self._recutting.growth(row, slot, now_s) for row, slot in places)
        return [plan for plan in plans if plan is not None]

    def recut(self, wish: Wish) -> Plan | None:
        """A slice for a job where slices go by speed, perhaps with others moved; None if not now."""
        if self._recutting is None or not self._occasion(wish):
            return None
        return self._recutting.plan(wish)

    def _occasion(self, wish: Wish) -> bool:
        return wish.record.job.job_id in self._newcomers or wish.record.job.job_id in self._first

    def prospect(self, wish: Wish) -> tuple[bool, int]:
        """Whether moving others for a job would be worth it, and at how many places it would not."""
        plan, dear = self._repartition.consider(wish, self._ledger.holder_of(wish.record.job))
        return plan is not None, dear
