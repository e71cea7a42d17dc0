"""Listings: one way to show rows as a table, as a wide table or as JSON."""

from __future__ import annotations

import enum
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import click

from cli.failures import one_line

Row = TypeVar("Row")
Command = TypeVar("Command", bound=Callable[..., Any])

NOTHING = "-"
"""Stands for a value that does not exist (yet)."""
GAP = 2
"""Blanks between columns."""
UNKNOWN = "unknown"
"""Stands for a value that exists, but that nobody has measured or can predict."""


class Format(enum.Enum):
    """How a listing is shown."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"


class Align(enum.Enum):
    """Where a column's text stands; numbers to the right."""

    LEFT = "left"
    RIGHT = "right"


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """One column: its title, and how to read its text from a row.

    Only the wide table has a ``wide`` one.  Where a terminal is narrow, a ``spare`` one is left out, then a
    ``flexible`` one is wrapped.
    """

    title: str
    text: Callable[[Row], str | None]
    align: Align = Align.LEFT
    wide: bool = False
    flexible: bool = False
    spare: bool = False


@dataclass(frozen=True, slots=True)
class Listing(Generic[Row]):
    """Rows and columns.

    ``as_json`` turns a row into what JSON can hold; ``empty`` is said on stderr when there are no rows.
    """

    columns: Sequence[Column[Row]]
    rows: Sequence[Row]
    as_json: Callable[[Row], Any]
    empty: str

    def cells(self, *, wide: bool) -> tuple[list[Column[Row]], list[list[str]]]:
        """The columns to show, and the text of each cell on one line."""
        columns = [column for column in self.columns if wide or not column.wide]
        return columns, [[one_line(column.text(row) or NOTHING) for column in columns] for row in self.rows]


def output_option(command: Command) -> Command:
    """Add ``-o table|wide|json`` as the argument ``output``."""
    return _output_option(command, *Format)


def narrow_output_option(command: Command) -> Command:
    """Add ``-o table|json``, where nothing more could be shown in a wide table."""
    return _output_option(command, Format.TABLE, Format.JSON)


def _output_option(command: Command, *forms: Format) -> Command:
    return click.option(
        "-o",
        "--output",
        type=click.Choice([form.value for form in forms]),
        default=Format.TABLE.value,
        show_default=True,
        help="How to show the result.",
    )(command)


def show(listing: Listing[Row], output: str) -> None:
    """Print a listing; styled on a terminal, plain text of fixed columns otherwise."""
    form = Format(output)
    if form is Format.JSON:
        show_json([listing.as_json(row) for row in listing.rows])
    elif not listing.rows:
        click.echo(listing.empty, err=True)
    elif sys.stdout.isatty():
        from rich.console import Console

        console = Console()
        console.print(rich_table(listing, console.width, wide=form is Format.WIDE), crop=False)
    else:
        click.echo(plain_table(listing, wide=form is Format.WIDE))


def show_json(value: Any) -> None:
    """Print JSON in a stable form; an undefined number is null, never NaN."""
    click.echo(json.dumps(value, indent=2, allow_nan=False))


def plain_table(listing: Listing[Row], *, wide: bool = False) -> str:
    """The table as text: columns two spaces apart, nothing cut, no trailing blanks."""
    return "\n".join((" " * GAP).join(line).rstrip() for line in _padded(*listing.cells(wide=wide)))


def rich_table(listing: Listing[Row], width: int, *, wide: bool = False) -> Any:
    """The table as a rich renderable for a terminal of ``width`` columns, states coloured.

    Where it does not fit it is as wide as it has to be, for the terminal to break its lines: an id that is
    cut is of no use.  So it is to be printed without cropping.
    """
    from rich.table import Table
    from rich.text import Text

    columns, cells = listing.cells(wide=wide)
    kept = range(len(columns)) if wide else _fitting(columns, cells, width)
    columns, cells = [columns[i] for i in kept], [[line[i] for i in kept] for line in cells]
    widths = _squeezed(columns, cells, width)
    if widths is None:
        return _lines(columns, cells)
    table = Table(box=None, pad_edge=False)
    for column, room in zip(columns, widths, strict=True):
        table.add_column(column.title, justify=column.align.value, width=room, overflow="fold")
    for line in cells:
        # Text, not str: names that users choose are no markup.
        table.add_row(*[Text(cell, style=_style(cell)) for cell in line])
    return table


def _lines(columns: Sequence[Column[Row]], cells: Sequence[Sequence[str]]) -> Any:
    """One line a row, whatever its length."""
    from rich.console import Group
    from rich.text import Text

    lines = []
    for number, row in enumerate(_padded(columns, cells)):
        line = Text(no_wrap=True, overflow="ignore")
        for cell in row:
            line.append(cell, _style(cell) if number else "bold").append(" " * GAP)
        line.rstrip()
        lines.append(line)
    return Group(*lines)


def _fitting(columns: Sequence[Column[Row]], cells: Sequence[Sequence[str]], width: int) -> list[int]:
    """The columns to show: the last spare ones are left out until the rest fits."""
    widths = [max(map(len, texts)) for texts in _texts(columns, cells)]
    kept = list(range(len(columns)))
    for i in reversed(range(len(columns))):
        if sum(widths[j] + GAP for j in kept) - GAP <= width:
            break
        if columns[i].spare:
            kept.remove(i)
    return kept


def _squeezed(columns: Sequence[Column[Row]], cells: Sequence[Sequence[str]], width: int) -> list[int] | None:
    """The width of each column; None if not all fit, even with flexible ones wrapped at each blank."""
    room = width - GAP * (len(columns) - 1)
    widths, least = [], []
    for column, texts in zip(columns, _texts(columns, cells), strict=True):
        whole = max(map(len, texts))
        widths.append(min(whole, max(room, 0)) if column.flexible else whole)
        words = [len(word) for text in texts for word in text.split()]
        least.append(max(words, default=0) if column.flexible else whole)
    if sum(least) > room:
        return None
    while sum(widths) > room:
        widest = max((i for i in range(len(widths)) if widths[i] > least[i]), key=widths.__getitem__)
        widths[widest] -= 1
    return widths


STATE_STYLES = {
    "queued": "yellow",
    "placed": "yellow",
    "starting": "cyan",
    "running": "bold cyan",
    "stopping": "magenta",
    "succeeded": "green",
    "failed": "red",
    "cancelled": "dim",
    "rejected": "red",
    UNKNOWN: "dim",
    NOTHING: "dim",
}


def _style(cell: str) -> str:
    return STATE_STYLES.get(cell.strip().partition(" ")[0], "")


def _texts(columns: Sequence[Column[Row]], cells: Sequence[Sequence[str]]) -> list[list[str]]:
    """The texts of each column, its title first."""
    return [[column.title, *(line[i] for line in cells)] for i, column in enumerate(columns)]


def _padded(columns: Sequence[Column[Row]], cells: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """The titles, then the rows, each text as wide as its column."""
    padded = []
    for column, texts in zip(columns, _texts(columns, cells), strict=True):
        width = max(map(len, texts))
        padded.append([_pad(text, width, column.align) for text in texts])
    return list(zip(*padded, strict=True))


def _pad(text: str, width: int, align: Align) -> str:
    return text.rjust(width) if align is Align.RIGHT else text.ljust(width)
