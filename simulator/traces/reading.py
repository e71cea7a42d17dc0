"""Opens a trace, recognises its format from the content, and reads it line by line."""

from __future__ import annotations

import csv
import dataclasses
import gzip
import io
import itertools
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from placement.model import BrokenTrace, InvalidInput, UnknownName
from placement.trace import TraceRow
from simulator.traces.base import HEAD_LINES, Head, Notes, Parse, ReadOptions, Source, Trace, TraceFormat

_GZIP_MAGIC = b"\x1f\x8b"


def open_text(path: Path, errors: str = "strict") -> IO[str]:
    """The text of a file, unpacked if it is gzip whatever its name.

    Raises:
        InvalidInput: the file cannot be opened.
    """
    try:
        raw = path.open("rb")
        packed = raw.read(2) == _GZIP_MAGIC
        raw.seek(0)
    except OSError as error:
        raise InvalidInput(f"{path}: cannot be read: {error.strerror or error}") from error
    stream = gzip.GzipFile(fileobj=raw) if packed else raw
    return io.TextIOWrapper(stream, encoding="utf-8-sig", errors=errors, newline="")


def head_of(path: Path) -> Head:
    """The first lines of a file.

    Raises:
        InvalidInput: the file cannot be opened or is no text.
    """
    with open_text(path, errors="replace") as text:
        try:
            return Head(tuple(line.rstrip("\r\n") for line in itertools.islice(text, HEAD_LINES)))
        except (OSError, EOFError, zlib.error) as error:
            raise BrokenTrace(f"{path}:1: is not a text file: {error}") from error


def read_as(chosen: TraceFormat, path: Path, options: ReadOptions) -> Trace:
    """Read a whole trace in this format; rows come in the order of submission, equal times in file order.

    Raises:
        BrokenTrace: a line cannot be read and bad lines are not skipped, or nothing is left.
        InvalidInput: the file cannot be opened, or an option does not fit the format.
    """
    notes, bad_lines = Notes(), list[str]()
    rows: list[TraceRow] = []
    seen: dict[str, int] = {}
    for line, result in _results(chosen, path, options, notes):
        if isinstance(result, InvalidInput):
            problem = str(result)
        elif seen.setdefault(result.job_id, line) != line:
            problem = f"job_id {result.job_id!r} stands in line {seen[result.job_id]} already"
        else:
            rows.append(result)
            continue
        if not options.skip_bad_lines:
            raise BrokenTrace(f"{path}:{line}: {problem}")
        bad_lines.append(f"{path}:{line}: {problem}")
    if not rows:
        raise BrokenTrace(
            f"{path}:1: holds no job that can be read"
            + (f"; the first line that is wrong: {bad_lines[0]}" if bad_lines else "")
        )
    rows.sort(key=lambda row: row.submit_s)
    if chosen.from_zero:
        rows = _from_zero(rows)
    return Trace(str(path), chosen.name, tuple(rows[: options.limit]), tuple(bad_lines), tuple(notes.notices))


def _from_zero(rows: list[TraceRow]) -> list[TraceRow]:
    start_s = rows[0].submit_s
    return [dataclasses.replace(row, submit_s=row.submit_s - start_s) for row in rows]


def _results(
    chosen: TraceFormat, path: Path, options: ReadOptions, notes: Notes
) -> Iterator[tuple[int, TraceRow | InvalidInput]]:
    """Line number with a row or with what is wrong there; a file that breaks off ends with an error."""
    with open_text(path) as text:
        # Tab-separated traces hold shell commands, whose quotation marks are text.
        tabs = chosen.delimiter == "\t"
        lines = csv.reader(
            text, delimiter=chosen.delimiter, quoting=csv.QUOTE_NONE if tabs else csv.QUOTE_MINIMAL
        )
        try:
            header = _header(path, lines) if chosen.has_header else ()
            parse = _prepared(chosen, Source(path, header, options.options, notes, options.data_folder))
            widths = chosen.fields or {len(header)}
            while (fields := _next(lines)) is not None:
                if not fields:
                    continue
                if isinstance(fields, csv.Error):
                    yield lines.line_num, InvalidInput(f"cannot be split into fields: {fields}")
                elif len(fields) not in widths:
                    expected = " or ".join(str(width) for width in sorted(widths))
                    yield lines.line_num, InvalidInput(f"{len(fields)} fields where {expected} are expected")
                else:
                    widths = {len(fields)}
                    try:
                        yield lines.line_num, parse(fields, lines.line_num)
                    except InvalidInput as error:
                        yield lines.line_num, error
        except UnicodeDecodeError as error:
            raise BrokenTrace(f"{path}:{_undecodable_line(path)}: is not UTF-8 text") from error
        except (EOFError, OSError, zlib.error) as error:
            raise BrokenTrace(f"{path}:{lines.line_num + 1}: the file breaks off here: {error}") from error


def _header(path: Path, lines: Iterator[list[str]]) -> tuple[str, ...]:
    names = _next(lines)
    if isinstance(names, csv.Error):
        raise BrokenTrace(f"{path}:1: the header cannot be split into fields: {names}")
    return tuple(name.strip() for name in names or ())


def _prepared(chosen: TraceFormat, source: Source) -> Parse:
    try:
        return chosen.prepare(source)
    except BrokenTrace as error:
        raise BrokenTrace(f"{source.path}:1: {error}") from error


def _next(lines: Iterator[list[str]]) -> Sequence[str] | csv.Error | None:
    """The next line's fields, what is wrong with them, or None at the end."""
    try:
        return next(lines, None)
    except csv.Error as error:
        return error


def _undecodable_line(path: Path) -> int:
    with path.open("rb") as raw:
        packed = raw.read(2) == _GZIP_MAGIC
    with gzip.open(path) if packed else path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                line.decode()
            except UnicodeDecodeError:
                return number
    return 1


def recognise(path: Path, formats: Sequence[TraceFormat]) -> TraceFormat:
    """The format whose marks the file bears.

    Raises:
        UnknownName: none does; the message shows the first line and the names to choose from.
        InvalidInput: the file cannot be opened or is empty.
    """
    head = head_of(path)
    if not any(line.strip() for line in head.lines):
        raise BrokenTrace(f"{path}:1: is empty")
    for candidate in formats:
        if candidate.recognises(head):
            return candidate
    names = ", ".join(candidate.name for candidate in formats)
    start = head.lines[0][:80]
    raise UnknownName(
        f"{path}: no known trace format begins like {start!r}; choose with --format one of {names}"
    )
