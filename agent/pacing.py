"""When a paced job runs and when it stands still: pure arithmetic, told the time.

A job on a simulated GPU is slowed to ``speed`` (1/slowdown) by stopping its processes for a part of every
period.  Stopped processes do not compute, but their timers run on: a program that sleeps to stand for a
kernel gets up to one step per stop for nothing.  So the pacer also reads the steps that the program reports,
learns from undisturbed neighbours among them what a step costs, and takes the free ones off the next windows.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

PERIOD_S = 0.1
SHORTEST_RUN_S = 0.002
SLOWEST = 0.01
"""Speeds below are taken as this: a job must always get on."""
MOST_CREDIT_S = 2 * PERIOD_S
"""How much lost run time is made up for; more would turn a hiccup into a sprint."""
MOST_DEBT_S = 2.0
"""How far ahead a job may be taken to be; more would be a mistake about its steps."""
LONGEST_STOP_S = 2.0
"""Stops beyond the period come only where reported steps prove that shorter ones slow nothing down."""
CALIBRATION_S = 0.6
"""How long a job may run at full speed, once, so that the cost of a step can be measured; it is paid back."""
SAMPLES_WANTED = 3
SAMPLES_KEPT = 32


@dataclass(frozen=True, slots=True)
class Mark:
    """A reported step; ``at_s`` is on the monotonic clock, None if the program gave no time."""

    step: int
    at_s: float | None


@dataclass(frozen=True, slots=True)
class Phase:
    """What to do until ``until_s`` (monotonic): let the job run, or keep it stopped."""

    running: bool
    until_s: float


class Pacer:
    """Decides phase after phase; call :meth:`advance` whenever a phase ends or something changed.

    ``served_s`` is the work allowed so far in solo-equivalent seconds: the integral of the speed.
    """

    def __init__(self, now_s: float) -> None:
        self.served_s = 0.0
        self._speed = 1.0
        self._last_s = now_s
        self._phase = Phase(True, math.inf)
        self._ran_s = 0.0
        self._allowed_s = 0.0
        self._lead_s = 0.0
        """Work that reported steps prove beyond the time that it ran; at most one step is kept here."""
        self._cost_s = 0.0
        self._stops: deque[tuple[float, float]] = deque(maxlen=64)
        self._step_s: deque[float] = deque(maxlen=SAMPLES_KEPT)
        self._last_mark: Mark | None = None
        self._calibrated_s: float | None = None

    @property
    def pacing(self) -> bool:
        """Whether the job is being slowed."""
        return self._speed < 1

    def set_speed(self, speed: float, now_s: float) -> Phase:
        """Take a new speed from now on; values out of range are clamped."""
        self.advance(now_s)
        if self._speed >= 1:
            self._ran_s = self._allowed_s = self._lead_s = 0.0
        self._speed = min(1.0, max(SLOWEST, speed))
        self._phase = Phase(self._phase.running, now_s)
        return self.advance(now_s)

    def observe(self, marks: Iterable[Mark]) -> None:
        """Take reported steps into account; call it before :meth:`advance`."""
        steps = 0
        for mark in marks:
            before, self._last_mark = self._last_mark, mark
            if before is None or mark.step <= before.step:
                continue  # the first one, or a program that started counting again
            steps += mark.step - before.step
            self._measure(before, mark)
        if self.pacing and self._step_s:
            # The lower quartile: what delayed a step from outside is not its cost.
            self._cost_s = sorted(self._step_s)[len(self._step_s) // 4]
            self._lead_s += steps * self._cost_s

    def advance(self, now_s: float) -> Phase:
        """Account for the time since the last call and say what to do next."""
        elapsed = max(0.0, now_s - self._last_s)
        self._last_s = now_s
        self.served_s += elapsed * self._speed
        if not self.pacing:
            self._phase = Phase(True, math.inf)
            return self._phase
        self._allowed_s += elapsed * self._speed
        if self._phase.running:
            self._ran_s += elapsed
            self._lead_s -= elapsed
        elif elapsed:
            self._stops.append((now_s - elapsed, now_s))
        if now_s >= self._phase.until_s:
            self._phase = self._next(now_s)
        return self._phase

    def _next(self, now_s: float) -> Phase:
        if self._calibrating(now_s):
            return Phase(True, now_s + PERIOD_S)
        # Here the steps of the phase are known.  Time without steps is no debt: the lead never falls
        # below nothing, and what exceeds one step in progress is work done.
        free_s = max(0.0, self._lead_s - self._cost_s)
        self._lead_s = max(0.0, self._lead_s - free_s)
        self._ran_s += free_s
        ahead_s = self._ran_s + self._lead_s - self._allowed_s
        within_s = min(MOST_DEBT_S, max(-MOST_CREDIT_S, ahead_s))
        self._allowed_s += ahead_s - within_s
        ahead_s = within_s
        if self._phase.running:
            # A stop lasts until the allowance has caught up.
            longest_s = LONGEST_STOP_S if self._lead_s > 0 else PERIOD_S - SHORTEST_RUN_S
            pause_s = min(longest_s, ahead_s / self._speed)
            if pause_s > SHORTEST_RUN_S:
                return Phase(False, now_s + pause_s)
        run_s = min(PERIOD_S, max(SHORTEST_RUN_S, self._speed * PERIOD_S - ahead_s))
        return Phase(True, now_s + run_s)

    def _calibrating(self, now_s: float) -> bool:
        """Once, when a program has begun to report and its steps were never seen undisturbed."""
        if self._last_mark is None or self._last_mark.at_s is None or len(self._step_s) >= SAMPLES_WANTED:
            return False
        if self._calibrated_s is None:
            self._calibrated_s = now_s
        return now_s - self._calibrated_s < CALIBRATION_S

    def _measure(self, before: Mark, mark: Mark) -> None:
        if before.at_s is None or mark.at_s is None or mark.at_s <= before.at_s:
            return
        from_s, to_s = before.at_s, mark.at_s
        if any(stop_s < to_s and go_s > from_s for stop_s, go_s in self._stops):
            return  # a stop fell into it: it says nothing
        self._step_s.append((to_s - from_s) / (mark.step - before.step))
