"""What it brings to know how long jobs last: one workload, with lifetimes unknown, estimated and known.

::

    python bench/lifetimes.py [--seeds 1,2,...] [--load 0.85] [--hours 160] [--json]

Short and long shares and whole GPUs come to a small cluster in such numbers that it would be used to
``--load`` if nothing were lost.  Of each tenant's jobs the lifetimes are alike, but for one who has short and
long ones.  Four ways to place the same jobs: blind to lifetimes (``unknown``); the same, but ``told`` the
durations, which then shape moves alone; ``estimated`` from what ended; and ``known``.
Printed are means over the jobs that came after the first quarter of the time, in seconds, over all seeds.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

if not __package__:
    # Run as a script, its own folder leads the path, and files there hide packages of the same names.
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from bench.times import jct_s, wait_s
from placement.interference import model_named
from placement.model import JobKind, Mode, Request
from placement.policies import PLACEMENTS
from placement.policies.cotenant import Cotenant
from placement.trace import TraceRow
from simulator.cluster_spec import load_cluster
from simulator.engine import SimulationOptions, simulate

CLUSTER = "8x8xA100-SXM4-80GB"
HOUR_S = 3600.0
SPAN_S = 160 * HOUR_S
WARM_UP = 0.25
"""So much of the time is left out, until long jobs have come and gone."""

SHARED = frozenset({Mode.MPS})
WHOLE = frozenset({Mode.EXCLUSIVE})


class Blind(Cotenant):
    """The same placement, but for lifetimes."""

    name = "blind"
    weighs_lifetimes = False


@dataclass(frozen=True, slots=True)
class Source:
    """One tenant's jobs of a kind: ``part`` of the load, durations log-normal about a median."""

    tenant: str
    kind: JobKind
    part: float
    shares_milli: tuple[int, ...]
    gpus: tuple[int, ...]
    median_s: float
    sigma: float = 0.8

    def requests(self) -> list[Request]:
        """What its jobs ask for, all equally often."""
        shares = [Request(compute_milli=milli, modes=SHARED) for milli in self.shares_milli]
        return shares + [Request(gpus=gpus, modes=WHOLE) for gpus in self.gpus]


SHARES_MILLI = (150, 250, 300, 400, 500)
SOURCES = (
    Source("students", JobKind.INTERACTIVE, 0.12, SHARES_MILLI, (), 0.4 * HOUR_S),
    Source("mixed", JobKind.TRAINING, 0.06, SHARES_MILLI, (), 0.4 * HOUR_S),
    Source("mixed", JobKind.TRAINING, 0.12, SHARES_MILLI, (), 20 * HOUR_S),
    Source("serving", JobKind.INFERENCE, 0.25, SHARES_MILLI, (), 40 * HOUR_S),
    Source("research", JobKind.TRAINING, 0.45, (), (1, 1, 2, 2, 4), 3 * HOUR_S),
)
"""Parts add up to one."""

VARIANTS = {
    "unknown": (Blind.name, False),
    "told": (Blind.name, True),
    "estimated": (Cotenant.name, False),
    "known": (Cotenant.name, True),
}
"""Placement, and whether the durations are told."""


def workload(seed: int, gpus: int, load: float, span_s: float = SPAN_S) -> list[TraceRow]:
    """The jobs of one seed in the order of submission."""
    draw = random.Random(seed)
    rows = [row for source in SOURCES for row in _jobs(source, draw, gpus * load, span_s)]
    rows.sort(key=lambda row: row.submit_s)
    return rows


def _jobs(source: Source, draw: random.Random, busy_gpus: float, span_s: float) -> Iterator[TraceRow]:
    requests = source.requests()
    mean_s = source.median_s * math.exp(source.sigma**2 / 2)
    per_job_s = mean_s * statistics.mean(r.gpus * (r.compute_milli or 1000) / 1000 for r in requests)
    rate_per_s = source.part * busy_gpus / per_job_s
    now_s, number = draw.expovariate(rate_per_s), 0
    while now_s < span_s:
        request = draw.choice(requests)
        shape = "whole" if request.modes == WHOLE else "share"
        job_id = f"{shape}-{source.tenant}-{source.median_s:g}-{number}"
        lasts_s = max(round(source.median_s * draw.lognormvariate(0, source.sigma)), 1)
        yield TraceRow(job_id, round(now_s), request, float(lasts_s), tenant=source.tenant, kind=source.kind)
        now_s, number = now_s + draw.expovariate(rate_per_s), number + 1


def run(variant: str, seed: int, load: float, span_s: float) -> dict[str, float]:
    """The figures of one way to place one workload."""
    policy, told = VARIANTS[variant]
    cluster = load_cluster(CLUSTER)
    model = model_named("none")
    options = SimulationOptions(policy, truth=model, belief=model, known_durations=told)
    result = simulate(workload(seed, cluster.gpu_count, load, span_s), cluster, options)
    counted = [each for each in result.outcomes if each.submit_s >= WARM_UP * span_s]
    whole = [each for each in counted if each.job_id.startswith("whole")]
    shares = [each for each in counted if each.job_id.startswith("share")]
    waits = sorted(map(wait_s, whole))
    return {
        "jct_s": statistics.mean(map(jct_s, counted)),
        "whole_jct_s": statistics.mean(map(jct_s, whole)),
        "whole_wait_s": statistics.mean(waits),
        "whole_p90_wait_s": waits[len(waits) * 9 // 10],
        "share_wait_s": statistics.mean(map(wait_s, shares)),
        "jobs": len(result.outcomes),
    }


def measure(seeds: Sequence[int], load: float, span_s: float) -> dict[str, dict[str, float]]:
    """The means over the seeds, by variant."""
    PLACEMENTS[Blind.name] = Blind
    figures = {}
    for variant in VARIANTS:
        runs = [run(variant, seed, load, span_s) for seed in seeds]
        figures[variant] = {name: round(statistics.mean(each[name] for each in runs), 1) for name in runs[0]}
    return figures


def seeds_of(text: str) -> list[int]:
    """Numbers separated by commas.

    Raises:
        argparse.ArgumentTypeError: not a number.
    """
    if not all(part.strip().isdecimal() for part in text.split(",")):
        raise argparse.ArgumentTypeError(f"{text!r}: write whole numbers such as 1,2,3")
    return [int(part) for part in text.split(",")]


def main() -> None:
    """Run all four ways and print them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--seeds", type=seeds_of, default="1,2,3,4,5,6", help="of the workloads, such as 1,2,3"
    )
    parser.add_argument("--load", type=float, default=0.85, help="part of the compute that is asked for")
    parser.add_argument("--hours", type=float, default=SPAN_S / HOUR_S, help="so long jobs come")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args()
    figures = measure(given.seeds, given.load, given.hours * HOUR_S)
    if given.json:
        print(json.dumps(figures))
        return
    print(f"{'':18}" + "".join(f"{name:>18}" for name in next(iter(figures.values()))))
    for variant, values in figures.items():
        print(f"{variant:18}" + "".join(f"{value:18}" for value in values.values()))


if __name__ == "__main__":
    main()
