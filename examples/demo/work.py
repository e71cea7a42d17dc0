"""What the demonstration jobs have in common: steps that take time only while the process runs.

A plain ``time.sleep`` goes on while a process is stopped, so a job made of long sleeps would not feel its
neighbours.  :class:`Steps` sleeps in slices of 2 ms and counts a slice only as far as it really ran, which is
what a training step that computes would do.  Nothing here needs more than the standard library.
"""

import os
import time

try:
    from cotenant import report_progress
except ImportError:  # The interpreter of a real job need not have cotenant: it may append the lines itself.

    def report_progress(step: int, **_metrics: float) -> None:
        """Append ``step=N`` to the file that the agent watches."""
        path = os.environ.get("COTENANT_PROGRESS")
        if path:
            with open(path, "a", encoding="utf-8") as progress:
                progress.write(f"step={step}\n")


SLICE_S = 0.002
LONGEST_SLICE_S = 0.006
"""A slice that took longer was interrupted; what is above this is not counted as work."""


class Steps:
    """Equal steps of ``step_s`` seconds of running time, each reported when it is done."""

    def __init__(self, step_s: float) -> None:
        self._step_s = step_s
        self._ahead_s = 0.0

    def run(self, number: int, **metrics: float) -> None:
        """Work for one step, then report it as step ``number``."""
        while self._ahead_s < self._step_s:
            before = time.monotonic()
            time.sleep(SLICE_S)
            self._ahead_s += min(time.monotonic() - before, LONGEST_SLICE_S)
        # What the last slice ran too long counts for the next step, so that the rate is exact.
        self._ahead_s -= self._step_s
        report_progress(number, **metrics)
