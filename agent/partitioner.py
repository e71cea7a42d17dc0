"""Makes the shares that a worker was given exist on its GPUs; doing it twice is the same as once."""

from __future__ import annotations

import threading
from collections import defaultdict
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


_MADE = frozenset({Mode.MIG, Mode.MPS})


def gpus_to_cut(shares: Sequence[Share]) -> tuple[str, ...]:
    """UUIDs of the GPUs on which something has to be made for these shares; it may take long."""
    return tuple(sorted({share.gpu_uuid for share in shares if {share.mode, share.gpu_mode} & _MADE}))


class Partitioner:
    """Cuts GPUs through the devices; may be used by several threads, of which one at a time has a GPU.

    MIG instances that nobody uses any more are not destroyed yet: where one is in the way of another profile,
    the worker fails to start and says so.
    """

    def __init__(self, devices: Devices, data_dir: Path) -> None:
        self._devices = devices
        self._data_dir = data_dir
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._locks_lock = threading.Lock()

    def ensure(self, shares: Sequence[Share]) -> Prepared:
        """Prepare all shares of one worker.

        Raises:
            OperationFailed: a device refuses; the message says which.
        """
        # Several shares of one GPU or slice are one device to the worker; slices are devices of their own.
        devices = [self._device(share) for share in shares]
        visible = tuple(dict.fromkeys(devices))
        by_mps = {
            device: share.gpu_uuid
            for device, share in zip(devices, shares, strict=True)
            if share.mode is Mode.MPS
        }
        if not by_mps:
            return Prepared(tuple(shares), visible)
        device, gpu_uuid = min(by_mps.items())
        folders = mps_folders(self._data_dir, device)
        make_folders(folders)
        if not self._devices.simulated:
            if len(by_mps) > 1:
                raise OperationFailed("MPS: each GPU has a daemon of its own: a worker can use one GPU so")
            with self._held(gpu_uuid):
                ensure_daemon(folders, device)
        return Prepared(tuple(shares), visible, folders)

    def _device(self, share: Share) -> str:
        if share.gpu_mode is not Mode.MIG:
            return share.gpu_uuid
        if share.mig_profile is None or share.mig_start is None:
            raise OperationFailed(f"cannot partition: {share.gpu_uuid}: MIG without profile and start")
        with self._held(share.gpu_uuid):
            return self._devices.ensure_mig(share.gpu_uuid, share.mig_profile, share.mig_start)

    def _held(self, gpu_uuid: str) -> threading.Lock:
        with self._locks_lock:
            return self._locks[gpu_uuid]
