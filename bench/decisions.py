"""How fast the core decides, and how that grows with the cluster.

::

    python bench/decisions.py [--gpus N[,N...]] [--stream templates|raw] [--policy P] [--json]

A cluster of eight GPUs a node, half A100 and half H100, is filled by a mixed stream of shares, MIG slices,
whole GPUs and gangs, and kept 90 % full: whoever leaves, drawn at random, makes room for who comes.  Timed is
the search for one job with the commit of its shares, a gang being one decision; departures are not, nor what
``Scheduler.step`` keeps beside it (queue, records, commands).  ``p50_us`` and ``p99_us`` are CPU time of the
thread, ``wall_p99_us`` is wall time, and ``decisions_per_s`` is the reverse of the mean CPU time.  Each run
is a process of its own.

Afterwards the bounded answers are compared with the full search (``loss``), and a checker that shares no code
with the core looks at everything that is placed (``check``).  ``growth_exponent`` is that of p50 from the
smallest to the largest cluster; with one size given, a tenth of it is run for it as well.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if not __package__:
    # Run as a script, its own folder leads the path, and files there hide packages of the same names.
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from bench.arguments import at_least
from placement.model import CotenantError
from placement.options import SIGHT
from placement.policies import policy_named

ROOT = Path(__file__).resolve().parents[1]
STREAMS = ("templates", "raw")
POLICY = "cotenant"
SIZES = (10_000, 100_000)
SIZE_STEP = 8
"""GPUs of a node."""

LIMITS_FROM_GPUS = 100_000
TIME_LIMITS_US = {
    ("templates", True): {"p50_us": 100.0, "p99_us": 1000.0},
    ("raw", True): {"p50_us": 200.0, "p99_us": 2000.0},
    ("templates", False): {"p50_us": 500.0},
}
"""By stream and whether the extra ``fast`` is used; bounded mode, clusters of 100,000 GPUs."""
RSS_LIMIT_MIB = 600.0
EXPONENT_LIMIT = 0.3


@dataclass(frozen=True, slots=True)
class Settings:
    """What to run: every size with every stream, each with these options of :class:`decision_run.Plan`."""

    sizes: tuple[int, ...]
    streams: tuple[str, ...]
    options: Mapping[str, Any]


def measure(settings: Settings) -> dict[str, Any]:
    """All figures, as they are printed.

    Raises:
        SystemExit: a run failed; it has said why.
    """
    runs = [
        run_apart({"gpus": gpus, "stream": stream, **settings.options})
        for stream in settings.streams
        for gpus in settings.sizes
    ]
    figures = {"runs": runs, "growth_exponent": growth(runs)}
    return {**figures, "exceeded": exceeded(figures)}


def run_apart(plan: Mapping[str, Any]) -> dict[str, Any]:
    """One run in a process of its own."""
    command = [sys.executable, "-m", "bench.decision_run", json.dumps(plan)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False, text=True, cwd=ROOT)
    if done.returncode:
        raise SystemExit(f"the run of {plan} failed")
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def growth(runs: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """By stream, the exponent with which p50 grows with the cluster; None with one size."""
    exponents: dict[str, float | None] = {}
    for stream in dict.fromkeys(run["stream"] for run in runs):
        ordered = sorted((run["gpus"], run["p50_us"]) for run in runs if run["stream"] == stream)
        (few, fast), (many, slow) = ordered[0], ordered[-1]
        exponents[stream] = round(math.log(slow / fast) / math.log(many / few), 3) if many > few else None
    return exponents


def exceeded(figures: Mapping[str, Any]) -> list[str]:
    """What is above the limits of the project, each in words; they are those of the default policy."""
    return [
        f"{what} is {value:g}, not below {limit:g}"
        for what, value, limit in _limited(figures)
        if value is not None and value >= limit
    ]


def _limited(figures: Mapping[str, Any]) -> Iterator[tuple[str, float | None, float]]:
    for run in figures["runs"]:
        name = f"{run['stream']}, {run['gpus']} GPUs"
        if "check" in run:
            yield f"{name}: violations", run["check"]["violations"], 1
        if run["policy"] != POLICY or run["mode"] != "bounded" or run["gpus"] < LIMITS_FROM_GPUS:
            continue
        for figure, limit in TIME_LIMITS_US.get((run["stream"], run["compiled"]), {}).items():
            yield f"{name}: {figure}", run[figure], limit
        if run["compiled"]:
            yield f"{name}: rss_mib", run["rss_mib"], RSS_LIMIT_MIB
    if any(run["policy"] == POLICY and run["compiled"] for run in figures["runs"]):
        for stream, exponent in figures["growth_exponent"].items():
            yield f"{stream}: growth_exponent", exponent, EXPONENT_LIMIT


def table(figures: Mapping[str, Any]) -> Iterator[str]:
    """The figures for people."""
    head = ("gpus", "stream", "p50 us", "p99 us", "wall p99 us", "per s", "rss MiB", "no fit")
    yield f"{head[0]:>8}  {head[1]:10}" + "".join(f"{name:>13}" for name in head[2:])
    for run in figures["runs"]:
        values = [run[name] for name in ("p50_us", "p99_us", "wall_p99_us", "decisions_per_s", "rss_mib")]
        row = "".join(f"{value:13,.0f}" for value in (*values, run["no_fits"]))
        yield f"{run['gpus']:8}  {run['stream']:10}{row}"
    for run in figures["runs"]:
        name = f"{run['gpus']} GPUs, {run['stream']}"
        if "loss" in run:
            yield f"{name}: " + loss_in_words(run["loss"])
        if "check" in run:
            found = run["check"]
            yield f"{name}: {found['violations']} violations in {found['decisions']} decisions checked"
            yield from (f"    {line}" for line in found["first"])
    for stream, exponent in figures["growth_exponent"].items():
        grows = "not measured: one size" if exponent is None else f"GPUs to the power of {exponent:.2f}"
        yield f"growth of p50, {stream}: {grows}"
    for line in figures["exceeded"]:
        yield f"exceeded: {line}"


def loss_in_words(loss: Mapping[str, Any]) -> str:
    """What the bounded search loses against the full one."""
    return (
        f"bounded answers score {loss['mean_score']:,} on average where the full search has "
        f"{loss['mean_score_exact']:,}; worse in {loss['worse_pct']} % of {loss['compared']}, "
        f"{loss['extra_no_fits']} refusals more in {loss['decisions']}"
    )


def sizes_of(text: str) -> tuple[int, ...]:
    """Numbers of GPUs, separated by commas.

    Raises:
        argparse.ArgumentTypeError: not a number, or no whole nodes.
    """
    sizes = []
    for part in text.split(","):
        if not part.strip().isdecimal() or int(part) <= 0 or int(part) % SIZE_STEP:
            raise argparse.ArgumentTypeError(f"{part!r}: write a multiple of {SIZE_STEP} above 0")
        sizes.append(int(part))
    return tuple(sizes)


def policy(text: str) -> str:
    """The name of a policy.

    Raises:
        argparse.ArgumentTypeError: there is none of that name.
    """
    try:
        return policy_named(text).name
    except CotenantError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def with_smaller(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Two sizes at least, so that growth can be told; one that is too small to be divided stays alone."""
    if len(sizes) > 1:
        return sizes
    tenth = sizes[0] // 10 // SIZE_STEP * SIZE_STEP
    return (*sizes, tenth) if tenth else sizes


