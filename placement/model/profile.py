"""What is known of a job's behaviour on a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from placement.model.amounts import MAX_BYTES, is_finite
from placement.model.errors import InvalidSpec


@dataclass(frozen=True, slots=True)
class Profile:
    """Solo step rate and pressure on each channel, in thousandths of what the GPU offers; None is unknown.

    ``steps_per_s`` maps a GPU model (or ``*`` for any), or ``MODEL/SLICE`` for a MIG slice such as
    ``A100-SXM4-80GB/3g.40gb``, to the solo step rate there.
    """

    name: str
    steps_per_s: Mapping[str, float] = field(default_factory=dict)
    sm_milli: int | None = None
    dram_milli: int | None = None
    l2_milli: int | None = None
    pcie_milli: int | None = None
    memory_bytes: int | None = None

    def __post_init__(self) -> None:
        for channel in ("sm_milli", "dram_milli", "l2_milli", "pcie_milli"):
            value = getattr(self, channel)
            if value is not None and (type(value) is not int or not 0 <= value <= 1000):
                raise InvalidSpec(
                    f"profile {self.name!r}: {channel}: {value} must be a whole number from 0 to 1000"
                )
        memory = self.memory_bytes
        if memory is not None and (type(memory) is not int or not 0 < memory <= MAX_BYTES):
            raise InvalidSpec(f"profile {self.name!r}: memory_bytes: {memory} must be from 1 to {MAX_BYTES}")
        for model, rate in self.steps_per_s.items():
            if not (is_finite(rate) and rate > 0):
                raise InvalidSpec(f"profile {self.name!r}: steps_per_s: {model}: {rate} must be above 0")

    def solo_rate(self, gpu_model: str) -> float | None:
        """Steps per second alone on this GPU model, None if unknown."""
        rate = self.steps_per_s.get(gpu_model)
        return self.steps_per_s.get("*") if rate is None else rate

    def slice_speed(self, gpu_model: str, mig_profile: str) -> float | None:
        """Speed in a MIG slice relative to the whole GPU, None unless the rates of both are known."""
        whole, part = self.solo_rate(gpu_model), self.steps_per_s.get(f"{gpu_model}/{mig_profile}")
        return None if whole is None or part is None else part / whole

    def slice_slowdown(self, gpu_model: str, mig_profile: str | None) -> float | None:
        """Slowdown in a MIG slice against the whole GPU, 1.0 at least; None if unknown, or it is no slice."""
        speed = None if mig_profile is None else self.slice_speed(gpu_model, mig_profile)
        return None if speed is None else max(1 / speed, 1.0)
