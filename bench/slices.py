"""The MIG slices of the GPUs of the benchmark: from NVIDIA's user guide, not from the core's table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Slice:
    """A MIG profile: compute slices of 7, memory slices of 8, memory slices at which it may begin."""

    compute: int
    memory: int
    starts: tuple[int, ...]
    media: bool = False


SLICES_80GB = {
    "1g.10gb": Slice(1, 1, (0, 1, 2, 3, 4, 5, 6)),
    "1g.10gb+me": Slice(1, 1, (0, 1, 2, 3, 4, 5, 6), media=True),
    "1g.20gb": Slice(1, 2, (0, 2, 4, 6)),
    "2g.20gb": Slice(2, 2, (0, 2, 4)),
    "3g.40gb": Slice(3, 4, (0, 4)),
    "4g.40gb": Slice(4, 4, (0,)),
    "7g.80gb": Slice(7, 8, (0,)),
}
"""NVIDIA's MIG user guide, supported profiles: A100-SXM4-80GB and H100-SXM5-80GB have the same."""

SLICES = {"A100-SXM4-80GB": SLICES_80GB, "H100-SXM5-80GB": SLICES_80GB}
COMPUTE_SLICES, MEMORY_SLICES = 7, 8
