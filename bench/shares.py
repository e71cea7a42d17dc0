"""What it brings to choose how large a share is: one workload, with shares as asked for and chosen.

::

    python bench/shares.py [--seeds 1,2,...] [--load 0.9,1.1] [--promised 0.5] [--hours 72] [--json]

Jobs of the shipped profiles come to a small cluster in such numbers that it would be used to ``--load`` if
each took what it can use.  All leave their compute open; ``--promised`` of them say how slow they may be.
Twice the same placement: ``as-used`` gives each job the share that its profile says it can use, ``chosen``
may give those with a promise less.  Printed are means over the jobs that came after the first quarter of the
time, over all seeds; ``broken`` counts the jobs that were slower than promised while they ran.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

if not __package__:
    # Run as a script, its own folder leads the path, and files there hide packages of the same names.
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from bench.lifetimes import seeds_of
from bench.times import jct_s, wait_s
from placement.alternatives import Smaller
from placement.interference import model_named
from placement.model import Profile, Request
from placement.policies import PLACEMENTS
from placement.policies.cotenant import Cotenant
from placement.trace import TraceRow
from simulator.cluster_spec import load_cluster
from simulator.engine import SimulationOptions, simulate
from simulator.profiles import SHIPPED, load_profiles

CLUSTER = "4x8xA100-SXM4-80GB"
HOUR_S = 3600.0
MEDIAN_S, SIGMA = 1.0 * HOUR_S, 1.0
PROMISES = (1.5, 2.0, 3.0)
WARM_UP = 0.25
"""So much of the time is left out, until long jobs have come and gone."""


class AsUsed(Cotenant):
    """The same placement, but each share is as large as the job can use."""

    name = "as-used"
    smaller_slice = Smaller.NONE


VARIANTS = {AsUsed.name: AsUsed.name, "chosen": Cotenant.name}


@dataclass(frozen=True, slots=True)
class Workload:
    """Of one seed: the load, the part of jobs with a promise, and for how long jobs come."""

    seed: int
    load: float
    promised: float
    span_s: float

    def rows(self, gpus: int, profiles: Sequence[Profile]) -> list[TraceRow]:
        """The jobs in the order of submission."""
        draw = random.Random(self.seed)
        used = statistics.mean((profile.sm_milli or 1000) / 1000 for profile in profiles)
        mean_s = MEDIAN_S * math.exp(SIGMA**2 / 2)
        rate_per_s = gpus * self.load / (used * mean_s)
        rows: list[TraceRow] = []
        now_s = draw.expovariate(rate_per_s)
        while now_s < self.span_s:
            profile = draw.choice(profiles)
            promise = draw.choice(PROMISES) if draw.random() < self.promised else None
            lasts_s = max(round(MEDIAN_S * draw.lognormvariate(0, SIGMA)), 1)
            request = Request(max_slowdown=promise)
            rows.append(
                TraceRow(f"job-{len(rows)}", round(now_s), request, float(lasts_s), profile=profile.name)
            )
            now_s += draw.expovariate(rate_per_s)
        return rows


def run(policy: str, workload: Workload) -> dict[str, float]:
    """The figures of one way to place one workload."""
    cluster, profiles, model = load_cluster(CLUSTER), load_profiles(SHIPPED), model_named("additive")
    options = SimulationOptions(policy, truth=model, belief=model, profiles=tuple(profiles))
    result = simulate(workload.rows(cluster.gpu_count, profiles), cluster, options)
    counted = [each for each in result.outcomes if each.submit_s >= WARM_UP * workload.span_s]
    waits = sorted(map(wait_s, counted))
    slowed = [(each.slowdown, each.max_slowdown) for each in counted if each.slowdown is not None]
    return {
        "jct_s": statistics.mean(map(jct_s, counted)),
        "wait_s": statistics.mean(waits),
        "p90_wait_s": waits[len(waits) * 9 // 10],
        "slowdown": statistics.mean(slowdown for slowdown, _most in slowed),
        "promised": sum(most is not None for _slowdown, most in slowed),
        "broken": sum(most is not None and slowdown > most + 1e-6 for slowdown, most in slowed),
    }


def measure(seeds: Sequence[int], load: float, promised: float, span_s: float) -> dict[str, dict[str, float]]:
    """The means over the seeds, by variant."""
    PLACEMENTS[AsUsed.name] = AsUsed
    figures = {}
    for variant, policy in VARIANTS.items():
        runs = [run(policy, Workload(seed, load, promised, span_s)) for seed in seeds]
        figures[variant] = {name: round(statistics.mean(each[name] for each in runs), 3) for name in runs[0]}
    return figures


def loads_of(text: str) -> list[float]:
    """Numbers separated by commas.

    Raises:
        argparse.ArgumentTypeError: not a number above 0.
    """
    try:
        loads = [float(part) for part in text.split(",")]
    except ValueError:
        loads = [0.0]
    if not all(0 < load < 100 for load in loads):
        raise argparse.ArgumentTypeError(f"{text!r}: write numbers above 0 such as 0.9,1.1")
    return loads


def main() -> None:
    """Run both ways at each load and print them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=seeds_of, default="1,2,3,4,5,6", help="of the workloads, such as 1,2")
    parser.add_argument(
        "--load", type=loads_of, default="0.9,1.1", help="parts of the compute that jobs can use"
    )
    parser.add_argument("--promised", type=float, default=0.5, help="part of the jobs that state a promise")
    parser.add_argument("--hours", type=float, default=72, help="so long jobs come")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args()
    span_s = given.hours * HOUR_S
    figures = {str(load): measure(given.seeds, load, given.promised, span_s) for load in given.load}
    if given.json:
        print(json.dumps(figures))
        return
    for load, variants in figures.items():
        print(f"{'load ' + load:12}" + "".join(f"{name:>14}" for name in next(iter(variants.values()))))
        for variant, values in variants.items():
            print(f"{variant:12}" + "".join(f"{value:14}" for value in values.values()))


if __name__ == "__main__":
    main()
