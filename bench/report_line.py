"""What every section of the page says of its line of :mod:`bench.all`: the machine, and what is too much."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Line = Mapping[str, Any]


def machine(line: Line) -> str:
    """On what it was measured, and what else has to be known of that."""
    note = f"; {line['note']}" if line.get("note") else ""
    return f"on a machine with {line['cores']} cores, Python {line['python']}{note}"


def excess(figures: Mapping[str, Any]) -> Iterator[str]:
    """What is above its limit, a paragraph each."""
    for text in figures["exceeded"]:
        yield ""
        yield f"**Above its limit: {text}.**"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> Iterator[str]:
    """A table of which all columns but the first ones hold numbers."""
    yield _row(head)
    yield _row(["---"] * left + ["---:"] * (len(head) - left))
    yield from map(_row, rows)


def number(value: float | None, form: str = ".2f") -> str:
    """A figure, or a dash where there is none."""
    return "-" if value is None else format(value, form)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
