"""Replays the experiment of "Beware of Fragmentation" (ATC 2023) and compares it with the published results.

::

    python bench/published_fgd.py --data DIR [--workload NAME] [--policy fgd,...] [--seeds 42-51] [--json]

DIR/fgd has the node list, pod lists and result files of github.com/hkust-adsl/kubernetes-scheduler-simulator.
Pods arrive one by one until they ask for 130 % of the GPUs; none leaves; the placements are made by this
project's decision core under each policy.  Printed are medians over the seeds at 60 to 130 % arrived, beside
the published medians, and the wall time of all runs.  ``exceeded`` names what is further apart, or slower,
than the project allows (all runs together only where everything ran); with ``--check`` the program ends
with 1 if there is any.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if not __package__:
    # Run as a script, its own folder leads the path, and files there hide packages of the same names.
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from bench.arguments import at_least
from bench.data import FGD, add_data_option, fgd_folder, give_up
from bench.fgd.arrivals import draw_trial
from bench.fgd.curves import POINTS_PCT, median_curve
from bench.fgd.experiment import Run, run_trial
from bench.fgd.inputs import Measure, PodRow, read_nodes, read_pods, read_published, workloads
from bench.fgd.table import POLICIES, Results, as_json, as_text

if TYPE_CHECKING:
    from bench.fgd.experiment import PlacerFactory
    from bench.fgd.inputs import NodeRow

_TIMED = ("default", "fgd")


@dataclass(frozen=True, slots=True)
class Settings:
    """What to run: every policy on every workload with every seed, in so many processes."""

    folder: Path
    workloads: tuple[str, ...]
    policies: tuple[str, ...]
    seeds: tuple[int, ...]
    processes: int


@dataclass(frozen=True, slots=True)
class _Task:
    folder: Path
    workload: str
    policy: str
    seed: int


@cache
def _nodes(folder: Path) -> tuple[NodeRow, ...]:
    return tuple(read_nodes(folder))


@cache
def _pods(folder: Path, workload: str) -> tuple[PodRow, ...]:
    return tuple(read_pods(folder, workload))


def _run(task: _Task, factory: PlacerFactory | None = None) -> Run:
    if factory is None:
        from bench.fgd.core_placer import core_placer

        factory = core_placer
    pods = _pods(task.folder, task.workload)
    return run_trial(draw_trial(task.workload, _nodes(task.folder), pods, task.seed), task.policy, factory)


def _runs(tasks: Sequence[_Task], processes: int, factory: PlacerFactory | None) -> Iterator[Run]:
    if processes == 1:
        yield from (_run(task, factory) for task in tasks)
        return
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(_run, tasks)


def measure(settings: Settings, factory: PlacerFactory | None = None) -> Results:
    """All runs and their medians; ``factory`` replaces the decision core, in one process only."""
    tasks = [
        _Task(settings.folder, workload, policy, seed)
        for workload in settings.workloads
        for policy in settings.policies
        for seed in settings.seeds
    ]
    runs: dict[_Task, Run] = {}
    begin_s = time.perf_counter()
    for task, run in zip(tasks, _runs(tasks, settings.processes, factory), strict=True):
        runs[task] = run
        if sys.stderr.isatty():
            print(f"\r{len(runs)} of {len(tasks)} runs", end="", file=sys.stderr)
    wall_s = time.perf_counter() - begin_s
    curves = {
        workload: {
            policy: median_curve(
                [runs[_Task(settings.folder, workload, policy, seed)].curve for seed in settings.seeds]
            )
            for policy in settings.policies
        }
        for workload in settings.workloads
    }
    published = {of: read_published(settings.folder, of, POINTS_PCT) for of in Measure}
    walls_s = [run.wall_s for task, run in runs.items() if (task.workload, task.policy) == _TIMED]
    per_run_s = statistics.median(walls_s) if walls_s else None
    return Results(curves, published, settings.seeds, per_run_s, wall_s)


def _seeds(text: str) -> tuple[int, ...]:
    """``42-51``, ``42,45`` or a mixture of both.

    Raises:
        argparse.ArgumentTypeError: no such list, or an empty one.
    """
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        last = last or first
        if not (first.isdecimal() and last.isdecimal() and int(first) <= int(last)):
            raise argparse.ArgumentTypeError(f"{part!r}: write seeds such as 42-51 or 42,45")
        found += range(int(first), int(last) + 1)
    return tuple(found)


def _settings(parser: argparse.ArgumentParser) -> tuple[Settings, argparse.Namespace]:
    add_data_option(parser)
    parser.add_argument("--workload", action="append", help="of the pod lists there (default: all)")
    parser.add_argument("--policy", default=",".join(POLICIES), help="policies, separated by commas")
    parser.add_argument("--seeds", type=_seeds, default="42-51", help="such as 42-51 or 42,45")
    parser.add_argument("--processes", type=at_least(1), default=os.cpu_count(), help="(default: one a CPU)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--check", action="store_true", help="end with 1 if a limit is exceeded")
    given = parser.parse_args()
    folder = fgd_folder(given.data)
    found = workloads(folder)
    if not found:
        give_up(parser, given.data / FGD)
    for name in given.workload or ():
        if name not in found:
            parser.error(f"there is no workload {name!r} in {folder}; choose among {', '.join(found)}")
    policies = tuple(given.policy.split(","))
    for name in policies:
        if name not in POLICIES:
            parser.error(f"there is no policy {name!r} here; choose among {', '.join(POLICIES)}")
    chosen = tuple(given.workload or found)
    return Settings(folder, chosen, policies, given.seeds, given.processes or 1), given


def main() -> int:
    """Run what is asked for and print it; 1 if it is checked and a limit is exceeded."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    settings, given = _settings(parser)
    results = measure(settings)
    figures = as_json(results)
    print(json.dumps(figures) if given.json else as_text(results))
    return 1 if given.check and figures["exceeded"] else 0


if __name__ == "__main__":
    sys.exit(main())
