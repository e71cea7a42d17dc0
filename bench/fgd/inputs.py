"""Nodes, pods and published results as they lie in the data folder.

Source: github.com/hkust-adsl/kubernetes-scheduler-simulator, ``data/csv`` and ``experiments/analysis/
expected_results``.  GPUs and CPUs are counted in thousandths; memory is in MiB.
"""

from __future__ import annotations

import csv
import gzip
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

WHOLE_GPU_MILLI = 1000
_PODS_PREFIX, _PODS_SUFFIX = "openb_pod_list_", ".csv.gz"


class Measure(StrEnum):
    """What is measured, named as in the result files; all in percent."""

    ALLOCATION = "allo"
    """Allocated thousandths, of all."""
    FRAGMENTED = "frag"
    """Fragmented thousandths, of all."""
    FRAGMENT_RATIO = "frag_ratio"
    """Fragmented thousandths, of those that are idle."""


PUBLISHED_POLICIES = {
    "random": "01-Random",
    "dot-product": "02-DotProd",
    "clustering": "03-GpuClustering",
    "packing": "04-GpuPacking",
    "best-fit": "05-BestFit",
    "fgd": "06-FGD",
}
"""Our names of the policies and those of the result files."""


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node of the cluster."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    model: str


@dataclass(frozen=True, slots=True)
class PodRow:
    """What a pod asks for: some CPU and memory, and so many GPUs of which each gives ``gpu_milli``.

    ``models`` lists the GPU models it may run on, separated by ``|``; any model if empty.
    """

    cpu_milli: int
    memory_mib: int
    gpus: int
    gpu_milli: int
    models: str

    @property
    def total_milli(self) -> int:
        """Thousandths of GPUs that it asks for."""
        return self.gpus * self.gpu_milli

    @property
    def is_share(self) -> bool:
        """Whether it asks for a part of one GPU."""
        return self.gpus == 1 and self.gpu_milli < WHOLE_GPU_MILLI

    def accepts(self, model: str) -> bool:
        """Whether it may run on GPUs of this model."""
        named = [name for name in self.models.split("|") if name]
        return not named or model in named


def workloads(folder: Path) -> list[str]:
    """The names of the pod lists in a folder; the default one first."""
    names = [path.name for path in folder.glob(f"{_PODS_PREFIX}*{_PODS_SUFFIX}")]
    found = {name.removeprefix(_PODS_PREFIX).removesuffix(_PODS_SUFFIX) for name in names}
    return sorted(found, key=lambda name: (name != "default", name))


def read_nodes(folder: Path) -> list[NodeRow]:
    """The nodes that have GPUs, by name."""
    with (folder / "openb_node_list_gpu_node.csv").open(encoding="utf-8") as file:
        nodes = [
            NodeRow(row["sn"], int(row["cpu_milli"]), int(row["memory_mib"]), int(row["gpu"]), row["model"])
            for row in csv.DictReader(file)
        ]
    return sorted(nodes, key=lambda node: node.name)


def read_pods(folder: Path, workload: str) -> list[PodRow]:
    """The pods of a workload, by name."""
    rows = _rows(folder / f"{_PODS_PREFIX}{workload}{_PODS_SUFFIX}")
    return [_pod(row) for row in sorted(rows, key=lambda row: row["name"])]


def _pod(row: Mapping[str, str]) -> PodRow:
    gpus = int(row["num_gpu"])
    # Some lists have only the first five columns: their pods may run anywhere.
    models = row.get("gpu_spec") or ""
    milli = int(row["gpu_milli"]) if gpus else 0
    if gpus > 1 and milli != WHOLE_GPU_MILLI:
        raise ValueError(f"pod {row['name']} asks for parts of several GPUs")
    return PodRow(int(row["cpu_milli"]), int(row["memory_mib"]), gpus, milli, models)


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


@dataclass(frozen=True, slots=True)
class Published:
    """Medians over the published runs of one measure: by workload, policy and arrived percent."""

    medians: Mapping[tuple[str, str, int], float]

    def at(self, workload: str, policy: str, arrived_pct: int) -> float | None:
        """The published median, if there is one."""
        return self.medians.get((workload, policy, arrived_pct))


def read_published(folder: Path, measure: Measure, points_pct: tuple[int, ...]) -> Published:
    """The published medians of a measure over all seeds, at some points of arrived percent."""
    names = {published: ours for ours, published in PUBLISHED_POLICIES.items()}
    found: dict[tuple[str, str, int], list[float]] = {}
    for row in _rows(folder / f"expected_analysis_{measure}_discrete.csv.gz"):
        policy = names.get(row["sc_policy"])
        if policy is None:
            continue
        workload = row["workload"].removeprefix(_PODS_PREFIX)
        for point in points_pct:
            if row.get(str(point)):
                found.setdefault((workload, policy, point), []).append(float(row[str(point)]))
    return Published({key: statistics.median(values) for key, values in found.items()})
