"""The openb pods, checked pod by pod by a checker that knows only the CSV files and the decision log."""

import csv
import gzip
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from placement.interference import NoInterference
from simulator.cluster_spec import load_cluster
from simulator.engine import SimulationOptions, simulate
from simulator.traces import ReadOptions, read_trace

DATA = Path(os.environ.get("COTENANT_DATA") or Path(__file__).parents[3] / "shared" / "data") / "fgd"
NODE_LIST = DATA / "openb_node_list_gpu_node.csv"

pytestmark = pytest.mark.skipif(
    not NODE_LIST.is_file(), reason=f"needs fgd/{NODE_LIST.name} under COTENANT_DATA"
)


@dataclass
class Machine:
    """One line of the node list, and what is left of it."""

    model: str
    cpu_milli: int
    memory_mib: int
    gpus: dict[str, int] = field(default_factory=dict)

    def holds(self, pod: dict[str, str]) -> bool:
        """Whether the pod would fit here now."""
        wanted, milli = int(pod["num_gpu"]), int(pod["gpu_milli"])
        if int(pod["cpu_milli"]) > self.cpu_milli or int(pod["memory_mib"]) > self.memory_mib:
            return False
        if wanted and pod.get("gpu_spec") and self.model not in pod["gpu_spec"].split("|"):
            return False
        return sum(left >= milli for left in self.gpus.values()) >= wanted

    def take(self, pod: dict[str, str], shares: list[tuple[str, int]]) -> None:
        """Put the pod here; every constraint is looked at anew."""
        assert self.holds(pod), f"{pod['name']} does not fit where it was put"
        assert len({uuid for uuid, _ in shares}) == len(shares) == int(pod["num_gpu"])
        self.cpu_milli -= int(pod["cpu_milli"])
        self.memory_mib -= int(pod["memory_mib"])
        for uuid, milli in shares:
            assert milli == int(pod["gpu_milli"]), pod["name"]
            assert self.gpus[uuid] >= milli, f"{pod['name']}: {uuid} is promised twice"
            self.gpus[uuid] -= milli


def machines() -> dict[str, Machine]:
    with NODE_LIST.open() as lines:
        return {
            line["sn"]: Machine(
                line["model"],
                int(line["cpu_milli"]),
                int(line["memory_mib"]),
                {f"GPU-{line['sn']}-{slot}": 1000 for slot in range(int(line["gpu"]))},
            )
            for line in csv.DictReader(lines)
        }


def pods_in_order(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt") as lines:
        return sorted(csv.DictReader(lines), key=lambda pod: int(pod["creation_time"]))


def decisions(log: list[str]) -> tuple[list[tuple[str, bool]], dict[str, tuple[str, list[tuple[str, int]]]]]:
    """(pod, placed?) in the order of the decisions, and per placed pod its node and (GPU, milli) shares."""
    decided, places = [], {}
    for line in log:
        words = line.split()
        if words[1] == "start":
            shares = [share.split(":") for share in words[6:]]
            assert words[2] not in places, f"{words[2]} is started twice"
            places[words[2]] = words[5], [(uuid, int(milli)) for uuid, _mode, milli, _memory in shares]
        elif words[3:6] == ["queued", "->", "starting"]:
            decided.append((words[1], True))
        elif words[3:6] == ["queued", "->", "rejected"]:
            decided.append((words[1], False))
    return decided, places


@pytest.mark.parametrize("policy", ["best-fit", "spread"])
@pytest.mark.parametrize("name", ["default", "gpuspec33"])
def test_every_pod_is_decided_once_in_order_and_every_constraint_holds(name, policy):
    path = DATA / f"openb_pod_list_{name}.csv.gz"
    options = SimulationOptions(
        policy, truth=NoInterference(), belief=NoInterference(), keep_decision_log=True
    )
    result = simulate(read_trace(path, ReadOptions()).rows, load_cluster(str(NODE_LIST)), options)
    decided, places = decisions(result.decision_log)

    pods, cluster = pods_in_order(path), machines()
    assert [pod for pod, _ in decided] == [pod["name"] for pod in pods]
    rejected = Counter()
    for pod, (_, placed) in zip(pods, decided, strict=True):
        if placed:
            node, shares = places[pod["name"]]
            cluster[node].take(pod, shares)
        else:
            fitting = [node for node, machine in cluster.items() if machine.holds(pod)]
            assert not fitting, f"{pod['name']} was rejected, but fits on {fitting[:3]}"
            rejected[pod["num_gpu"]] += 1
    assert result.metrics.jobs_rejected == rejected.total() > 0
    assert result.metrics.jobs_total == len(pods)
