"""What is taken on every node, kept apart from whoever decides, and how much of the rest is fragmented.

The fragments of a node are measured against typical pods (ATC 2023, section 4.2; ``pkg/utils/frag.go`` of
the artifact): for a pod that fits the node, the idle parts of GPUs that are too small for it; for one that
does not, all that is idle on the node.  A pod without GPUs counts as one that does not fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.fgd.inputs import WHOLE_GPU_MILLI, NodeRow, PodRow
from bench.fgd.typical import TypicalPod


class Overcommitted(Exception):
    """A pod was put where it does not fit."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a pod runs: a node by its place in the trial's order, and the numbers of its GPUs there."""

    node: int
    gpus: tuple[int, ...]


class Books:
    """Free CPU, memory and thousandths of every node, and the cluster's fragments in thousandths."""

    def __init__(self, nodes: Sequence[NodeRow], typical: Sequence[TypicalPod]) -> None:
        self._nodes = nodes
        self._cpu_milli = [node.cpu_milli for node in nodes]
        self._memory_mib = [node.memory_mib for node in nodes]
        self._idle = [np.full(node.gpus, WHOLE_GPU_MILLI, np.int64) for node in nodes]
        self._yardstick = _Yardstick(nodes, typical)
        self._fragments = [self._measured(node) for node in range(len(nodes))]
        self._weighed = sum(self._fragments)
        self.capacity_milli = sum(len(idle) for idle in self._idle) * WHOLE_GPU_MILLI
        self.allocated_milli = 0

    @property
    def idle_milli(self) -> int:
        """Thousandths that nobody uses."""
        return self.capacity_milli - self.allocated_milli

    @property
    def fragmented_milli(self) -> float:
        """Those of the idle thousandths that typical pods cannot use."""
        return self._weighed / self._yardstick.pods

    def take(self, pod: PodRow, place: Place) -> None:
        """Enter a pod, or raise Overcommitted."""
        row = self._nodes[place.node]
        idle = self._idle[place.node]
        chosen = list(place.gpus)
        fits = (
            len(set(chosen)) == len(chosen) == pod.gpus
            and (not chosen or (pod.accepts(row.model) and idle[chosen].min() >= pod.gpu_milli))
            and self._cpu_milli[place.node] >= pod.cpu_milli
            and self._memory_mib[place.node] >= pod.memory_mib
        )
        if not fits:
            raise Overcommitted(f"{pod} does not fit GPUs {chosen} of {row.name}")
        self._cpu_milli[place.node] -= pod.cpu_milli
        self._memory_mib[place.node] -= pod.memory_mib
        idle[chosen] -= pod.gpu_milli
        self.allocated_milli += pod.total_milli
        fragments = self._measured(place.node)
        self._weighed += fragments - self._fragments[place.node]
        self._fragments[place.node] = fragments

    def _measured(self, node: int) -> int:
        return self._yardstick.fragments(self._idle[node], self._cpu_milli[node], self._nodes[node].model)


class _Yardstick:
    """The typical pods as arrays; fragments are weighed by their counts, so that they stay integers."""

    def __init__(self, nodes: Sequence[NodeRow], typical: Sequence[TypicalPod]) -> None:
        self.pods = sum(pod.count for pod in typical)
        self._cpu_milli = np.array([pod.cpu_milli for pod in typical])
        self._gpu_milli = np.array([pod.gpu_milli for pod in typical])
        self._gpus = np.array([pod.gpus for pod in typical])
        self._counts = np.array([pod.count for pod in typical], dtype=np.int64)
        self._served = {
            model: np.array([pod.gpus > 0 and _accepts(pod, model) for pod in typical])
            for model in {node.model for node in nodes}
        }

    def fragments(self, idle: Any, cpu_milli: int, model: str) -> int:
        """Fragments of a node, times the number of typical pods."""
        enough = idle >= self._gpu_milli[:, None]
        fits = self._served[model] & (self._cpu_milli <= cpu_milli) & (enough.sum(axis=1) >= self._gpus)
        usable = np.where(fits, enough @ idle, 0)
        return int(self._counts @ (idle.sum() - usable))


def _accepts(pod: TypicalPod, model: str) -> bool:
    return PodRow(pod.cpu_milli, 0, pod.gpus, pod.gpu_milli, pod.models).accepts(model)
