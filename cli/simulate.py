"""`cotenant simulate`: a trace, a cluster, one or more policies, and the metrics of each run."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.failures import one_line
from cli.names import NamingCommand
from cli.tables import GAP, NOTHING, Align, Column, Format, Listing, narrow_output_option, show, show_json

if TYPE_CHECKING:
    from simulator.engine import SimulationResult
    from simulator.study import Study, StudyProgress

_SHOWN_BAD_LINES = 10
_WALL = ("load_s", "compile_s", "wall_s")


def _options(_context: click.Context, _parameter: click.Parameter, pairs: tuple[str, ...]) -> dict[str, str]:
    """The mapping of repeated ``k=v``."""
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{pair!r} must be written KEY=VALUE")
        if key in found:
            raise click.BadParameter(f"{key!r} is given twice")
        found[key] = value
    return found


def _policies(
    _context: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]
) -> tuple[str, ...]:
    """The names of all lists, each once."""
    names = ["+".join(map(str.strip, name.split("+"))) for text in texts for name in text.split(",")]
    if not all(names):
        raise click.BadParameter(f"{','.join(texts)!r} holds an empty name; write NAME or NAME,NAME")
    for name in sorted({name for name in names if names.count(name) > 1}):
        click.echo(f"note: policy {name!r} is given more than once; it runs once", err=True)
    return tuple(dict.fromkeys(names))


@click.command(cls=NamingCommand, short_help="Replay a trace through the same decisions.")
@click.argument("trace", required=False, type=click.Path(path_type=Path))
@click.option("--cluster", metavar="SPEC", help="64x8xV100-SXM2-32GB, an openb node CSV, or YAML.")
@click.option(
    "--policy",
    "policies",
    metavar="NAME[,NAME...]",
    multiple=True,
    default=("cotenant",),
    show_default=True,
    callback=_policies,
    help="One run each; repeatable.",
)
@click.option("--format", "trace_format", metavar="NAME", help="Recognised from the file unless given.")
@click.option("--truth", default="additive", show_default=True, help="What makes jobs slow.")
@click.option("--belief", default="additive", show_default=True, help="What the policy thinks of it.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0, 2**63 - 1))
@click.option("--limit", type=click.IntRange(1), help="Only the first jobs, by submission.")
@click.option(
    "--option",
    "options",
    metavar="KEY=VALUE",
    multiple=True,
    callback=_options,
    help="known_durations=true, profiles=FILE or folder; openb: departures=true; gavel: throughputs=FILE.",
)
@click.option(
    "--data",
    "data_folder",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="COTENANT_DATA",
    show_envvar=True,
    help="Public traces: Gavel's rates are also looked for there.",
)
@click.option("--skip-bad-lines", is_flag=True, help="Count lines that cannot be read instead of stopping.")
@narrow_output_option
def simulate(output: str, **said: Any) -> None:
    """Replay TRACE on a simulated cluster; without TRACE, a synthetic one that ships with Cotenant.

    \b
    Examples:
      cotenant simulate
      cotenant simulate philly_jobs.csv.gz --cluster 64x8xV100-SXM2-32GB --policy fifo,backfill,srtf
      cotenant simulate openb_pods.csv.gz --cluster openb_nodes.csv --policy best-fit -o json
      cotenant simulate jobs.trace --cluster 9x4xv100+9x4xp100+9x4xk80 --option throughputs=rates.csv
    """  # noqa: D301 - click reads the backspace character
    from simulator.study import StudySpec, run_study

    with _progress_bar() as progress:
        study = run_study(StudySpec(**said), progress, partial(click.echo, err=True))
    _tell(study)
    if output == Format.JSON.value:
        show_json(study.to_dict())
    else:
        click.echo(f"{_headline(study)}\n")
        for number, listing in enumerate(_listings(study)):
            if number:
                click.echo()
            show(listing, output)
        for head, policy in _heads(study).items():
            if head != policy:
                click.echo(f"\n{head.upper()}: {policy}")


@contextlib.contextmanager
def _progress_bar() -> Iterator[StudyProgress | None]:
    """A bar on stderr while the runs last, where stderr is a terminal; nothing otherwise."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress, TaskID

    tasks: dict[str, TaskID] = {}
    with Progress(console=Console(stderr=True), transient=True) as bar:

        def progress(policy: str, ended: int, total: int) -> None:
            if policy not in tasks:
                tasks[policy] = bar.add_task(policy, total=total)
            bar.update(tasks[policy], completed=ended)

        yield progress


