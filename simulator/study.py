"""One trace on one cluster under several policies: what ``cotenant simulate`` does, without the terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from placement.interference import model_named
from placement.model import InvalidInput
from placement.policies import policy_named
from placement.policies.hived import Hived
from simulator.cluster_spec import ClusterSpec, load_cluster
from simulator.engine import SimulationOptions, SimulationResult, simulate
from simulator.profiles import profiles_for
from simulator.traces import ReadOptions, Trace, format_of, read_trace
from simulator.traces.fields import flag

DEFAULT_TRACE = Path(__file__).parent / "data" / "default-trace.csv"
"""Written by ``cotenant trace generate --jobs 1000 --seed 7 --arrivals diurnal``."""

DEFAULT_CLUSTER = "8x8xA100-SXM4-80GB"
"""The cluster that goes with the default trace: some queueing under best-fit, much under strict FIFO."""


@dataclass(frozen=True, slots=True)
class StudySpec:
    """What to simulate; ``trace`` None is the one that ships with the project.

    ``options`` are the user's ``k=v`` pairs: those of the trace format, ``known_durations`` and ``profiles``.
    ``data_folder`` holds public traces and the tables that go with them, such as Gavel's rates.
    """

    policies: tuple[str, ...]
    trace: Path | None = None
    cluster: str | None = None
    trace_format: str | None = None
    truth: str = "additive"
    belief: str = "additive"
    seed: int = 0
    limit: int | None = None
    skip_bad_lines: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    data_folder: Path | None = None


@dataclass(frozen=True, slots=True)
class Study:
    """The results, policy by policy, and what there is to tell about the trace."""

    trace: Trace
    cluster: ClusterSpec
    seed: int
    runs: tuple[tuple[str, SimulationResult], ...]
    notices: tuple[str, ...]

    def rejections(self) -> list[str]:
        """One line per reason for which jobs were rejected, most jobs first; by policy where they differ."""
        told = [
            (policy, [f"{_jobs(count)} rejected: {reason}" for reason, count in _by_count(result.rejections)])
            for policy, result in self.runs
        ]
        if all(lines == told[0][1] for _, lines in told):
            return told[0][1]
        return [f"{policy}: {line}" for policy, lines in told for line in lines]

    def to_dict(self) -> dict[str, Any]:
        """The document that ``-o json`` prints; equal but for wall times when the inputs are equal."""
        return {
            "trace": {
                "file": self.trace.path,
                "format": self.trace.format,
                "jobs": len(self.trace.rows),
                "bad_lines": len(self.trace.bad_lines),
            },
            "cluster": {
                "spec": self.cluster.name,
                "nodes": len(self.cluster.nodes),
                "gpus": self.cluster.gpu_count,
            },
            "runs": [
                {
                    "policy": policy,
                    "seed": self.seed,
                    "metrics": result.metrics.to_dict(),
                    "compile_s": result.compile_s,
                }
                for policy, result in self.runs
            ],
        }


def _jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count} jobs"


def _by_count(reasons: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(reasons.items(), key=lambda item: (-item[1], item[0]))


StudyProgress = Callable[[str, int, int], None]
"""Told the policy and how many of how many jobs have ended under it."""


def run_study(
    spec: StudySpec,
    progress: StudyProgress | None = None,
    tell: Callable[[str], None] = lambda _line: None,
) -> Study:
    """Read, simulate under each policy in turn, and report; ``tell`` gets a line before what takes long.

    Raises:
        InvalidInput: anything of the input that cannot be right; nothing has been simulated then.
    """
    begun_s = time.perf_counter()
    for policy in spec.policies:
        policy_named(policy)
    truth = model_named(spec.truth)
    # The same name means an oracle: the policy believes in the very object that makes jobs slow.
    belief = truth if spec.belief == spec.truth else model_named(spec.belief)
    path, form, cluster = _setting(spec)
    known_durations = flag(spec.options.get("known_durations", "false"), "option known_durations")
    profiles_path = Path(spec.options["profiles"]) if "profiles" in spec.options else None
    trace = read_trace(
        path, ReadOptions(spec.skip_bad_lines, spec.limit, spec.options, spec.data_folder), form
    )
    profiles, notices = profiles_for(trace.rows, profiles_path)
    load_s = time.perf_counter() - begun_s
    options = SimulationOptions(
        spec.policies[0],
        truth,
        belief,
        seed=spec.seed,
        profiles=profiles,
        known_durations=known_durations,
        load_s=load_s,
        tell=tell,
    )
    runs = []
    for policy in spec.policies:
        told = partial(progress, policy) if progress is not None else None
        chosen = replace(options, policy=policy, progress=told)
        runs.append((policy, simulate(trace.rows, cluster, chosen)))
    told_of = (*trace.notices, *notices, *_tenants_without_jobs(spec.policies, trace))
    return Study(trace, cluster, spec.seed, tuple(runs), told_of)


def _tenants_without_jobs(policies: tuple[str, ...], trace: Trace) -> list[str]:
    """A line per policy with cells for tenants of whom the trace has no job: perhaps a misspelt name."""
    present = {row.tenant for row in trace.rows}
    lines = []
    for policy in policies:
        placement = policy_named(policy).placement
        absent = sorted(placement.tenants() - present) if isinstance(placement, Hived) else []
        if absent:
            lines.append(f"{policy}: the trace has no job of tenant {', '.join(absent)}")
    return lines


def _setting(spec: StudySpec) -> tuple[Path, str, ClusterSpec]:
    """The trace's file, its format and the cluster; a trace that is wrong is told before a missing cluster.

    Raises:
        InvalidInput: the file or the format is wrong, or the cluster, or there is none.
    """
    path = spec.trace if spec.trace is not None else DEFAULT_TRACE
    form = format_of(path, spec.trace_format).name
    if spec.trace is not None and spec.cluster is None:
        raise InvalidInput("cluster: is needed with a trace of your own, for example 64x8xV100-SXM2-32GB")
    return path, form, load_cluster(spec.cluster if spec.cluster is not None else DEFAULT_CLUSTER)
