"""Makes a page of the lines that the benchmarks print.

::

    python -m bench.report FILE > docs/performance.md

``make performance`` measures, keeps the lines in ``docs/performance.jsonl`` and writes the page from them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.lifetimes import CLUSTER
from bench.report_decisions import decisions
from bench.report_fgd import fgd_bound, published_fgd
from bench.report_line import Line, excess, machine, table
from bench.shares import CLUSTER as SHARES_CLUSTER
from bench.simulator import EXPONENT_LIMIT, GROWTH_JOBS, RATIO_LIMIT, WALL_LIMITS_S

HEAD = """\
# Performance

<!-- Written by bench/report.py from docs/performance.jsonl: run `make performance` to measure anew. -->
"""

SIMULATOR_HEAD = """\
How fast the simulator replays the Philly trace, in one process and on one core: wall times of the event loop
with all decisions in it, without the reading of the trace. Beside it the same jobs in a bare simpy program,
which has one process and one request of a `Resource(512)` for each job and decides nothing.
`python -m bench.simulator --check` exits with 1 when a figure is above its limit.
"""


def page(lines: Sequence[Line]) -> str:
    """The page for these lines of :mod:`bench.all`; of benchmarks that it does not know, the bare figures."""
    parts = [HEAD]
    if any(line["benchmark"] in _OF_SIMULATOR for line in lines):
        parts.append(SIMULATOR_HEAD)
    for line in lines:
        name, figures = line["benchmark"], line["figures"]
        if figures is None:
            parts.append(f"## {name}\n\nIt failed.\n")
        elif name in _SECTIONS:
            parts.append("\n".join(_SECTIONS[name](line)) + "\n")
        else:
            parts.append(f"## {name}\n\n{_raw(figures)}")
    absent = [name for name in _SECTIONS if name not in {line["benchmark"] for line in lines}]
    if absent:
        names = ", ".join(f"`{name}`" for name in absent)
        parts.append(f'Not measured: {names}. `make performance BENCH_ARGS="{absent[0]}"` measures one.\n')
    return "\n".join(parts)


def _simulator(line: Line) -> Iterator[str]:
    figures = line["figures"]
    fast = "with" if figures["compiled"] else "without"
    yield f"## Simulator, {fast} the extra `fast`"
    yield ""
    yield f"{figures['jobs']:,} jobs on `{figures['cluster']}`, {machine(line)}."
    yield ""
    few, many = GROWTH_JOBS
    yield (
        "Each policy places all jobs of the trace, and all complete; the fastest run counts. `against bare "
        "simpy` is its wall time over that of the bare program, which was measured beside it; the growth is "
        f"that from the first {few:,} to the first {many:,} jobs."
    )
    yield ""
    yield "| policy | wall time | limit | jobs a second | against bare simpy | limit |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for policy, of in figures["policies"].items():
        limit = f"{WALL_LIMITS_S[policy]:g} s" if policy in WALL_LIMITS_S else "-"
        ratio = f"{RATIO_LIMIT:g} x" if policy == "fifo" else "-"
        yield (
            f"| `{policy}` | {of['wall_s']:.2f} s | {limit} | {of['jobs_per_s']:,.0f} "
            f"| {of['ratio_to_bare_simpy']:.2f} x | {ratio} |"
        )
    yield ""
    exponent = figures["growth_exponent"]
    grows = "not measured: too few jobs" if exponent is None else f"jobs to the power of {exponent:.2f}"
    yield f"Growth of the wall time of `fifo`: {grows} (limit {EXPONENT_LIMIT:g})."
    yield from excess(figures)


def _lifetimes(line: Line) -> Iterator[str]:
    figures = line["figures"]
    names = list(next(iter(figures.values())))
    yield "## What it brings to know how long jobs last"
    yield ""
    yield (
        "`cotenant` on the same made-up jobs with lifetimes unknown to it, told for moves alone, estimated "
        f"and known: means over all seeds, in seconds, {machine(line)}."
    )
    yield ""
    yield (
        f"Short and long jobs, on shares of a GPU and on whole ones, come to `{CLUSTER}`; those of the "
        "first quarter of the time are left out of the means. `jct` is the time from submission to end, "
        "`wait` that to the first placement; `whole` and `share` are the jobs on whole GPUs and on shares "
        "alone, and `jobs` counts all that came, per seed."
    )
    yield ""
    rows = [[f"`{variant}`", *(f"{of[name]:,.0f}" for name in names)] for variant, of in figures.items()]
    yield from table(["lifetimes", *(f"`{name}`" for name in names)], rows)


def _shares(line: Line) -> Iterator[str]:
    figures = line["figures"]
    names = list(next(iter(next(iter(figures.values())).values())))
    yield "## What it brings to choose a smaller slice"
    yield ""
    yield (
        "`cotenant` on the same made-up jobs, with shares as large as each can use (`as-used`) and with "
        f"smaller slices where a promise allows them (`chosen`): means over all seeds, {machine(line)}."
    )
    yield ""
    yield (
        f"Jobs of the shipped profiles come to `{SHARES_CLUSTER}`, none states its compute, and half of them "
        "say how slow they may be.  The load is the part of the compute that all could use together.  `jct` "
        "and `wait` are in seconds, `slowdown` is that while a job runs, `promised` counts the jobs with a "
        "promise and `broken` those that were slower than promised."
    )
    yield ""
    rows = [
        [
            load,
            f"`{variant}`",
            *(f"{of[name]:,.2f}" if name == "slowdown" else f"{of[name]:,.0f}" for name in names),
        ]
        for load, variants in figures.items()
        for variant, of in variants.items()
    ]
    yield from table(["load", "shares", *(f"`{name}`" for name in names)], rows)


def _raw(figures: Mapping[str, Any]) -> str:
    return f"```json\n{json.dumps(figures, indent=2)}\n```\n"


_OF_SIMULATOR = ("simulator", "simulator-without-fast")
_SECTIONS: Mapping[str, Callable[[Line], Iterator[str]]] = {
    **dict.fromkeys(_OF_SIMULATOR, _simulator),
    "decisions": decisions,
    "decisions-without-fast": decisions,
    "published-fgd": published_fgd,
    "lifetimes": _lifetimes,
    "shares": _shares,
    "fgd-bound": fgd_bound,
}
"""By the names of :data:`bench.all.BENCHMARKS`."""


def main() -> int:
    """Read the lines of a file, or of standard input, and print the page."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.report", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("file", nargs="?", type=Path, help="lines of bench.all (default: standard input)")
    given = parser.parse_args()
    text = sys.stdin.read() if given.file is None else given.file.read_text(encoding="utf-8")
    sys.stdout.write(page([json.loads(line) for line in text.splitlines() if line.strip()]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
