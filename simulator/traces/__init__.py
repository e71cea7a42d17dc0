"""Readers of recorded workloads: one small file a format, listed here.

To add a format, write a module with one :class:`~simulator.traces.base.TraceFormat` and list it in
``FORMATS``; recognition asks in this order.
"""

from __future__ import annotations

import dataclasses
import difflib
from pathlib import Path

from placement.model import InvalidInput, UnknownName
from simulator.traces.base import ReadOptions, Trace, TraceFormat
from simulator.traces.gavel import GAVEL
from simulator.traces.openb import OPENB
from simulator.traces.own import OWN
from simulator.traces.philly import PHILLY
from simulator.traces.reading import head_of, read_as, recognise
from simulator.traces.tiresias import TIRESIAS

FORMATS: tuple[TraceFormat, ...] = (OWN, OPENB, PHILLY, TIRESIAS, GAVEL)

ANY_TRACE = ("known_durations", "profiles")
"""Options of a simulation whatever its trace; the formats pass them over."""


def format_named(name: str) -> TraceFormat:
    """The trace format of that name.

    Raises:
        UnknownName: nobody registered it.
    """
    for candidate in FORMATS:
        if candidate.name == name:
            return candidate
    names = ", ".join(candidate.name for candidate in FORMATS)
    raise UnknownName(f"trace format {name!r} is unknown; choose one of {names}")


def format_of(path: Path, name: str | None = None) -> TraceFormat:
    """The format of that name, or the one that the file's content shows.

    Raises:
        UnknownName: nobody registered it, or no format begins like the file.
        InvalidInput: the file cannot be opened or is empty.
    """
    if name is None:
        return recognise(path, FORMATS)
    chosen = format_named(name)
    head_of(path)
    return chosen


def read_trace(path: Path, options: ReadOptions, format_name: str | None = None) -> Trace:
    """Read a trace, plain or gzip; without a name the format is recognised from the content.

    Raises:
        BrokenTrace: a line cannot be read; the message starts with ``FILE:LINE:``.
        InvalidInput: the file cannot be opened, its format is not recognised, or an option does not fit it.
    """
    chosen = format_of(path, format_name)
    known = (*chosen.options, *ANY_TRACE)
    for key in options.options:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            meant = f"did you mean {near[0]!r}? " if near else ""
            raise InvalidInput(
                f"option {key!r} does not fit a {chosen.name} trace; {meant}choose among {', '.join(known)}"
            )
    trace = read_as(chosen, path, options)
    rejected = [
        f"{row.job_id}"
        for row in trace.rows
        if row.duration_by_model_s is not None and not row.duration_by_model_s
    ]
    if rejected:
        notice = (
            f"{trace.path}: rejected for want of a measured rate: {len(rejected)} of {len(trace.rows)} jobs"
        )
        trace = dataclasses.replace(trace, notices=(*trace.notices, notice))
    return trace


__all__ = [
    "ANY_TRACE",
    "FORMATS",
    "ReadOptions",
    "Trace",
    "TraceFormat",
    "format_named",
    "format_of",
    "read_trace",
]
