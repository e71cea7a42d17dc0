"""The pacer against programs that compute or sleep through their steps, in simulated time."""

from __future__ import annotations

import pytest

from agent.pacing import PERIOD_S, Mark, Pacer


def progress(pacer: Pacer, step_s: float, *, sleeps: bool, until_s: float) -> float:
    """Work done per second by a program of steps of ``step_s`` that is held whenever the pacer says so."""
    now_s, done, left_s = 0.0, 0, step_s
    marks: list[Mark] = []
    phase = pacer.advance(now_s)
    while now_s < until_s:
        end_s = min(phase.until_s, now_s + 0.25)  # the shim also looks up in between
        if phase.running:
            while now_s + left_s <= end_s:
                now_s += left_s
                done, left_s = done + 1, step_s
                marks.append(Mark(done, now_s))
            left_s -= end_s - now_s
        elif sleeps:
            left_s = max(0.0, left_s - (end_s - now_s))  # the timer of a stopped process runs on
        now_s = end_s
        if now_s >= phase.until_s:
            pacer.observe(marks)
            marks = []
        phase = pacer.advance(now_s)
    return done * step_s / until_s


@pytest.mark.parametrize("speed", [0.9, 0.7, 0.5, 0.3])
@pytest.mark.parametrize("step_s", [0.002, 0.0104, 0.0251, 0.05, 0.2])
@pytest.mark.parametrize("sleeps", [True, False], ids=["sleeping", "computing"])
def test_a_program_gets_the_speed_it_was_given(sleeps: bool, step_s: float, speed: float) -> None:
    pacer = Pacer(0.0)
    pacer.set_speed(speed, 0.0)
    assert progress(pacer, step_s, sleeps=sleeps, until_s=30.0) == pytest.approx(speed, rel=0.05)


def test_full_speed_is_never_interrupted() -> None:
    pacer = Pacer(0.0)
    phase = pacer.set_speed(1.0, 0.0)
    assert phase.running
    assert phase.until_s == float("inf")
    assert pacer.advance(10.0).running


def test_no_phase_is_longer_than_the_period_without_reported_steps() -> None:
    pacer = Pacer(0.0)
    phase, now_s = pacer.set_speed(0.3, 0.0), 0.0
    for _ in range(200):
        assert 0 < phase.until_s - now_s <= PERIOD_S
        now_s = phase.until_s
        phase = pacer.advance(now_s)


@pytest.mark.parametrize("speed", [0.0, -3.0, float("nan"), 1e-9])
def test_a_job_gets_on_whatever_the_speed(speed: float) -> None:
    pacer = Pacer(0.0)
    phase, now_s, ran_s = pacer.set_speed(speed, 0.0), 0.0, 0.0
    while now_s < 20.0:
        ran_s += (phase.until_s - now_s) * phase.running
        now_s = phase.until_s
        phase = pacer.advance(now_s)
    assert ran_s > 0.15


def test_lost_time_is_made_up_only_in_part() -> None:
    pacer = Pacer(0.0)
    pacer.set_speed(0.5, 0.0)
    phase, now_s = pacer.advance(0.0), 0.0
    while phase.running:
        now_s = phase.until_s
        phase = pacer.advance(now_s)
    now_s += 100.0  # the shim slept through a pause
    begun_s, held_s = now_s, 0.0
    phase = pacer.advance(now_s)
    while now_s < begun_s + 2.0:
        held_s += (phase.until_s - now_s) * (not phase.running)
        now_s = phase.until_s
        phase = pacer.advance(now_s)
    assert held_s > 0.7  # back at half speed within half a second


def test_served_is_the_integral_of_the_speed() -> None:
    pacer = Pacer(0.0)
    pacer.advance(2.0)
    pacer.set_speed(0.5, 2.0)
    pacer.advance(6.0)
    pacer.set_speed(1.0, 6.0)
    pacer.advance(7.0)
    assert pacer.served_s == pytest.approx(2.0 + 2.0 + 1.0)


def test_a_program_without_times_or_that_counts_anew_is_paced_all_the_same() -> None:
    pacer = Pacer(0.0)
    pacer.set_speed(0.5, 0.0)
    pacer.observe([Mark(1, None), Mark(2, None), Mark(1, 5.0), Mark(1, 4.0), Mark(0, None)])
    assert progress(pacer, 10.0, sleeps=False, until_s=10.0) == 0.0
