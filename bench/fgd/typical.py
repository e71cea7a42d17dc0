"""Which pods are typical of a workload: against them fragmentation is measured.

ATC 2023, section 4; ``GetTypicalPods`` of the artifact: the most frequent requests until they make up 95 % of
all pods, those without GPUs among them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from bench.fgd.inputs import PodRow

TYPICAL_PERCENT = 95


@dataclass(frozen=True, slots=True)
class TypicalPod:
    """A frequent request and how many pods of the list make it; memory does not count."""

    cpu_milli: int
    gpu_milli: int
    gpus: int
    models: str
    count: int


def typical_pods(pods: Sequence[PodRow]) -> list[TypicalPod]:
    """The most frequent requests, most frequent first."""
    counts = Counter((pod.cpu_milli, pod.gpu_milli, pod.gpus, pod.models) for pod in pods)
    by_count = sorted(((count, request) for request, count in counts.items()), reverse=True)
    typical, covered = [], 0
    for count, request in by_count:
        if covered * 100 >= TYPICAL_PERCENT * len(pods):
            break
        covered += count
        typical.append(TypicalPod(*request, count))
    return typical
