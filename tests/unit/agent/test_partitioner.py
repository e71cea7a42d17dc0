"""What a worker sees of the shares that it was given."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.mps import mps_folders
from agent.partitioner import Partitioner, gpus_to_cut
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
    "two shares of one slice": ([Share(A, Mode.MPS, 214, 1 << 30, "3g.40gb", 4)] * 2, ["MIG-4"]),
    "two turns in one slice": ([Share(A, Mode.TIMESLICE, 214, None, "3g.40gb", 4)] * 2, ["MIG-4"]),
}


@pytest.mark.parametrize(("shares", "visible"), VISIBLE.values(), ids=VISIBLE)
def test_each_device_is_visible_once(
    shares: list[Share], visible: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SimulatedDevices, "ensure_mig", lambda _self, _uuid, _name, start: f"MIG-{start}")
    devices = SimulatedDevices.named("2xA100-SXM4-80GB", "n", "none")
    prepared = Partitioner(devices, tmp_path).ensure(shares)
    assert (list(prepared.visible), list(prepared.shares)) == (visible, shares)


@pytest.mark.parametrize(
    ("slices", "other"), [(("3g.40gb", 0), ("3g.40gb", 4)), ((None, None), ("3g.40gb", 0))]
)
def test_each_slice_has_an_mps_daemon_of_its_own(
    slices: tuple[str | None, int | None], other: tuple[str | None, int | None], tmp_path: Path
) -> None:
    partitioner = Partitioner(SimulatedDevices.named("1xA100-SXM4-80GB", "n", "none"), tmp_path)
    one, two = (partitioner.ensure([Share(A, Mode.MPS, 200, None, *cut)] * 2) for cut in (slices, other))
    assert (
        one.mps == mps_folders(tmp_path, one.visible[0]) != two.mps == mps_folders(tmp_path, two.visible[0])
    )
    assert one.mps is not None
    assert one.mps.pipe.is_dir()


CUT = {
    "a whole GPU": (Share(A, Mode.EXCLUSIVE, 1000), False),
    "turns": (Share(A, Mode.TIMESLICE, 300), False),
    "an MPS daemon": (Share(A, Mode.MPS, 300), True),
    "a slice": (Share(A, Mode.MIG, 428, 1 << 30, "3g.40gb", 0), True),
    "turns in a slice": (Share(A, Mode.TIMESLICE, 214, None, "3g.40gb", 0), True),
}


@pytest.mark.parametrize(("share", "made"), CUT.values(), ids=CUT)
def test_what_has_to_be_made_takes_its_turn_on_the_gpu(share: Share, made: bool) -> None:
    assert gpus_to_cut([share]) == ((A,) if made else ())
