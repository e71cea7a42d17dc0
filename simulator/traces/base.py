"""What every trace format gives and gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from placement.trace import TraceRow

HEAD_LINES = 5


@dataclass(frozen=True, slots=True)
class Head:
    """The first lines of a trace, by which its format is recognised."""

    lines: tuple[str, ...]

    @property
    def header(self) -> tuple[str, ...]:
        """The names in the first line, read as a comma-separated header; empty for an empty file."""
        return tuple(name.strip() for name in self.lines[0].split(",")) if self.lines else ()


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read a trace; ``options`` are the user's ``k=v`` pairs, already checked by name.

    ``data_folder`` holds public traces and the tables that go with them.
    """

    skip_bad_lines: bool = False
    limit: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    data_folder: Path | None = None


@dataclass(slots=True)
class Notes:
    """What a format wants to tell the user once, after the last line."""

    notices: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Source:
    """What a format is told before the first line."""

    path: Path
    header: tuple[str, ...]
    options: Mapping[str, str]
    notes: Notes
    data_folder: Path | None = None


Parse = Callable[[Sequence[str], int], TraceRow]
"""One line's fields and the line number to one row; raises InvalidInput for a line that cannot be right."""


@dataclass(frozen=True, slots=True)
class TraceFormat:
    """One trace format.

    ``prepare`` looks at the header and the options once and returns the function that reads each line.
    ``fields`` are the numbers of fields a line may have, empty for as many as the header (without a
    header the first line decides among them).  ``from_zero`` moves the first submission to second 0.
    """

    name: str
    summary: str
    recognises: Callable[[Head], bool]
    prepare: Callable[[Source], Parse]
    options: tuple[str, ...] = ()
    delimiter: str = ","
    fields: frozenset[int] = frozenset()
    from_zero: bool = False

    @property
    def has_header(self) -> bool:
        """Whether the first line names the columns."""
        return not self.fields


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace that has been read: rows in the order of submission, and what there is to tell about it."""

    path: str
    format: str
    rows: tuple[TraceRow, ...]
    bad_lines: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
