"""`cotenant top`: GPUs and jobs, live."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from cli.connection import connect, manager_option

if TYPE_CHECKING:
    from rich.console import Console

    from manager.wire.client import Client
    from manager.wire.models import GpuView, InfoView, JobView

FRAME_LINES = 6
"""Lines of a picture besides its rows: headline, titles, blanks."""


@dataclass(frozen=True, slots=True)
class Room:
    """How many columns and lines there are to draw in."""

    width: int
    height: int

    @classmethod
    def of(cls, console: Console) -> Room:
        """Those of a terminal."""
        return cls(console.width, console.height)


@dataclass(frozen=True, slots=True)
class Picture:
    """What is shown of a cluster at one moment: its GPUs, and the jobs that have not ended."""

    info: InfoView
    gpus: list[GpuView]
    jobs: list[JobView]

    @classmethod
    def of(cls, client: Client) -> Picture:
        """Ask the manager."""
        gpus = sorted(client.gpus(), key=lambda gpu: (gpu.node_id, gpu.slot))
        return cls(client.info(), gpus, client.jobs(ended=False))

    def names(self) -> dict[str, str]:
        """The names of jobs, by id."""
        return {job.job_id: job.name for job in self.jobs}

    def headline(self) -> str:
        """One line: how many of what, and who decides."""
        from cli.texts import count_text

        busy = sum(bool(gpu.tenancies) for gpu in self.gpus)
        waiting = sum(job.state.value == "queued" for job in self.jobs)
        return (
            f"{count_text(len(self.gpus), 'GPU')}, {busy} in use; "
            f"{count_text(len(self.jobs) - waiting, 'job')} placed, "
            f"{waiting} waiting; policy {self.info.policy}"
        )


@click.command(short_help="Watch GPUs and jobs live.")
@click.option(
    "--every",
    type=click.FloatRange(min=0.1, max=3600),
    default=1.0,
    show_default=True,
    help="Seconds between looks.",
)
@manager_option
def top(every: float, manager_url: str | None) -> None:
    """Watch the GPUs and the jobs that wait and run; Ctrl-C ends.  Prints once where there is no terminal.

    \b
    Examples:
      cotenant top
      cotenant top --every 5
      watch cotenant top
    """  # noqa: D301 - click reads the backspace character
    with connect(manager_url) as client:
        picture = Picture.of(client)
        if not sys.stdout.isatty():
            click.echo(plain_picture(picture))
            return
        _watch(client, picture, every)


def plain_picture(picture: Picture) -> str:
    """The picture as text."""
    from cli.gpus import gpu_listing
    from cli.job_columns import job_listing
    from cli.tables import plain_table

    gpus = plain_table(gpu_listing(picture.gpus, picture.names()))
    jobs = plain_table(job_listing(picture.jobs, picture.info.now_s))
    return "\n\n".join([picture.headline(), gpus, jobs])


def rich_picture(picture: Picture, room: Room) -> Any:
    """The picture as a rich renderable; where it is too high, only those jobs that hold nothing."""
    from rich.console import Group
    from rich.text import Text

    from cli.gpus import gpu_listing
    from cli.job_columns import job_listing
    from cli.tables import rich_table

    gpus = gpu_listing(picture.gpus, picture.names())
    jobs = picture.jobs
    if len(gpus.rows) + len(jobs) + FRAME_LINES > room.height:
        # Those that hold a share stand in the table of GPUs already.
        jobs = [job for job in jobs if not job.assignments]
    parts: list[Any] = [Text(picture.headline(), style="bold"), Text(), rich_table(gpus, room.width)]
    if jobs:
        parts += [Text(), rich_table(job_listing(jobs, picture.info.now_s), room.width)]
    return Group(*parts)


def _watch(client: Client, picture: Picture, every_s: float) -> None:
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    from placement.model import Unreachable

    try:
        with Live(screen=True, auto_refresh=False) as live:
            live.update(rich_picture(picture, Room.of(live.console)), refresh=True)
            while True:
                time.sleep(every_s)
                try:
                    picture = Picture.of(client)
                    live.update(rich_picture(picture, Room.of(live.console)), refresh=True)
                except Unreachable:
                    notice = Text("the manager does not answer; this is what it said last", style="bold red")
                    live.update(Group(notice, rich_picture(picture, Room.of(live.console))), refresh=True)
    except KeyboardInterrupt:
        return  # The way to leave: not a failure.
