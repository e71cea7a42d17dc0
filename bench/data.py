"""Where the benchmarks look for public data, and what they say where there is none."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import NoReturn

DEFAULT = Path(__file__).resolve().parents[2] / "shared" / "data"
PHILLY = Path("philly") / "philly_jobs_sia.csv.gz"
FGD = Path("fgd")
"""The folder of the published experiment of FGD."""

REMEDY = "COTENANT_DATA or --data names the folder"


def add_data_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--data``; by default the folder that COTENANT_DATA names, else the one beside the checkout."""
    parser.add_argument(
        "--data",
        metavar="DIR",
        type=Path,
        default=Path(os.environ.get("COTENANT_DATA") or DEFAULT),
        help="the folder of public data (default: COTENANT_DATA, else ../shared/data)",
    )


def fgd_folder(data: Path) -> Path:
    """The folder of the experiment below ``data``, or ``data`` itself if there is none below it."""
    return data / FGD if (data / FGD).is_dir() else data


def give_up(parser: argparse.ArgumentParser, needed: Path) -> NoReturn:
    """End with status 2 and one line: where the data are expected."""
    parser.exit(2, f"{parser.prog}: nothing is measured: its data are expected in {needed}; {REMEDY}\n")
