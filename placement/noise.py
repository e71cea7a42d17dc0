"""Draws that are the same in every replay: a hash of who asks, not a generator with a state."""

from __future__ import annotations

import functools

_MASK = (1 << 64) - 1


def _mix(value: int) -> int:
    """64 well-mixed bits from 64: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014, section 5)."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


@functools.lru_cache(maxsize=64)
def _mixed_seed(seed: int) -> int:
    """There are few seeds, and each is mixed again and again."""
    return _mix(seed & _MASK)


def draw(seed: int, sequence: int, worker: int, choices: int) -> int:
    """A number from 0 to ``choices`` - 1 that depends on all arguments."""
    return _mix(_mix(_mixed_seed(seed) ^ sequence) ^ worker) % choices
