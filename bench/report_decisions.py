"""The section of the page about :mod:`bench.decisions`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bench.decisions import (
    EXPONENT_LIMIT,
    LIMITS_FROM_GPUS,
    POLICY,
    RSS_LIMIT_MIB,
    TIME_LIMITS_US,
    loss_in_words,
)
from bench.report_line import Line, excess, machine, number, table

_HEAD = ("GPUs", "stream", "p50", "limit", "p99", "limit", "p99 by the clock", "a second", "memory", "limit")


def decisions(line: Line) -> Iterator[str]:
    """How long a decision takes, what the bounded search loses, and what the checker found."""
    figures = line["figures"]
    runs = figures["runs"]
    fast = "with" if all(run["compiled"] for run in runs) else "without"
    names = ", ".join(f"`{name}`" for name in dict.fromkeys(run["policy"] for run in runs))
    yield f"## Decisions, {fast} the extra `fast`"
    yield ""
    yield (
        f"Policy {names}; eight GPUs a node, kept 90 % full; CPU time of deciding and committing one job, "
        f"{machine(line)}."
    )
    yield ""
    yield (
        "Half of the nodes have A100, half H100 GPUs. `templates` draws requests from 500 shapes, in `raw` "
        "nearly every request is new. Timed are the search for one job and the taking of its shares, a gang "
        "being one decision; departures are not, nor the queue and the records that a scheduler keeps. The "
        "bounded answers are those of this search, the full search looks at every node; scores are in "
        "thousandths of a GPU lost, times 3, the lower the better. See `python -m bench.decisions --help`."
    )
    yield ""
    yield from table(_HEAD, [_cells(run) for run in runs], left=0)
    yield ""
    for run in runs:
        where = f"{run['gpus']:,} GPUs, {run['stream']}"
        if "loss" in run:
            yield f"- {where}: {loss_in_words(run['loss'])}."
        if "check" in run:
            found = run["check"]
            yield f"- {where}: {found['violations']} violations in {found['decisions']:,} decisions checked."
    for stream, exponent in figures["growth_exponent"].items():
        grows = "not measured: one size" if exponent is None else f"GPUs to the power of {exponent:.2f}"
        yield f"- Growth of p50, {stream}: {grows} (limit {EXPONENT_LIMIT:g} with `fast`)."
    yield from excess(figures)


def _cells(run: Mapping[str, Any]) -> list[str]:
    limited = run["policy"] == POLICY and run["mode"] == "bounded" and run["gpus"] >= LIMITS_FROM_GPUS
    limits = TIME_LIMITS_US.get((run["stream"], run["compiled"]), {}) if limited else {}
    return [
        f"{run['gpus']:,}",
        run["stream"],
        _us(run["p50_us"]),
        _us(limits.get("p50_us")),
        _us(run["p99_us"]),
        _us(limits.get("p99_us")),
        _us(run["wall_p99_us"]),
        f"{run['decisions_per_s']:,.0f}",
        f"{run['rss_mib']:,.0f} MiB",
        f"{RSS_LIMIT_MIB:g} MiB" if limited and run["compiled"] else "-",
    ]


def _us(value: float | None) -> str:
    text = number(value, ",.0f")
    return text if value is None else f"{text} µs"
