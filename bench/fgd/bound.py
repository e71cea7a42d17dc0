"""How much of the GPUs could be allocated at best: a linear program over the ways to fill one GPU.

An upper bound for whoever decides, even one that knows all arrivals beforehand and may leave out any pod
(configuration LP after Gilmore and Gomory, "A linear programming approach to the cutting-stock problem",
Operations Research 1961).  Pods and GPUs may be split between the configurations.  Nodes of one kind (GPUs,
model, CPU and memory alike) are one pool: all pods there share its CPU and memory, and large pods are no more
than its nodes can hold by their GPUs or their CPU.  Pods without GPUs are left out.

Configurations are generated: a linear program over those known gives a price to every size on every kind of
node, a knapsack finds the best configuration at these prices, and so on until none is worth more than a GPU.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.fgd.inputs import WHOLE_GPU_MILLI, NodeRow, PodRow

_PRECISION = 1e-4
"""Generation ends when no configuration could add more than this share of one percent of all GPUs."""

_MOST_ROUNDS = 200


@dataclass(frozen=True, slots=True)
class NodeKind:
    """Nodes that are alike."""

    gpus: int
    cpu_milli: int
    memory_mib: int
    model: str

    def holds(self, pod: PodRow) -> bool:
        """Whether an empty node of this kind can hold a pod."""
        enough = self.gpus >= pod.gpus and self.cpu_milli >= pod.cpu_milli
        return enough and self.memory_mib >= pod.memory_mib and pod.accepts(self.model)


@dataclass(frozen=True, slots=True)
class Bound:
    """An upper bound of what can be allocated, in thousandths."""

    milli: float
    rounds: int
    configurations: int


def node_kinds(nodes: Sequence[NodeRow]) -> dict[NodeKind, int]:
    """How many nodes there are of each kind."""
    kinds = (NodeKind(node.gpus, node.cpu_milli, node.memory_mib, node.model) for node in nodes)
    return dict(Counter(kinds))


def upper_bound(nodes: Sequence[NodeRow], pods: Iterable[PodRow]) -> Bound:
    """The bound for these pods on these nodes; needs scipy."""
    kinds = node_kinds(nodes)
    placeable = Counter(pod for pod in pods if pod.gpus and any(kind.holds(pod) for kind in kinds))
    if not placeable:
        return Bound(0.0, 0, 0)
    program = _Program(kinds, placeable)
    precision = _PRECISION / 100 * WHOLE_GPU_MILLI * sum(node.gpus for node in nodes)
    best, rounds = float("inf"), 0
    while rounds < _MOST_ROUNDS:
        rounds += 1
        value, prices, gpu_prices = program.solve()
        worth, contents = _fullest(program.sizes, prices)
        # With these prices the value is off by at most what better configurations would add on every GPU.
        gain = np.maximum(worth - gpu_prices, 0.0)
        best = min(best, value + float(program.gpus @ gain))
        if best - value <= precision or not program.add(gain, contents):
            break
    return Bound(best, rounds, len(program.configurations))


def _fullest(sizes: Sequence[int], prices: Any) -> tuple[Any, Any]:
    """For each row of prices, one price a size: what the best configuration is worth, and its counts."""
    kinds = len(prices)
    worth = np.zeros((WHOLE_GPU_MILLI + 1, kinds))
    last = np.full((WHOLE_GPU_MILLI + 1, kinds), -1)
    for room in range(min(sizes), WHOLE_GPU_MILLI + 1):
        worth[room], last[room] = worth[room - 1], -1
        fitting = [number for number, size in enumerate(sizes) if size <= room]
        with_one = np.array([worth[room - sizes[number]] + prices[:, number] for number in fitting])
        chosen = with_one.argmax(axis=0)
        better = with_one.max(axis=0) > worth[room] + 1e-12
        worth[room] = np.where(better, with_one.max(axis=0), worth[room])
        last[room] = np.where(better, np.array(fitting)[chosen], -1)
    counts = np.zeros((kinds, len(sizes)), dtype=np.int64)
    for kind in range(kinds):
        room = WHOLE_GPU_MILLI
        while room > 0:
            number = last[room, kind]
            counts[kind, number] += number >= 0
            room -= sizes[number] if number >= 0 else 1
    return worth[WHOLE_GPU_MILLI], counts


class _Program:
    """The linear program: how many pods of a kind go to a kind of node, how many GPUs get a configuration."""

    def __init__(self, kinds: dict[NodeKind, int], pods: Counter[PodRow]) -> None:
        self._kinds, self._counts = list(kinds), np.array(list(kinds.values()))
        self._pods, self._asked = list(pods), np.array(list(pods.values()), dtype=float)
        self.gpus = np.array([kind.gpus * count for kind, count in kinds.items()])
        self.sizes = sorted({pod.gpu_milli for pod in self._pods})
        self.places = [
            (pod, kind)
            for pod, row in enumerate(self._pods)
            for kind, of in enumerate(self._kinds)
            if of.holds(row)
        ]
        fillings = [(size, WHOLE_GPU_MILLI // size) for size in self.sizes]
        self.configurations = {
            (kind, tuple(count if size == other else 0 for other in self.sizes))
            for kind in range(len(self._kinds))
            for size, count in fillings
        }
        self._fixed_rows, self._fixed_limits = self._limits_of_pods()

    def add(self, gain: Any, contents: Any) -> bool:
        """Take in configurations that would gain something; whether any of them is new."""
        before = len(self.configurations)
        for kind in np.flatnonzero(gain > 1e-9):
            self.configurations.add((int(kind), tuple(int(count) for count in contents[kind])))
        return len(self.configurations) > before

    def solve(self) -> tuple[float, Any, Any]:
        """The most thousandths, the prices of the sizes by kind of node, and those of a GPU of each kind."""
        from scipy.optimize import linprog
        from scipy.sparse import bmat, csr_matrix

        chosen = sorted(self.configurations)
        filled, of_kind = self._linking_rows(chosen)
        rows = bmat([[self._fixed_rows, None], [filled[0], filled[1]], [None, of_kind]], format="csr")
        limits = np.concatenate([self._fixed_limits, np.zeros(filled[0].shape[0]), self.gpus])
        milli = [-self._pods[pod].total_milli for pod, _ in self.places] + [0] * len(chosen)
        solved = linprog(milli, A_ub=csr_matrix(rows), b_ub=limits, method="highs")
        if solved.status != 0:
            raise RuntimeError(f"the linear program was not solved: {solved.message}")
        prices = -solved.ineqlin.marginals[len(self._fixed_limits) :]
        split = len(self._kinds) * len(self.sizes)
        return -solved.fun, prices[:split].reshape(len(self._kinds), -1), prices[split:]

    def _linking_rows(self, chosen: Sequence[tuple[int, tuple[int, ...]]]) -> tuple[tuple[Any, Any], Any]:
        """Pods of a size on a kind of node need configurations with room for it; those need GPUs."""
        number = {size: index for index, size in enumerate(self.sizes)}
        many = len(self.sizes)
        used = _Sparse(len(self._kinds) * many, len(self.places))
        for column, (pod, kind) in enumerate(self.places):
            row = self._pods[pod]
            used.put(kind * many + number[row.gpu_milli], column, row.gpus)
        given = _Sparse(len(self._kinds) * many, len(chosen))
        of_kind = _Sparse(len(self._kinds), len(chosen))
        for column, (kind, counts) in enumerate(chosen):
            of_kind.put(kind, column, 1)
            for index, count in enumerate(counts):
                given.put(kind * many + index, column, -count)
        return (used.matrix(), given.matrix()), of_kind.matrix()

    def _limits_of_pods(self) -> tuple[Any, Any]:
        """Rows over the places of pods alone, and their limits."""
        found = list(self._limits())
        matrix = _Sparse(len(found), len(self.places))
        for row, (weights, _limit) in enumerate(found):
            for column, weight in weights.items():
                matrix.put(row, column, weight)
        return matrix.matrix(), np.array([limit for _weights, limit in found], dtype=float)

    def _limits(self) -> Iterator[tuple[dict[int, int], float]]:
        """Weights of places, and what they may add up to."""
        of_pod: dict[int, list[int]] = {}
        of_kind: dict[int, list[int]] = {}
        for column, (pod, kind) in enumerate(self.places):
            of_pod.setdefault(pod, []).append(column)
            of_kind.setdefault(kind, []).append(column)
        for pod, columns in of_pod.items():
            yield dict.fromkeys(columns, 1), self._asked[pod]
        for kind, columns in of_kind.items():
            yield from self._limits_of_kind(
                kind, {column: self._pods[self.places[column][0]] for column in columns}
            )

    def _limits_of_kind(self, kind: int, there: dict[int, PodRow]) -> Iterator[tuple[dict[int, int], float]]:
        of, nodes = self._kinds[kind], int(self._counts[kind])
        yield {column: pod.cpu_milli for column, pod in there.items()}, of.cpu_milli * nodes
        yield {column: pod.memory_mib for column, pod in there.items()}, of.memory_mib * nodes
        # Of pods that take more than a (most + 1)-th part of a node, a node holds no more than `most`.
        for most in range(1, of.gpus):
            for large in (
                {column: 1 for column, pod in there.items() if pod.gpus * (most + 1) > of.gpus},
                {column: 1 for column, pod in there.items() if pod.cpu_milli * (most + 1) > of.cpu_milli},
            ):
                if large:
                    yield large, most * nodes


class _Sparse:
    """A sparse matrix in the making."""

    def __init__(self, rows: int, columns: int) -> None:
        self._shape = rows, columns
        self._entries: list[tuple[int, int, float]] = []

    def put(self, row: int, column: int, value: float) -> None:
        if value:
            self._entries.append((row, column, value))

    def matrix(self) -> Any:
        from scipy.sparse import csr_matrix

        rows, columns, values = zip(*self._entries, strict=True)
        return csr_matrix((values, (rows, columns)), shape=self._shape)
