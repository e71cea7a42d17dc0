"""How fast the simulator replays the Philly trace, against a bare simpy loop over the same jobs.

::

    python bench/simulator.py --data DIR [--json] [--check] [--policy fifo,...] [--limit N] [--repeat N]

The bare loop has one process and one request of ``Resource(512)`` per job, which waits for its submission,
for one GPU, and for its duration.  ``ratio_to_leanest_simpy`` compares with a loop that starts each process
only when its job is submitted, which keeps the heap small: the least that simpy can do.  Wall times are the
fastest of the repeats; loading the trace is left out everywhere.  ``exceeded`` names the figures above the
project's limits; with ``--check`` there may be none.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if not __package__:
    # Run as a script, its own folder leads the path, and files there hide packages of the same names.
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from bench.arguments import at_least
from bench.data import PHILLY, add_data_option, give_up

if TYPE_CHECKING:
    from simpy.events import Event

    from placement.trace import TraceRow

CLUSTER = "64x8xV100-SXM2-32GB"
POLICIES = ("fifo", "backfill", "best-fit", "srtf")
GROWTH_JOBS = (5_000, 50_000)
WALL_LIMITS_S = {"fifo": 8.0, "backfill": 8.0, "best-fit": 8.0, "srtf": 20.0}
"""For the whole trace; a policy that is not named has none."""
RATIO_LIMIT = 5.0
"""Of the wall time of fifo to that of the bare loop."""
EXPONENT_LIMIT = 1.15


@dataclass(frozen=True, slots=True)
class Settings:
    """What to measure: which policies, on how many jobs, how often, with the extra ``fast`` or without."""

    policies: tuple[str, ...]
    limit: int | None
    repeat: int
    compiled: bool


def bare_simpy_s(rows: Sequence[TraceRow]) -> float:
    """Wall time of a plain simpy program over these jobs, in seconds."""
    import simpy

    def job(submit_s: float, duration_s: float) -> Generator[Event, Any, None]:
        yield env.timeout(submit_s)
        with gpus.request() as request:
            yield request
            yield env.timeout(duration_s)

    env = simpy.Environment()
    gpus = simpy.Resource(env, 512)
    begun_s = time.perf_counter()
    for row in rows:
        env.process(job(row.submit_s, row.duration_s or 0.0))
    env.run()
    return time.perf_counter() - begun_s


def leanest_simpy_s(rows: Sequence[TraceRow]) -> float:
    """Wall time of the same with one more process that starts each job's when it is submitted."""
    import simpy

    def job(duration_s: float) -> Generator[Event, Any, None]:
        with gpus.request() as request:
            yield request
            yield env.timeout(duration_s)

    def arrivals() -> Generator[Event, Any, None]:
        for row in rows:
            if row.submit_s > env.now:
                yield env.timeout(row.submit_s - env.now)
            env.process(job(row.duration_s or 0.0))

    env = simpy.Environment()
    gpus = simpy.Resource(env, 512)
    env.process(arrivals())
    begun_s = time.perf_counter()
    env.run()
    return time.perf_counter() - begun_s


def simulated_s(rows: Sequence[TraceRow], policy: str, settings: Settings) -> float:
    """Wall time of the event loop of one run, in seconds; all jobs must have completed."""
    from placement.interference import model_named
    from simulator.cluster_spec import load_cluster
    from simulator.engine import SimulationOptions, simulate

    model = model_named("additive")
    options = SimulationOptions(policy, truth=model, belief=model, compiled=settings.compiled)
    metrics = simulate(rows, load_cluster(CLUSTER), options).metrics
    if metrics.jobs_completed != len(rows) or metrics.wall_s is None:
        raise SystemExit(f"{policy}: only {metrics.jobs_completed} of {len(rows)} jobs completed")
    return metrics.wall_s


def growth_exponent(rows: Sequence[TraceRow], settings: Settings) -> float | None:
    """How wall time grows with the number of jobs under fifo: 1.0 is linear; None with too few jobs."""
    few, many = GROWTH_JOBS
    if len(rows) < many:
        return None
    # A disturbed measurement tells more here than elsewhere, so each is taken at least twice.
    repeat = max(settings.repeat, 2)
    times = [best(repeat, partial(simulated_s, rows[:jobs], "fifo", settings)) for jobs in (few, many)]
    return math.log(times[1] / times[0]) / math.log(many / few)


