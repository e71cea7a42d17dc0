"""The sections about the experiment of FGD: :mod:`bench.published_fgd` and :mod:`bench.fgd_bound`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bench.fgd.arrivals import FULL_PERCENT
from bench.fgd.curves import POINTS_PCT
from bench.fgd.table import (
    ALLOCATION_TOLERANCE,
    FRAGMENTED_TOLERANCE,
    HELD_POINTS_PCT,
    RANDOM_TOLERANCE,
    WALL_LIMIT_S,
    WHOLE_WALL_LIMIT_S,
)
from bench.report_line import Line, excess, machine, number, table

FULL_PCT = 100
_TITLES = {"alloc_pct": "GPUs that are allocated", "frag_pct": "GPUs that are fragmented"}
Curves = Mapping[str, Mapping[str, Mapping[str, Mapping[str, float | None]]]]
"""By workload, policy, percent arrived and figure."""


def published_fgd(line: Line) -> Iterator[str]:
    """The medians beside the published ones."""
    figures = line["figures"]
    curves: Curves = figures["workloads"]
    policies = list(dict.fromkeys(policy for of in curves.values() for policy in of))
    yield "## The experiment of FGD"
    yield ""
    yield (
        f'The placements of "Beware of Fragmentation" (ATC 2023) made by this core: medians of '
        f"{len(figures['seeds'])} seeds, in brackets the published ones, {machine(line)}."
    )
    yield ""
    yield (
        f"Pods arrive one by one, in an order drawn from the seed, until they ask for {FULL_PERCENT} % of "
        "the GPUs; none leaves, and one that fits nowhere is turned away. Fragmented is what is idle but of "
        "no use for the typical pods of the workload. `cotenant` is our own policy, so nothing is published "
        "of it."
    )
    yield from _full(curves, policies)
    yield from _on_the_way(curves.get("default"))
    yield ""
    yield "The largest difference of a median from the published one, over all workloads, in points:"
    yield ""
    yield from table(
        ["policy", "allocated", "limit", "fragmented", "limit"],
        [_apart(curves, policy) for policy in policies],
    )
    yield ""
    wall_s = figures["wall_s_per_run"]
    yield f"A run of `fgd` on `default` takes {number(wall_s)} s (limit {WALL_LIMIT_S:g} s)."
    if figures.get("wall_s") is not None:
        minutes = figures["wall_s"] / 60
        yield f"All runs together took {minutes:.0f} minutes (limit {WHOLE_WALL_LIMIT_S / 60:g})."
    yield from excess(figures)


def _full(curves: Curves, policies: list[str]) -> Iterator[str]:
    """One table a figure when all have arrived: a line a workload, a column a policy."""
    for figure, title in _TITLES.items():
        yield ""
        yield f"{title} when pods for {FULL_PCT} % of the GPUs have arrived, in % of all:"
        yield ""
        rows = [
            [f"`{workload}`", *(_beside(of.get(policy, {}), FULL_PCT, figure) for policy in policies)]
            for workload, of in curves.items()
        ]
        yield from table(["workload", *policies], rows)


def _on_the_way(curves: Mapping[str, Mapping[str, Mapping[str, float | None]]] | None) -> Iterator[str]:
    """What is allocated while pods of the default workload arrive: a line a policy, a column a point."""
    if curves is None:
        return
    yield ""
    yield "GPUs that are allocated on `default` while pods arrive, in % of all:"
    yield ""
    rows = [
        [f"`{policy}`", *(_beside(curve, point, "alloc_pct") for point in POINTS_PCT)]
        for policy, curve in curves.items()
    ]
    yield from table(["policy", *(f"{point} %" for point in POINTS_PCT)], rows)


def _beside(curve: Mapping[str, Mapping[str, float | None]], point_pct: int, figure: str) -> str:
    at = curve.get(str(point_pct), {})
    known = at.get(f"published_{figure}")
    return number(at.get(figure)) + (f" ({known:.2f})" if known is not None else "")


def _apart(curves: Curves, policy: str) -> list[str]:
    tolerance = RANDOM_TOLERANCE if policy == "random" else ALLOCATION_TOLERANCE
    allocated = _largest(curves, policy, ("alloc_pct", HELD_POINTS_PCT))
    fragmented = _largest(curves, policy, ("frag_pct", POINTS_PCT))
    return [
        f"`{policy}`",
        number(allocated, ".3f"),
        "-" if allocated is None else f"{tolerance:g}",
        number(fragmented, ".3f"),
        "-" if fragmented is None else f"{FRAGMENTED_TOLERANCE:g}",
    ]


def _largest(curves: Curves, policy: str, of: tuple[str, tuple[int, ...]]) -> float | None:
    figure, points_pct = of
    found: list[float] = []
    for policies in curves.values():
        for point in points_pct:
            at: Mapping[str, Any] = policies.get(policy, {}).get(str(point), {})
            value, known = at.get(figure), at.get(f"published_{figure}")
            if value is not None and known is not None:
                found.append(abs(value - known))
    return max(found, default=None)


def fgd_bound(line: Line) -> Iterator[str]:
    """What no placement could pass, beside what FGD is published to have reached."""
    figures = line["figures"]
    points = list(dict.fromkeys(point for of in figures["workloads"].values() for point in of))
    yield "## The bound of that experiment"
    yield ""
    yield (
        "No placement could allocate more, in % of all GPUs, for the pods of seed "
        f"{figures['seed']}; in brackets FGD as published."
    )
    yield ""
    yield (
        "The bound is that of a linear program over the ways to fill one GPU, which knows all pods "
        "beforehand, may leave out any and may split them between GPUs: what can be reached lies below it."
    )
    yield ""
    rows = []
    for workload, of in figures["workloads"].items():
        cells = [of.get(point, {}) for point in points]
        rows.append([f"`{workload}`", *(_bound(cell) for cell in cells)])
    yield from table(["workload", *(f"{point} % arrived" for point in points)], rows)


def _bound(cell: Mapping[str, float | None]) -> str:
    known = cell.get("published_fgd_pct")
    return number(cell.get("bound_pct")) + (f" ({known:.2f})" if known is not None else "")
