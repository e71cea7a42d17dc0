"""Makes a page of the lines that the benchmarks print.

::

    python -m bench.report FILE > docs/performance.md

``make performance`` measures, keeps the lines in ``docs/performance.jsonl`` and writes the page from them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.simulator import EXPONENT_LIMIT, RATIO_LIMIT, WALL_LIMITS_S

HEAD = """\
# Performance

<!-- Written by bench/report.py from docs/performance.jsonl: run `make performance` to measure anew. -->

How fast the simulator replays the Philly trace, in one process and on one core: wall times of the event loop
with all decisions in it, without the reading of the trace. Beside it the same jobs in a bare simpy program,
which has one process and one request of a `Resource(512)` for each job and decides nothing.
`python -m bench.simulator --check` exits with 1 when a figure is above its limit.
"""


def page(lines: Sequence[Mapping[str, Any]]) -> str:
    """The page for these lines of :mod:`bench.all`; other benchmarks stand there as they are."""
    parts = [HEAD]
    for line in lines:
        figures = line["figures"]
        if figures is None or "policies" not in figures:
            parts.append(
                f"## {line['benchmark']}\n\n" + ("It failed.\n" if figures is None else _raw(figures))
            )
        else:
            parts.append("\n".join(_simulator(line, figures)) + "\n")
    return "\n".join(parts)


def _simulator(line: Mapping[str, Any], figures: Mapping[str, Any]) -> Iterator[str]:
    fast = "with" if figures["compiled"] else "without"
    yield f"## Simulator, {fast} the extra `fast`"
    yield ""
    yield f"{figures['jobs']:,} jobs on `{figures['cluster']}`, {_machine(line)}."
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
    for excess in figures["exceeded"]:
        yield f"\n**Above its limit: {excess}.**"


def _machine(line: Mapping[str, Any]) -> str:
    note = f"; {line['note']}" if line.get("note") else ""
    return f"on a machine with {line['cores']} cores, Python {line['python']}{note}"


def _raw(figures: Mapping[str, Any]) -> str:
    return f"```json\n{json.dumps(figures, indent=2)}\n```\n"


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
