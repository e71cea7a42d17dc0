"""Tell Cotenant how far a program is; the standard library alone, and nothing at all outside a job."""

from __future__ import annotations

import os
import time

PROGRESS_VARIABLE = "COTENANT_PROGRESS"
"""Names the file that a job's progress is appended to; unset outside a job."""


def report_progress(step: int, **metrics: float) -> None:
    """Say that ``step`` steps are done, with any figures worth keeping, such as ``loss=0.3``.

    One line is appended in one write, so several processes of a job may report.  A full disk is passed over
    in silence: reporting must never end the training that it reports on.

    Raises:
        ValueError: ``step`` is negative.
    """
    path = os.environ.get(PROGRESS_VARIABLE)
    if not path:
        return
    if step < 0:
        raise ValueError(f"step: {step} must be at least 0")
    figures = "".join(f" {name}={float(value)!r}" for name, value in metrics.items())
    line = f"step={int(step)} t={time.monotonic():.6f}{figures}\n"
    try:
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(handle, line.encode())
        finally:
            os.close(handle)
    except OSError:
        return
