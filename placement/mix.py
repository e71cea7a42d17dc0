"""What is usually asked for here, and where its compiled tables stand in one flat array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from placement.model import Profile, Request

WHOLE = 1 << 20
"""Popularity of all usual requests together."""

MOST_USUAL = 62
"""So many usual requests are told apart, one bit each; the least popular beyond are left out."""

Kinds = Sequence[tuple[str, int | None]]
"""Model and memory (bytes) of each kind of GPU."""

(
    CPU_N,
    CPU_AT,
    RAM_N,
    RAM_AT,
    MEMORY_N,
    MEMORY_AT,
    CLIENTS_N,
    CLIENTS_AT,
    EMPTIES_AT,
    SHARE_AT,
    MIG_AT,
    FULL_AT,
    POPULAR_AT,
    KINDS,
    WORTH_AT,
    SLICES_AT,
    TOTALS_AT,
    RATIOS_AT,
    BIG_N,
    BIG_AT,
    BIG_PRICES_AT,
    KIND_PRICES_AT,
) = range(22)
"""Header of the compiled tables: how many entries there are, and where each table begins."""
HEADER = 22

COUNTED = {CPU_AT: CPU_N, RAM_AT: RAM_N, MEMORY_AT: MEMORY_N, CLIENTS_AT: CLIENTS_N, BIG_AT: BIG_N}
"""Tables whose number of entries is in the header, too."""


@dataclass(frozen=True, slots=True)
class UsualRequest:
    """A request as it is often made here, and how often (any unit)."""

    request: Request
    weight: int
    profile: Profile | None = None


Mix = tuple[UsualRequest, ...]