def _tell(study: Study) -> None:
    """Notices and skipped lines go to stderr, so that stdout is the result alone."""
    from cli.texts import count_text

    for notice in study.notices:
        click.echo(f"note: {notice}", err=True)
    for rejection in study.rejections():
        click.echo(f"note: {rejection}", err=True)
    bad_lines = study.trace.bad_lines
    for line in bad_lines[:_SHOWN_BAD_LINES]:
        click.echo(f"skipped: {line}", err=True)
    if bad_lines:
        click.echo(f"note: {count_text(len(bad_lines), 'line')} skipped in all", err=True)


def _number(name: str, value: float | None) -> str | None:
    """As many decimals in each column: one for simulated seconds and rates, else three."""
    if value is None or isinstance(value, int):
        return None if value is None else f"{value:,}"
    return f"{value:,.1f}" if name.endswith("_s") and name not in _WALL else f"{value:,.3f}"


def _headline(study: Study) -> str:
    """Which jobs ran where: ``jobs.csv (philly), 3 jobs, on 2x8xT4-16GB: 2 nodes, 16 GPUs; seed 0``."""
    from cli.texts import count_text
    from simulator.study import DEFAULT_TRACE

    trace, cluster = study.trace, study.cluster
    name = "the trace that ships" if trace.path == str(DEFAULT_TRACE) else trace.path
    size = f"{count_text(len(cluster.nodes), 'node')}, {count_text(cluster.gpu_count, 'GPU')}"
    jobs = count_text(len(trace.rows), "job")
    return one_line(f"{name} ({trace.format}), {jobs}, on {cluster.name}: {size}; seed {study.seed}")


def _figures(result: SimulationResult) -> dict[str, int | float | None]:
    return {**result.metrics.to_dict(), "compile_s": result.compile_s}


def _heads(study: Study) -> dict[str, str]:
    """The policy of each column's title; long options, as those of hived, would make a column too wide."""
    heads: dict[str, str] = {}
    for policy, _result in study.runs:
        head, number = policy, 1
        if ":" in policy:
            head = "+".join(part.partition(":")[0] for part in policy.split("+"))
            while f"{head} #{number}" in heads:
                number += 1
            head = f"{head} #{number}"
        heads[head] = policy
    return heads


def _columns(study: Study) -> list[Column[str]]:
    def cell(figures: dict[str, int | float | None]) -> Callable[[str], str | None]:
        return lambda name: _number(name, figures[name])

    return [
        Column(head.upper(), cell(_figures(result)), Align.RIGHT)
        for head, (_policy, result) in zip(_heads(study), study.runs, strict=True)
    ]


def _listings(study: Study) -> Iterator[Listing[str]]:
    """One row a metric, one column a policy; on a terminal as many blocks as it takes to cut nothing."""
    names = list(_figures(study.runs[0][1]))
    first: Column[str] = Column("METRIC", str)
    name_width, room = max(map(len, names)), _terminal_width()
    block: list[Column[str]] = []
    left = room - name_width
    for column in _columns(study):
        width = GAP + max(len(text or NOTHING) for text in (column.title, *map(column.text, names)))
        if block and width > left:
            yield Listing([first, *block], names, str, "no runs")
            block, left = [], room - name_width
        block.append(column)
        left -= width
    yield Listing([first, *block], names, str, "no runs")


def _terminal_width() -> float:
    """Without a terminal nothing is cut, whatever its width."""
    if not sys.stdout.isatty():
        return math.inf
    from rich.console import Console

    return Console().width
