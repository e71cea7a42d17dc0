"""Every benchmark, one JSON line each.

::

    python -m bench.all [--data DIR] [--note TEXT] [--into FILE] [--figures NAME=FILE] [--sample] [NAME ...]

A benchmark is a program of its own that prints JSON; here each runs in a process of its own, one after the
other, so that none warms up or disturbs another.  ``--into`` keeps each line in a file when it is there, in
the place of an earlier one of that name; ``--figures`` takes what a benchmark has printed before, so that it
need not run again.  ``python -m bench.report`` makes a page of the lines.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.data import FGD, PHILLY, REMEDY, add_data_option

Line = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A module that prints JSON, its arguments, and those of a small part of it, which takes seconds."""

    module: str
    arguments: tuple[str, ...]
    sample: tuple[str, ...]
    needs: Path | None = None
    """What it reads, below the folder of the data."""


_FEW_JOBS = ("--limit", "200", "--policy", "fifo,srtf")
_FEW_DECISIONS = ("--gpus", "160,320", "--steps", "100", "--check", "50", "--loss", "20", "--seed", "1")
BENCHMARKS = {
    "simulator": Benchmark("bench.simulator", ("--json",), _FEW_JOBS, PHILLY),
    "simulator-without-fast": Benchmark("bench.simulator", ("--json", "--without-fast"), _FEW_JOBS, PHILLY),
    "decisions": Benchmark("bench.decisions", ("--json", "--loss", "1000"), _FEW_DECISIONS),
    "decisions-without-fast": Benchmark(
        "bench.decisions",
        ("--json", "--without-fast", "--loss", "0", "--check", "0"),
        _FEW_DECISIONS,
    ),
    "published-fgd": Benchmark(
        "bench.published_fgd",
        ("--json",),
        ("--workload", "default", "--policy", "fgd,cotenant", "--seeds", "42", "--processes", "1"),
        FGD,
    ),
    "lifetimes": Benchmark("bench.lifetimes", ("--json",), ("--seeds", "1", "--hours", "8")),
    "shares": Benchmark(
        "bench.shares",
        ("--json", "--load", "0.7,0.9,1.1"),
        ("--seeds", "1", "--hours", "4", "--load", "0.9"),
    ),
    "fgd-bound": Benchmark("bench.fgd_bound", ("--json",), ("--workload", "default"), FGD),
}


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the data lie, what a reader should know, and whether samples will do."""

    data: Path
    note: str | None
    sample: bool

    def line(self, name: str, figures: Any) -> Line:
        """What is kept of a benchmark; figures None say that it failed."""
        machine = {"cores": os.cpu_count(), "python": platform.python_version(), "note": self.note}
        return {"benchmark": name, **machine, "figures": figures}


def run(name: str, settings: Settings) -> tuple[Line, bool]:
    """Run one benchmark; gives its line, and whether it came to a good end."""
    benchmark = BENCHMARKS[name]
    command = [sys.executable, "-m", benchmark.module, *benchmark.arguments]
    command += ["--data", str(settings.data)] if benchmark.needs is not None else []
    command += benchmark.sample if settings.sample else ()
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False, text=True)
    try:
        figures = json.loads(done.stdout)  # one that found something wrong may have figures all the same
    except ValueError:
        figures = None
    return settings.line(name, figures), done.returncode == 0 and figures is not None


def keep(line: Line, into: Path) -> None:
    """Put a line into the file, in the order of :data:`BENCHMARKS`; what else is there stays."""
    text = into.read_text(encoding="utf-8") if into.exists() else ""
    lines = {known["benchmark"]: known for known in map(json.loads, text.splitlines())}
    lines[line["benchmark"]] = line
    names = [*BENCHMARKS, *(name for name in lines if name not in BENCHMARKS)]
    written = into.with_name(f"{into.name}.new")
    written.write_text("".join(f"{json.dumps(lines[name])}\n" for name in names if name in lines), "utf-8")
    written.replace(into)


def _known(parser: argparse.ArgumentParser, name: str) -> str:
    if name not in BENCHMARKS:
        parser.error(f"there is no benchmark {name!r}; choose among {', '.join(BENCHMARKS)}")
    return name


def _earlier(parser: argparse.ArgumentParser, texts: Sequence[str]) -> dict[str, Any]:
    """The figures of ``NAME=FILE``."""
    figures: dict[str, Any] = {}
    for text in texts:
        name, _, path = text.partition("=")
        _known(parser, name)
        try:
            figures[name] = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            parser.error(f"--figures {text}: {error}")
    return figures


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Run the benchmarks; each prints one line of JSON.")
    add_data_option(parser)
    parser.add_argument("--note", metavar="TEXT", help="what a reader of the figures should know")
    parser.add_argument(
        "--into", type=Path, metavar="FILE", help="keep the lines there (default: print them)"
    )
    parser.add_argument(
        "--figures",
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="what a benchmark has printed before; it is not run again",
    )
    parser.add_argument("--sample", action="store_true", help="a small part of each, which takes seconds")
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"of {', '.join(BENCHMARKS)}; all by default, with --figures none",
    )
    return parser


def _without_data(names: Sequence[str], data: Path) -> list[str]:
    """Those of the benchmarks whose data are not there; one line says so."""
    needs = {name: BENCHMARKS[name].needs for name in names}
    absent = [name for name, needed in needs.items() if needed is not None and not (data / needed).exists()]
    if absent:
        print(f"skipped: {', '.join(absent)}: their data are expected in {data}; {REMEDY}", file=sys.stderr)
    return absent


def main() -> int:
    """Run what is asked for and take what is given; 1 if a benchmark failed, or was named but has no data."""
    parser = _parser()
    given = parser.parse_args()
    settings = Settings(given.data, given.note, given.sample)
    earlier = _earlier(parser, given.figures)
    names = [_known(parser, name) for name in given.names] or ([] if earlier else list(BENCHMARKS))
    skipped = _without_data([name for name in names if name not in earlier], settings.data)
    failed = not set(skipped).isdisjoint(given.names)
    for name in dict.fromkeys([*earlier, *names]):
        if name in skipped:
            continue
        line, well = (settings.line(name, earlier[name]), True) if name in earlier else run(name, settings)
        failed |= not well
        if given.into is None:
            print(json.dumps(line), flush=True)
        else:
            keep(line, given.into)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
