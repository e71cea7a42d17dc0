"""How far a job is, from the lines that it appends to its progress file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from agent.attempt import open_regular, parse_progress

TAIL_BYTES = 1 << 14
HEAD_BYTES = 1 << 12


@dataclass(frozen=True, slots=True)
class Progress:
    """The last step, and the rate since the first one; None before two steps with their times are known."""

    step: int
    steps_per_s: float | None


def read_progress(path: Path) -> Progress | None:
    """The state of the file; None without a whole line.  Only its ends are read: it may be long."""
    try:
        with open_regular(path) as stream:
            head = stream.read(HEAD_BYTES)
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, size - TAIL_BYTES))
            tail = stream.read(TAIL_BYTES)
    except OSError:
        return None
    last = _steps(tail, whole=size <= TAIL_BYTES)
    first = _steps(head, whole=True)
    if not last:
        return None
    step, at_s = last[-1]
    return Progress(step, _rate(first[0], (step, at_s)) if first else None)


def _rate(first: tuple[int, float | None], last: tuple[int, float | None]) -> float | None:
    if first[1] is None or last[1] is None or last[1] <= first[1] or last[0] <= first[0]:
        return None
    return (last[0] - first[0]) / (last[1] - first[1])


def _steps(data: bytes, *, whole: bool) -> list[tuple[int, float | None]]:
    """The steps of the complete lines; the first line is left out where the data may begin inside it."""
    lines = data.split(b"\n")[:-1]
    parsed = map(parse_progress, lines if whole else lines[1:])
    return [entry for entry in parsed if entry is not None]
