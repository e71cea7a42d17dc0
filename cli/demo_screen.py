"""What the demonstration shows: live on a terminal, now and then elsewhere, and into a picture."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO

import click

from cli.tables import NOTHING, Align, Column, Listing, plain_table, rich_table
from cli.texts import exit_text, place_text, shares_text, slowdown_text
from cli.top import Picture, Room, plain_picture, rich_picture

if TYPE_CHECKING:
    from rich.live import Live

    from cli.demo_jobs import Verdict

EVERY_S = 5.0
"""Between two looks where there is no terminal."""
WIDTH = 110
"""Columns of the captured picture."""


class Screen(Protocol):
    """Where the demonstration shows itself."""

    def say(self, text: str) -> None:
        """One line."""

    def picture(self, picture: Picture) -> None:
        """The cluster now."""

    def close(self) -> None:
        """No more pictures; may be called twice."""

    def result(self, verdicts: Sequence[Verdict]) -> None:
        """The last table."""


def screen_for(out: TextIO, capture: Path | None) -> Screen:
    """A live screen on a terminal, plain text elsewhere; with ``capture`` a picture is written as well."""
    screen: Screen = _LiveScreen() if out.isatty() else _PlainScreen()
    return screen if capture is None else _CapturingScreen(screen, capture)


class _PlainScreen:
    """Prints a snapshot every few seconds."""

    def __init__(self) -> None:
        self._next_s = 0.0

    def say(self, text: str) -> None:
        click.echo(text)

    def picture(self, picture: Picture) -> None:
        if time.monotonic() < self._next_s or not picture.jobs:
            return
        self._next_s = time.monotonic() + EVERY_S
        click.echo("\n" + plain_picture(picture))

    def close(self) -> None:
        pass

    def result(self, verdicts: Sequence[Verdict]) -> None:
        click.echo("\n" + plain_table(result_listing(verdicts)) + "\n")


class _LiveScreen:
    """Redraws one picture in place."""

    def __init__(self) -> None:
        self._live: Live | None = None

    def say(self, text: str) -> None:
        click.echo(text)

    def picture(self, picture: Picture) -> None:
        from rich.live import Live

        if self._live is None:
            self._live = Live(auto_refresh=False, transient=True, vertical_overflow="crop")
            self._live.start()
        self._live.update(rich_picture(picture, Room.of(self._live.console)), refresh=True)

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def result(self, verdicts: Sequence[Verdict]) -> None:
        from rich.console import Console

        console = Console()
        console.print(rich_table(result_listing(verdicts), console.width), "", crop=False)


class _CapturingScreen:
    """Passes everything on, and draws the most telling picture and the result into an SVG file."""

    def __init__(self, screen: Screen, path: Path) -> None:
        self._screen = screen
        self._path = path
        self._best: tuple[tuple[int, int, int], Any] = ((-1, -1, -1), None)

    def say(self, text: str) -> None:
        self._screen.say(text)

    def picture(self, picture: Picture) -> None:
        worth = telling(picture)
        if worth > self._best[0]:
            # As on a low screen: the running jobs stand in the table of GPUs.
            self._best = (worth, rich_picture(picture, Room(WIDTH, 0)))
        self._screen.picture(picture)

    def close(self) -> None:
        self._screen.close()

    def result(self, verdicts: Sequence[Verdict]) -> None:
        from rich.console import Console, Group
        from rich.text import Text

        self._screen.result(verdicts)
        console = Console(
            record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor"
        )
        ending = Text("and what became of them:", style="bold")
        result = rich_table(result_listing(verdicts), WIDTH)
        console.print(Group(self._best[1], Text(), ending, Text(), result))
        self._path.write_text(_svg(console), encoding="utf-8")


def telling(picture: Picture) -> tuple[int, int, int]:
    """How much a picture shows: GPUs at work that have been measured, jobs beside others, running jobs."""
    measured = [gpu for gpu in picture.gpus if gpu.tenancies and gpu.sm_milli and gpu.memory_used_bytes]
    together = sum(len(gpu.tenancies) for gpu in measured if len(gpu.tenancies) > 1)
    return len(measured), together, sum(job.state.value == "running" for job in picture.jobs)


def result_listing(verdicts: Sequence[Verdict]) -> Listing[Verdict]:
    """What became of each job: where it ran, with whom, and how slow it was against the prediction."""
    names = {verdict.view.job_id: verdict.job.name for verdict in verdicts}
    columns: list[Column[Verdict]] = [
        Column("JOB", lambda verdict: verdict.job.name),
        Column("TENANT", lambda verdict: verdict.job.tenant),
        Column("RESULT", _result),
        Column("RAN ON", _place, flexible=True),
        Column("WITH", lambda verdict: _neighbours(verdict, names), flexible=True),
        Column("PREDICTED", lambda verdict: slowdown_text(verdict.view.predicted_slowdown), Align.RIGHT),
        Column("OBSERVED", lambda verdict: slowdown_text(verdict.view.observed_slowdown), Align.RIGHT),
    ]
    return Listing(columns, verdicts, lambda verdict: verdict.job.name, "no jobs")


def _result(verdict: Verdict) -> str:
    state = verdict.view.state.value
    return state if state == "succeeded" else f"{state} ({exit_text(verdict.view)})"


def _place(verdict: Verdict) -> str:
    return f"{place_text(verdict.view) or NOTHING}: {shares_text(verdict.view, memory=False)}"


def _neighbours(verdict: Verdict, names: dict[str, str]) -> str:
    return ", ".join(sorted(names.get(job_id, job_id) for job_id in verdict.view.neighbours)) or NOTHING


def _svg(console: Any) -> str:
    """The recorded screen, with the fonts of whoever looks at it: nothing is fetched from elsewhere."""
    drawn = str(console.export_svg(title="make demo"))
    return re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL)