def settings_of(arguments: argparse.Namespace) -> Settings:
    """What the command line asks for."""
    options = {
        "policy": arguments.policy,
        "seed": arguments.seed,
        "steps": arguments.steps,
        "loss_steps": 0 if arguments.exact else arguments.loss,
        "check_steps": arguments.check,
        "compiled": not arguments.without_fast,
        "exact": arguments.exact,
        "sight": arguments.sight,
    }
    streams = (arguments.stream,) if arguments.stream else STREAMS
    return Settings(with_smaller(arguments.gpus), streams, options)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(description="Measure how fast the core decides.")
    parser.add_argument("--gpus", type=sizes_of, default=SIZES, metavar="N[,N...]", help="sizes of clusters")
    parser.add_argument("--stream", choices=STREAMS, help="how alike the requests are (default: both)")
    parser.add_argument(
        "--policy", type=policy, default=POLICY, help=f"how places are chosen (default: {POLICY})"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--steps", type=at_least(1), default=10_000, help="decisions that are timed")
    parser.add_argument(
        "--loss", type=at_least(0), default=1_000, help="decisions compared with the full search"
    )
    parser.add_argument(
        "--check", type=at_least(0), default=10_000, metavar="N", help="decisions that are checked"
    )
    parser.add_argument("--exact", action="store_true", help="look at every node for every request")
    parser.add_argument(
        "--sight", type=at_least(1), default=SIGHT, metavar="N", help="nodes of a bounded look"
    )
    parser.add_argument("--without-fast", action="store_true", help="do not use compiled kernels")
    parser.add_argument("--seed", type=int, default=5)
    return parser


def main() -> int:
    """Measure and print; 1 if the checker found anything wrong."""
    arguments = parser().parse_args()
    figures = measure(settings_of(arguments))
    print(json.dumps(figures) if arguments.json else "\n".join(table(figures)))
    return 1 if any(run.get("check", {}).get("violations") for run in figures["runs"]) else 0


if __name__ == "__main__":
    sys.exit(main())
