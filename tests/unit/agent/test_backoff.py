"""Waits between tries."""

from __future__ import annotations

import random

from agent.backoff import Backoff


def test_waits_grow_to_a_limit_and_begin_anew_after_a_success() -> None:
    backoff = Backoff(random.Random(1), first_s=1.0, most_s=8.0)
    waits = [backoff.next_s() for _ in range(6)]
    for wait_s, whole_s in zip(waits, (1, 2, 4, 8, 8, 8), strict=True):
        assert whole_s / 2 <= wait_s <= whole_s
    backoff.reset()
    assert backoff.next_s() <= 1.0


def test_two_agents_do_not_wait_alike() -> None:
    one, other = Backoff(random.Random(1)), Backoff(random.Random(2))
    assert [one.next_s() for _ in range(3)] != [other.next_s() for _ in range(3)]
