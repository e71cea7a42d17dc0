"""One run: pods arrive one by one, none leaves, one that fits nowhere is turned away."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from bench.fgd.arrivals import Trial
from bench.fgd.books import Books, Place
from bench.fgd.curves import Curve, Lines
from bench.fgd.inputs import PodRow
from bench.fgd.typical import typical_pods


class Placer(Protocol):
    """Whoever decides: it knows the nodes, the pods that have arrived and the workload's typical pods."""

    def place(self, pod: PodRow) -> Place | None:
        """Decide where an arriving pod runs and take that place; None if it fits nowhere."""
        ...


PlacerFactory = Callable[[Trial, str], Placer]
"""Makes who decides in a trial by a policy of that name."""


@dataclass(frozen=True, slots=True)
class Run:
    """What a run showed."""

    curve: Curve
    wall_s: float
    """Of the whole run, measures included."""


def run_trial(trial: Trial, policy: str, factory: PlacerFactory) -> Run:
    """Run a trial to its end; raises Overcommitted if a pod is put where it does not fit."""
    begun_s = time.perf_counter()
    books = Books(trial.nodes, typical_pods(trial.listed))
    lines = Lines()
    arrived = 0
    placer = factory(trial, policy)
    for pod in trial.pods:
        place = placer.place(pod)
        arrived += pod.total_milli
        if place is not None:
            books.take(pod, place)
        lines.arrived.append(arrived)
        lines.allocated.append(books.allocated_milli)
        lines.fragmented.append(books.fragmented_milli)
    curve = lines.curve(books.capacity_milli)
    return Run(curve, time.perf_counter() - begun_s)
