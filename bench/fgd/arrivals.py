"""Who arrives and in which order, and in which order the nodes stand: all drawn from one seed.

After the artifact (``pkg/simulator/core.go`` and ``simulator.go``): the list of pods is shuffled and then
filled up with pods drawn from it until the requests are a given multiple of the cluster's GPUs.  The nodes
get numbers at random, too: a policy that takes the first of several equally good nodes takes a random one,
the same for the whole run, and nothing can be won by the nodes' names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.fgd.go_random import GoRandom
from bench.fgd.inputs import WHOLE_GPU_MILLI, NodeRow, PodRow

FULL_PERCENT = 130
"""Pods arrive until their requests are so much of the cluster's GPUs."""

_DRAWS_BEFORE_NODES = 10
"""So many draws the artifact's clients take for their timers between pods and nodes: found by trying, the
same number for all seeds and workloads."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One run's input: nodes in the order in which equal ones are taken, and pods as they arrive."""

    workload: str
    seed: int
    nodes: tuple[NodeRow, ...]
    pods: tuple[PodRow, ...]
    listed: tuple[PodRow, ...]
    """The list of pods from which these were drawn."""

    @property
    def capacity_milli(self) -> int:
        """Thousandths of GPUs that the nodes have."""
        return capacity_milli(self.nodes)


def capacity_milli(nodes: Sequence[NodeRow]) -> int:
    """Thousandths of GPUs that some nodes have."""
    return sum(node.gpus for node in nodes) * WHOLE_GPU_MILLI


def draw_trial(workload: str, nodes: Sequence[NodeRow], pods: Sequence[PodRow], seed: int) -> Trial:
    """The trial of a seed."""
    random = GoRandom(seed)
    random.bits()  # The artifact logs one number.
    arriving = _arriving(pods, capacity_milli(nodes) * FULL_PERCENT // 100, random)
    for _ in range(_DRAWS_BEFORE_NODES):
        random.bits()
    order = list(nodes)
    for node, place in zip(nodes, random.permutation(len(nodes)), strict=True):
        order[place] = node
    return Trial(workload, seed, tuple(order), tuple(arriving), tuple(pods))


def _arriving(pods: Sequence[PodRow], target_milli: int, random: GoRandom) -> list[PodRow]:
    """The pods in random order, fewer or more of them until they ask for the target."""
    if not any(pod.gpus for pod in pods):
        raise ValueError("no pod asks for a GPU, so that no number of them asks for the target")
    arriving = list(pods)
    random.shuffle(arriving)
    asked = sum(pod.total_milli for pod in arriving)
    if asked < target_milli:
        return [*arriving, *_more(pods, target_milli - asked, random)]
    while asked > target_milli:
        asked -= arriving.pop(random.below(len(arriving))).total_milli
    return arriving


def _more(pods: Sequence[PodRow], room_milli: int, random: GoRandom) -> Iterator[PodRow]:
    """Pods of the list, drawn until one finds no more room; those without GPUs always do."""
    while True:
        pod = pods[random.below(len(pods))]
        # The artifact looks at one GPU's request here, even of a pod that asks for several.
        if pod.gpu_milli > room_milli:
            return
        room_milli -= pod.total_milli
        yield pod
