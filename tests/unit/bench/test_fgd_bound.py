"""The offline bound: exact where the answer is plain, never below what some packing reaches."""

from __future__ import annotations

import json
import random
import sys
from functools import cache

import pytest

from bench import fgd_bound
from bench.fgd.bound import node_kinds, upper_bound
from bench.fgd.inputs import NodeRow, PodRow

pytest.importorskip("scipy", reason="needs the extra `solvers`")


def pod(gpus: int = 1, gpu_milli: int = 1000, **fields: int | str) -> PodRow:
    return PodRow(**{"cpu_milli": 1, "memory_mib": 1, "models": "", **fields}, gpus=gpus, gpu_milli=gpu_milli)


def nodes(count: int = 1, gpus: int = 1, model: str = "T4", cpu_milli: int = 100) -> list[NodeRow]:
    return [NodeRow(f"{model}-{number}", cpu_milli, 100, gpus, model) for number in range(count)]


@pytest.mark.parametrize(
    ("cluster", "pods", "expected_milli"),
    [
        (nodes(), [], 0),
        (nodes(), [pod(gpus=0, gpu_milli=0)], 0),
        (nodes(2), [pod(gpu_milli=size) for size in (600, 600, 400, 400)], 2000),
        (nodes(2), [pod(gpu_milli=600)] * 3, 1200),
        (nodes(3), [pod(gpu_milli=810)] * 9 + [pod(gpu_milli=190)] * 2, 2810),
        (nodes(2, gpus=4), [pod(8)], 0),
        (nodes(1, gpus=8), [pod(8), pod(4)], 8000),
        # By the number of GPUs one node has room for one of them only.
        (nodes(2, gpus=4), [pod(3)] * 2 + [pod(2)] * 2, 8000),
        (nodes(2, gpus=5), [pod(3)] * 4, 6000),
        (nodes(2, model="P100"), [pod(models="T4|V100")] * 2, 0),
        (nodes(1) + nodes(3, model="P100"), [pod(models="T4")] * 2 + [pod(gpu_milli=500)], 1500),
        (nodes(2, gpus=4), [pod(cpu_milli=50, gpu_milli=500)] * 9, 2000),
        (nodes(2, gpus=4), [pod(cpu_milli=51, gpu_milli=500)] * 9, 1000),
        (nodes(2, gpus=4), [pod(cpu_milli=101)] * 9, 0),
        (nodes(2, gpus=4), [pod(memory_mib=40)] * 9, 5000),
        # The CPU that the large pod leaves is enough for 40/45 of a small one.
        (nodes(1, gpus=4), [pod(2, cpu_milli=60)] + [pod(cpu_milli=45)] * 2, 2889),
    ],
)
def test_plain_cases(cluster, pods, expected_milli):
    assert upper_bound(cluster, pods).milli == pytest.approx(expected_milli, abs=0.5)


def best_packing(idle: tuple[tuple[int, ...], ...], cpu: tuple[int, ...], pods: tuple[PodRow, ...]) -> int:
    """The most that can be allocated, by trying everything."""

    @cache
    def best(idle: tuple[tuple[int, ...], ...], cpu: tuple[int, ...], number: int) -> int:
        if number == len(pods):
            return 0
        asked = pods[number]
        found = best(idle, cpu, number + 1)
        for at, gpus in enumerate(idle):
            if cpu[at] < asked.cpu_milli:
                continue
            left_cpu = (*cpu[:at], cpu[at] - asked.cpu_milli, *cpu[at + 1 :])
            fitting = [gpu for gpu, left in enumerate(gpus) if left >= asked.gpu_milli]
            if len(fitting) < asked.gpus:
                continue
            starts = fitting if asked.gpus == 1 else fitting[:1]
            for first in starts:
                taken = {first} if asked.gpus == 1 else set(fitting[: asked.gpus])
                left = tuple(sorted(free - asked.gpu_milli * (gpu in taken) for gpu, free in enumerate(gpus)))
                then = best((*idle[:at], left, *idle[at + 1 :]), left_cpu, number + 1)
                found = max(found, asked.total_milli + then)
        return found

    return best(idle, cpu, 0)


@pytest.mark.parametrize("seed", range(25))
def test_no_packing_is_above_the_bound(seed):
    drawn = random.Random(seed)
    cluster = [
        NodeRow(f"n{number}", drawn.choice([4, 8]), 100, drawn.choice([1, 2]), "T4")
        for number in range(drawn.randint(1, 3))
    ]
    pods = tuple(
        pod(cpu_milli=drawn.randint(1, 3), gpu_milli=drawn.choice([190, 300, 460, 500, 810]))
        if drawn.random() < 0.75
        else pod(drawn.choice([1, 2]), cpu_milli=drawn.randint(1, 5))
        for _ in range(drawn.randint(2, 7))
    )
    packed = best_packing(
        tuple((1000,) * node.gpus for node in cluster), tuple(node.cpu_milli for node in cluster), pods
    )
    bound = upper_bound(cluster, pods).milli
    assert packed - 0.5 <= bound <= sum(node.gpus for node in cluster) * 1000 + 0.5


def test_nodes_of_a_kind_are_one_pool():
    assert sorted(node_kinds(nodes(3) + nodes(2, gpus=4)).values()) == [2, 3]


def test_json_has_the_bounds_beside_the_published_fgd(tmp_path, monkeypatch, capsys):
    import gzip

    (tmp_path / "openb_node_list_gpu_node.csv").write_text(
        "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(f"n{n},64000,262144,2,T4\n" for n in range(5))
    )
    files = {
        "openb_pod_list_default.csv.gz": "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n"
        + "".join(f"p{n:02d},1000,1024,1,600\n" for n in range(9)),
        "expected_analysis_allo_discrete.csv.gz": "workload,sc_policy,tune,seed,total_gpus,100\n"
        "openb_pod_list_default,06-FGD,1.3,42,10,59.5\n",
    }
    for name, text in files.items():
        with gzip.open(tmp_path / name, "wt") as file:
            file.write(text)
    monkeypatch.setattr(sys, "argv", ["fgd_bound", "--data", str(tmp_path), "--json"])
    assert fgd_bound.main() == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["seed"] == 42
    # Each GPU holds one pod of 600 thousandths; 16 of them have arrived at 100 %.
    assert figures["workloads"]["default"] == {
        "100": {"bound_pct": 60.0, "published_fgd_pct": 59.5},
        "110": {"bound_pct": 60.0, "published_fgd_pct": None},
        "130": {"bound_pct": 60.0, "published_fgd_pct": None},
    }
