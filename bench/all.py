"""Every benchmark, one JSON line each.

::

    python -m bench.all [--data DIR] [--note TEXT] [NAME ...]

A benchmark is a program of its own that prints JSON; here each runs in a process of its own, one after the
other, so that none warms up or disturbs another.  ``python -m bench.report`` makes a page of the lines.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

DEFAULT_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A module that prints JSON, and its arguments besides ``--data``."""

    module: str
    arguments: tuple[str, ...] = ()


BENCHMARKS = {
    "simulator": Benchmark("bench.simulator", ("--json",)),
    "simulator-without-fast": Benchmark("bench.simulator", ("--json", "--without-fast")),
}


def run(name: str, data: Path, note: str | None = None) -> bool:
    """Run one benchmark and print its line; gives whether it came to its end."""
    benchmark = BENCHMARKS[name]
    command = [sys.executable, "-m", benchmark.module, "--data", str(data), *benchmark.arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False, text=True)
    figures = json.loads(done.stdout) if done.returncode == 0 else None
    machine = {"cores": os.cpu_count(), "python": platform.python_version(), "note": note}
    print(json.dumps({"benchmark": name, **machine, "figures": figures}), flush=True)
    return done.returncode == 0


def main() -> None:
    """Run those that are named, or all."""
    parser = argparse.ArgumentParser(description="Run the benchmarks; each prints one line of JSON.")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("COTENANT_DATA", DEFAULT_DATA)))
    parser.add_argument("--note", metavar="TEXT", help="what a reader of the figures should know")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}; all by default"
    )
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in BENCHMARKS:
            parser.error(f"there is no benchmark {name!r}; choose among {', '.join(BENCHMARKS)}")
    came_to_end = [run(name, arguments.data, arguments.note) for name in arguments.names or BENCHMARKS]
    sys.exit(0 if all(came_to_end) else 1)


if __name__ == "__main__":
    main()
