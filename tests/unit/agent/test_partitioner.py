"""What a worker sees of the shares that it was given."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.partitioner import Partitioner
from agent.simulated import SimulatedDevices
from placement.model import Mode, Share

A, B = "GPU-n-0", "GPU-n-1"

VISIBLE = {
    "two whole GPUs": ([Share(B, Mode.EXCLUSIVE, 1000), Share(A, Mode.EXCLUSIVE, 1000)], [B, A]),
    "two shares of one GPU": ([Share(A, Mode.MPS, 300)] * 2, [A]),
    "two turns on one GPU": ([Share(A, Mode.TIMESLICE, 300)] * 2, [A]),
    "two slices of one GPU": (
        [Share(A, Mode.MIG, 428, 1 << 30, "3g.40gb", start) for start in (0, 4)],
        ["MIG-0", "MIG-4"],
    ),
}


@pytest.mark.parametrize(("shares", "visible"), VISIBLE.values(), ids=VISIBLE)
def test_each_device_is_visible_once(
    shares: list[Share], visible: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SimulatedDevices, "ensure_mig", lambda _self, _uuid, _name, start: f"MIG-{start}")
    devices = SimulatedDevices.named("2xA100-SXM4-80GB", "n", "none")
    prepared = Partitioner(devices, tmp_path).ensure(shares)
    assert (list(prepared.visible), list(prepared.shares)) == (visible, shares)
