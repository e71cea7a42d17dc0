"""`cotenant trace`: make workloads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

_ARRIVALS = ("poisson", "diurnal")
_FRACTION = click.FloatRange(0, 1)


@click.group(short_help="Generate traces.")
def trace() -> None:
    """Make workloads for `cotenant simulate`.

    \b
    Examples:
      cotenant trace generate jobs.csv --jobs 5000 --seed 7
      cotenant simulate jobs.csv --cluster 8x8xA100-SXM4-80GB
    """  # noqa: D301 - click reads the backspace character


@trace.command(short_help="Write a synthetic trace.")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--jobs", default=1000, show_default=True, type=click.IntRange(1))
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0, 2**63 - 1))
@click.option("--arrivals", type=click.Choice(_ARRIVALS), default="poisson", show_default=True)
@click.option("--jobs-per-hour", default=40.0, show_default=True, help="Mean rate of submissions.")
@click.option("--median", "median_s", default=1200.0, show_default=True, help="Median duration, seconds.")
@click.option("--sigma", default=1.6, show_default=True, help="Weight of the tail of durations.")
@click.option("--tenants", default=5, show_default=True, type=click.IntRange(1))
@click.option(
    "--gangs", "gang_fraction", default=0.05, show_default=True, type=_FRACTION, help="Fraction of jobs."
)
@click.option("--largest-gang", default=8, show_default=True, type=click.IntRange(2))
@click.option(
    "--shared",
    "shared_fraction",
    default=0.6,
    show_default=True,
    type=_FRACTION,
    help="Fraction of the others.",
)
@click.option(
    "--promises",
    "promise_fraction",
    default=0.3,
    show_default=True,
    type=_FRACTION,
    help="Fraction of shared jobs.",
)
def generate(file: Path, arrivals: str, **said: Any) -> None:
    """Write a seeded synthetic trace to FILE; gzip if its name ends in .gz.

    Arrivals are Poisson or follow the day; durations are log-normal; jobs are gangs of whole GPUs, single
    workers of whole GPUs, or fractions of one GPU with memory, compute and, for some, a promise.

    \b
    Examples:
      cotenant trace generate jobs.csv
      cotenant trace generate busy.csv.gz --jobs 50000 --arrivals diurnal --jobs-per-hour 400 --seed 3
    """  # noqa: D301 - click reads the backspace character
    from cli.texts import count_text
    from simulator.synthetic import Arrivals, SyntheticSpec, write

    spec = SyntheticSpec(arrivals=Arrivals(arrivals), **said)
    write(spec, file)
    click.echo(f"{file}: {count_text(spec.jobs, 'job')}, seed {spec.seed}", err=True)
