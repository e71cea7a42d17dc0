"""What is taken for usual where nobody says what is: a coarse mix of shares, slices and whole GPUs."""

from __future__ import annotations

from placement.mix import Mix, UsualRequest
from placement.model import Mode, Request

_SHARED = frozenset({Mode.MPS, Mode.TIMESLICE})
_SLICED = frozenset({Mode.MIG})
_WHOLE = frozenset({Mode.EXCLUSIVE})

SHARES_MILLI = (100, 200, 250, 300, 400, 500, 600, 700, 800, 900)
"""Shares of a GPU, in thousandths; together three of five requests."""

SLICES_MILLI = (142, 285, 428, 571)
"""Slices that hold so much compute; together one of five."""

WHOLE_GPUS = {1: 120, 2: 40, 4: 20, 8: 20}
"""Whole GPUs, and how often of 1,000 requests."""

CPU_MILLI_PER_GPU = 8_000
RAM_BYTES_PER_GPU = 64 << 30


def _usual(request: tuple[int, int, frozenset[Mode]], weight: int) -> UsualRequest:
    gpus, milli, modes = request
    return UsualRequest(
        Request(
            gpus=gpus,
            compute_milli=milli,
            modes=modes,
            cpu_milli=gpus * milli * CPU_MILLI_PER_GPU // 1000,
            ram_bytes=gpus * milli * RAM_BYTES_PER_GPU // 1000,
        ),
        weight,
    )


USUAL: Mix = (
    *(_usual((1, milli, _SHARED), 600 // len(SHARES_MILLI)) for milli in SHARES_MILLI),
    *(_usual((1, milli, _SLICED), 200 // len(SLICES_MILLI)) for milli in SLICES_MILLI),
    *(_usual((gpus, 1000, _WHOLE), weight) for gpus, weight in WHOLE_GPUS.items()),
)
"""The mix that policies go by which weigh what usual requests lose."""
