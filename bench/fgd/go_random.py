"""The generator of Go's ``math/rand``, so that a seed means the same arrivals as in the published runs.

An additive lagged Fibonacci generator after D. P. Mitchell and J. A. Reeds: o[n] = o[n-273] + o[n-607] modulo
2**64.  Go mixes each seed with the state that the same generator has after 7.8e12 steps from seed 1; it ships
that state as a table, here it is computed by jumping ahead: x**n modulo x**607 - x**334 - 1.
"""

from __future__ import annotations

from collections.abc import MutableSequence
from functools import cache
from typing import Any

import numpy as np

_LONG, _SHORT = 607, 273
_WORD = (1 << 64) - 1
_MIXED_AFTER = 7_800_000_000_000
"""Steps after which the state is taken that every seed is mixed with."""


class GoRandom:
    """Draws as ``rand.New(rand.NewSource(seed))`` of Go does."""

    def __init__(self, seed: int) -> None:
        seeds = _seed_words(seed, (40, 20, 0))
        self._state = [word ^ mixed for word, mixed in zip(seeds, _mixed_state(), strict=True)]
        self._tap, self._feed = 0, _LONG - _SHORT

    def bits(self) -> int:
        """A number of 63 bits; ``Int63`` and ``Int``."""
        self._tap = (self._tap - 1) % _LONG
        self._feed = (self._feed - 1) % _LONG
        drawn = (self._state[self._feed] + self._state[self._tap]) & _WORD
        self._state[self._feed] = drawn
        return drawn & (_WORD >> 1)

    def below(self, limit: int) -> int:
        """A number from 0 to ``limit`` - 1, for limits below 2**31; ``Intn``."""
        if limit & (limit - 1) == 0:
            return (self.bits() >> 32) & (limit - 1)
        most = (1 << 31) - 1 - (1 << 31) % limit
        drawn = self.bits() >> 32
        while drawn > most:
            drawn = self.bits() >> 32
        return drawn % limit

    def shuffle(self, items: MutableSequence[Any]) -> None:
        """Put the items into a random order; ``Shuffle``."""
        for last in range(len(items) - 1, 0, -1):
            other = self._scaled(last + 1)
            items[last], items[other] = items[other], items[last]

    def permutation(self, count: int) -> list[int]:
        """The numbers from 0 to ``count`` - 1 in a random order; ``Perm``."""
        drawn = [0] * count
        for index in range(count):
            other = self.below(index + 1)
            drawn[index] = drawn[other]
            drawn[other] = index
        return drawn

    def _scaled(self, limit: int) -> int:
        """A number from 0 to ``limit`` - 1 by multiplication (Lemire, arXiv 1805.10941); in ``Shuffle``."""
        product = (self.bits() >> 31) * limit
        while product & 0xFFFFFFFF < (1 << 32) % limit:
            product = (self.bits() >> 31) * limit
        return product >> 32


def _seed_words(seed: int, shifts: tuple[int, int, int]) -> list[int]:
    """State words from a seed, each of three draws of a Lehmer generator: factor 48271, modulo 2**31 - 1."""
    modulus = (1 << 31) - 1
    lehmer = seed % modulus or 89_482_311
    for _ in range(20):
        lehmer = lehmer * 48_271 % modulus
    words = []
    for _ in range(_LONG):
        word = 0
        for shift in shifts:
            lehmer = lehmer * 48_271 % modulus
            word ^= lehmer << shift
        words.append(word)
    return words


@cache
def _mixed_state() -> tuple[int, ...]:
    """The state after ``_MIXED_AFTER`` steps from seed 1, in the order of the state's places."""
    # Step k overwrites place (333 - k) % 607: the outputs before step 0 lie there in reverse order.
    places = [(_LONG - _SHORT - 1 - step) % _LONG for step in range(_LONG)]
    seeded = _seed_words(1, (20, 10, 0))
    past = np.array([seeded[place] for place in places], dtype=np.uint64)
    state = [0] * _LONG
    weights = _power_of_x(_MIXED_AFTER)
    for step in range(_MIXED_AFTER, _MIXED_AFTER + _LONG):
        state[places[step % _LONG]] = int((weights * past).sum(dtype=np.uint64))
        weights = _reduced(np.concatenate([np.zeros(1, np.uint64), weights]))
    return tuple(state)


def _power_of_x(exponent: int) -> Any:
    """Coefficients of x**exponent modulo x**607 - x**334 - 1, each modulo 2**64."""
    power = np.zeros(_LONG, dtype=np.uint64)
    power[0] = 1
    for bit in bin(exponent)[2:]:
        power = _reduced(np.convolve(power, power))
        if bit == "1":
            power = _reduced(np.concatenate([np.zeros(1, np.uint64), power]))
    return power


def _reduced(polynomial: Any) -> Any:
    """A polynomial of any degree modulo x**607 - x**334 - 1."""
    polynomial = polynomial.copy()
    while len(polynomial) > _LONG:
        # At most so many that none of them is added to another of them.
        cut = max(_LONG, len(polynomial) - _SHORT)
        high = polynomial[cut:].copy()
        polynomial[cut - _SHORT : len(polynomial) - _SHORT] += high
        polynomial[cut - _LONG : len(polynomial) - _LONG] += high
        polynomial = polynomial[:cut]
    return polynomial
