"""`cotenant logs`: the output of a job."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import click

from cli.connection import connect, manager_option

if TYPE_CHECKING:
    from manager.wire.client import Client
    from manager.wire.models import LogChunk

    Ask = Callable[[Callable[[], LogChunk]], LogChunk]


@click.command(short_help="Print the output of a job.")
@click.argument("job")
@click.option("-f", "--follow", is_flag=True, help="Go on until the job has ended, over all its attempts.")
@click.option(
    "--worker", type=click.IntRange(min=0), default=0, show_default=True, help="Of this worker of a gang."
)
@click.option("--attempt", type=click.IntRange(min=1), help="Of this attempt.  [default: the latest]")
@manager_option
def logs(job: str, follow: bool, worker: int, attempt: int | None, manager_url: str | None) -> None:
    """Print what JOB wrote to its standard output and error.

    \b
    Examples:
      cotenant logs job-1
      cotenant logs -f job-1
      cotenant logs --worker 1 --attempt 2 job-1
    """  # noqa: D301 - click reads the backspace character
    from cli.follow import patiently

    with connect(manager_url) as client:
        if follow:
            _follow(_Copy(client, job, worker, patiently), attempt)
        else:
            _Copy(client, job, worker, lambda ask: ask()).rest(attempt)


class _Copy:
    """Copies one worker's output, part by part."""

    def __init__(self, client: Client, job_id: str, worker: int, ask: Ask) -> None:
        self.client = client
        self.job_id = job_id
        self._worker = worker
        self._ask = ask

    def rest(self, attempt: int | None, offset: int = 0) -> tuple[int, bool]:
        """Copy what is there from ``offset`` on; returns the new offset, and whether that was the end."""
        while True:
            chunk = self._ask(partial(self.client.logs, self.job_id, self._worker, attempt, offset))
            if chunk.data:
                sys.stdout.buffer.write(chunk.data)
                sys.stdout.buffer.flush()
            attempt = chunk.attempt
            if chunk.complete or chunk.next_offset <= offset:
                return max(offset, chunk.next_offset), chunk.complete
            offset = chunk.next_offset


def _follow(copy: _Copy, only_attempt: int | None) -> None:
    """Copy an attempt, or the latest and all that follow, until the job has ended."""
    from cli.follow import POLL_S, patiently
    from placement.lifecycle import ENDED

    job = copy.client.job(copy.job_id)
    attempt, offset = only_attempt or max(1, job.attempt), 0
    while True:
        # The state is read first: output that a job left before it ended is then surely copied after that.
        job = patiently(lambda: copy.client.job(copy.job_id))
        complete = False
        if job.attempt >= attempt:
            offset, complete = copy.rest(attempt, offset)
        if complete:
            attempt, offset = attempt + 1, 0
        over = job.state in ENDED and (not complete or job.attempt < attempt)
        if over or (complete and only_attempt is not None):
            return
        if not complete:
            time.sleep(POLL_S)