def best(repeat: int, measure: Callable[[], float]) -> float:
    """The fastest of several measurements: what is above it is other work on the machine."""
    return min(measure() for _ in range(repeat))


def measure(data: Path, settings: Settings) -> dict[str, Any]:
    """All figures, as they are printed."""
    from simulator.traces import ReadOptions, read_trace

    rows = read_trace(data / PHILLY, ReadOptions(limit=settings.limit)).rows
    policies: dict[str, dict[str, float]] = {}
    for policy in settings.policies:
        # Beside each other, so that all see the same load of the machine.
        bare, leanest, ours = [], [], []
        for _ in range(settings.repeat):
            bare.append(bare_simpy_s(rows))
            ours.append(simulated_s(rows, policy, settings))
            leanest.append(leanest_simpy_s(rows))
        policies[policy] = {
            "wall_s": round(min(ours), 3),
            "jobs_per_s": round(len(rows) / min(ours), 1),
            "ratio_to_bare_simpy": round(min(ours) / min(bare), 3),
            "ratio_to_leanest_simpy": round(min(ours) / min(leanest), 3),
            "bare_simpy_s": round(min(bare), 3),
        }
    exponent = growth_exponent(rows, settings)
    figures = {
        "policies": policies,
        "growth_exponent": round(exponent, 3) if exponent is not None else None,
        "jobs": len(rows),
        "cluster": CLUSTER,
        "compiled": settings.compiled and _numba_is_there(),
    }
    return {**figures, "exceeded": exceeded(figures)}


def exceeded(figures: Mapping[str, Any]) -> list[str]:
    """What is above the limits of the project, each in words."""
    policies = figures["policies"]
    measured = [(f"{name}: wall_s", of["wall_s"], WALL_LIMITS_S.get(name)) for name, of in policies.items()]
    if "fifo" in policies:
        measured.append(("fifo: ratio_to_bare_simpy", policies["fifo"]["ratio_to_bare_simpy"], RATIO_LIMIT))
    measured.append(("growth_exponent", figures["growth_exponent"], EXPONENT_LIMIT))
    return [
        f"{what} is {value:g}, above {limit:g}"
        for what, value, limit in measured
        if value is not None and limit is not None and value > limit
    ]


def _numba_is_there() -> bool:
    import importlib.util

    return importlib.util.find_spec("numba") is not None


def main() -> int:
    """Measure and print; 1 if a limit must be kept and is not."""
    parser = argparse.ArgumentParser(description="Measure the simulator on the Philly trace.")
    add_data_option(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a limit is exceeded")
    parser.add_argument("--policy", default=",".join(POLICIES), help="names, separated by commas")
    parser.add_argument("--limit", type=at_least(1), help="only the first jobs")
    parser.add_argument("--repeat", type=at_least(1), default=1, help="take the fastest of so many runs")
    parser.add_argument("--without-fast", action="store_true", help="do not use compiled kernels")
    arguments = parser.parse_args()
    if not (arguments.data / PHILLY).is_file():
        give_up(parser, arguments.data / PHILLY)
    settings = Settings(
        policies=tuple(arguments.policy.split(",")),
        limit=arguments.limit,
        repeat=max(arguments.repeat, 1),
        compiled=not arguments.without_fast,
    )
    figures = measure(arguments.data, settings)
    if arguments.json:
        print(json.dumps(figures))
    else:
        _show(figures)
    return 1 if arguments.check and figures["exceeded"] else 0


def _show(figures: Mapping[str, Any]) -> None:
    for policy, values in figures["policies"].items():
        print(f"{policy:10} " + "  ".join(f"{name} {value}" for name, value in values.items()))
    print(f"growth exponent {figures['growth_exponent']}, compiled {figures['compiled']}")
    for line in figures["exceeded"]:
        print(f"exceeded: {line}")


if __name__ == "__main__":
    sys.exit(main())
