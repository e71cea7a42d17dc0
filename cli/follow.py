"""Waiting for a job: to its end, or along its output."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from manager.wire.client import Client
    from manager.wire.models import JobView

Answer = TypeVar("Answer")
POLL_S = 0.3
PATIENCE_S = 60.0
"""How long a manager that stopped answering is waited for: it may be starting again."""


def patiently(ask: Callable[[], Answer], patience_s: float = PATIENCE_S) -> Answer:
    """The answer of ``ask``; while the manager cannot be reached, ask again for a while.

    Raises:
        Unreachable: it did not come back in ``patience_s``.
    """
    from placement.model import Unreachable

    deadline_s = time.monotonic() + patience_s
    while True:
        try:
            return ask()
        except Unreachable:
            if time.monotonic() >= deadline_s:
                raise
            time.sleep(POLL_S)


def wait_for_end(client: Client, job_id: str, tell: Callable[[JobView], None]) -> JobView:
    """The job once it has ended; ``tell`` is called with each state and attempt that is seen.

    Raises:
        CotenantError: what :class:`manager.wire.client.Client` raises, a missing manager only after a while.
    """
    from placement.lifecycle import ENDED

    seen: tuple[str, int] | None = None
    while True:
        job = patiently(lambda: client.job(job_id))
        if (job.state.value, job.attempt) != seen:
            seen = (job.state.value, job.attempt)
            tell(job)
        if job.state in ENDED:
            return job
        time.sleep(POLL_S)


def exit_status_of_job(job: JobView) -> int:
    """The exit status that stands for an ended job: its own, 128 + n for signal n, 1 without one."""
    if job.state.value == "succeeded":
        return 0
    if job.exit_code is None or job.exit_code == 0:
        return 1
    return 128 - job.exit_code if job.exit_code < 0 else job.exit_code
