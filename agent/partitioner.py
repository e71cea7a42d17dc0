"""Makes the shares that a worker was given exist on its GPUs; doing it twice is the same as once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.devices import Devices
from agent.mps import MpsFolders, ensure_daemon, make_folders, mps_folders
from placement.model import Mode, OperationFailed, Share


@dataclass(frozen=True, slots=True)
class Prepared:
    """Shares that exist: the UUIDs to be visible, in order, and the MPS daemon to use if any."""

    shares: tuple[Share, ...]
    visible: tuple[str, ...]
    mps: MpsFolders | None = None


class Partitioner:
    """Cuts GPUs through the devices."""

    def __init__(self, devices: Devices, data_dir: Path) -> None:
        self._devices = devices
        self._data_dir = data_dir

    def ensure(self, shares: Sequence[Share]) -> Prepared:
        """Prepare all shares of one worker.

        Raises:
            OperationFailed: a device refuses; the message says which.
        """
        visible = tuple(self._visible(share) for share in shares)
        gpus = sorted({share.gpu_uuid for share in shares if share.mode is Mode.MPS})
        if not gpus:
            return Prepared(tuple(shares), visible)
        folders = mps_folders(self._data_dir, gpus[0])
        make_folders(folders)
        if not self._devices.simulated:
            if len(gpus) > 1:
                raise OperationFailed("MPS: each GPU has a daemon of its own: a worker can use one GPU so")
            ensure_daemon(folders, gpus[0])
        return Prepared(tuple(shares), visible, folders)

    def _visible(self, share: Share) -> str:
        if share.mode is not Mode.MIG:
            return share.gpu_uuid
        if share.mig_profile is None or share.mig_start is None:
            raise OperationFailed(f"cannot partition: {share.gpu_uuid}: MIG without profile and start")
        return self._devices.ensure_mig(share.gpu_uuid, share.mig_profile, share.mig_start)
