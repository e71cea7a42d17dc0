"""How much of the GPUs could be allocated at best in the experiment of "Beware of Fragmentation" (ATC 2023).

::

    python bench/fgd_bound.py --data DIR [--workload NAME] [--seed 42] [--json]

For each workload the bound at 100, 110 and 130 % arrived, in percent of all GPUs, beside the published median
of FGD; see ``bench/fgd/bound.py`` for what is bounded.  Needs the extra ``solvers``.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

if not __package__:
    # Run as a script, its own folder leads the path, and files there hide packages of the same names.
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from bench.data import FGD, add_data_option, fgd_folder, give_up
from bench.fgd.arrivals import Trial, draw_trial
from bench.fgd.bound import upper_bound
from bench.fgd.inputs import Measure, PodRow, read_nodes, read_pods, read_published, workloads

POINTS_PCT = (100, 110, 130)


@dataclass(frozen=True, slots=True)
class Line:
    """The bound of a workload at some load, and what FGD is published to have allocated; in percent."""

    workload: str
    arrived_pct: int
    bound_pct: float
    published_fgd_pct: float | None


def arrived(trial: Trial, percent: int) -> tuple[PodRow, ...]:
    """The pods that arrive until they ask for so many percent of the GPUs."""
    asked = 0
    for number, pod in enumerate(trial.pods):
        asked += pod.total_milli
        if asked * 100 > percent * trial.capacity_milli:
            return trial.pods[:number]
    return trial.pods


def bounds(folder: Path, names: Sequence[str], seed: int) -> list[Line]:
    """The bounds of some workloads for one seed."""
    nodes = read_nodes(folder)
    published = read_published(folder, Measure.ALLOCATION, POINTS_PCT)
    lines = []
    for name in names:
        trial = draw_trial(name, nodes, read_pods(folder, name), seed)
        for percent in POINTS_PCT:
            bound = upper_bound(nodes, arrived(trial, percent))
            bound_pct = 100 * bound.milli / trial.capacity_milli
            lines.append(Line(name, percent, bound_pct, published.at(name, "fgd", percent)))
    return lines


def as_json(lines: Sequence[Line], seed: int) -> str:
    """The bounds by workload and arrived percent."""
    found: dict[str, dict[str, dict[str, float | None]]] = {}
    for line in lines:
        figures = {"bound_pct": round(line.bound_pct, 3), "published_fgd_pct": line.published_fgd_pct}
        found.setdefault(line.workload, {})[str(line.arrived_pct)] = figures
    return json.dumps({"seed": seed, "workloads": found})


def as_text(lines: Sequence[Line], seed: int) -> str:
    """A table to read."""
    texts = [
        f"Allocation in % of all GPUs; bound for seed {seed}, FGD as published (median of ten seeds).",
        f"{'workload':15}{'arrived %':>10}{'bound':>9}{'FGD':>9}{'between':>9}",
    ]
    for line in lines:
        text = f"{line.workload:15}{line.arrived_pct:>10}{line.bound_pct:>9.2f}"
        if line.published_fgd_pct is not None:
            text += f"{line.published_fgd_pct:>9.2f}{line.bound_pct - line.published_fgd_pct:>9.2f}"
        texts.append(text)
    return "\n".join(texts)


def main() -> int:
    """Print the bounds; 2 if no solver is installed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add_data_option(parser)
    parser.add_argument("--workload", action="append", help="of the pod lists there (default: all)")
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args()
    if importlib.util.find_spec("scipy") is None:
        print('no solver: pip install "cotenant[solvers]"', file=sys.stderr)
        return 2
    folder = fgd_folder(given.data)
    found = workloads(folder)
    unknown = set(given.workload or ()) - set(found)
    if not found:
        give_up(parser, given.data / FGD)
    if unknown:
        parser.error(
            f"no such workload in {folder}: {', '.join(sorted(unknown))}; there are {', '.join(found)}"
        )
    lines = bounds(folder, given.workload or found, given.seed)
    print((as_json if given.json else as_text)(lines, given.seed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
