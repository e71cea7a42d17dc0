"""Data for the benchmarks that are made up and small."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

_COLUMNS = ["name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"]


def write_gz(path: Path, lines: list[str]) -> None:
    with gzip.open(path, "wt") as file:
        file.write("\n".join(lines) + "\n")


def write_fgd(folder: Path) -> None:
    """A cluster of ten GPUs, two workloads of halves and wholes, and what was published of them."""
    nodes = ["sn,cpu_milli,memory_mib,gpu,model", *(f"node-{n},64000,262144,2,T4" for n in range(5))]
    (folder / "openb_node_list_gpu_node.csv").write_text("\n".join(nodes) + "\n")
    for workload, half in (("default", 500), ("other", 400)):
        pods = [f"pod-{n:02d},1000,1024,1,{half if n % 2 else 1000}" for n in range(12)]
        write_gz(folder / f"openb_pod_list_{workload}.csv.gz", [",".join(_COLUMNS), *pods])
    points = [str(point) for point in range(131)]
    for of, value in (("allo", "95.0"), ("frag", "4.0"), ("frag_ratio", "50.0")):
        rows = [
            f"openb_pod_list_default,{policy},1.3,{seed},10," + ",".join([value] * 131)
            for policy in ("05-BestFit", "06-FGD", "99-Unknown")
            for seed in (42, 43)
        ]
        head = "workload,sc_policy,tune,seed,total_gpus," + ",".join(points)
        write_gz(folder / f"expected_analysis_{of}_discrete.csv.gz", [head, *rows])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder of the experiment of FGD."""
    write_fgd(tmp_path)
    return tmp_path
