"""The MPS control daemon, played by a small script."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.devices import Telemetry, Tenant, WorkerKey
from agent.mps import CONTROL, ensure_daemon, make_folders, mps_folders
from agent.partitioner import Partitioner
from placement.model import Mode, Node, OperationFailed, Share

DAEMON = """#!/bin/sh
if [ "$1" = -d ]; then
    echo "$CUDA_VISIBLE_DEVICES $CUDA_MPS_LOG_DIRECTORY" >> "$CUDA_MPS_PIPE_DIRECTORY/starts"
    touch "$CUDA_MPS_PIPE_DIRECTORY/running"
else
    test -e "$CUDA_MPS_PIPE_DIRECTORY/running" && echo 100.0
fi
"""
REFUSING = "#!/bin/sh\necho 'an instance of this daemon is already running' >&2\nexit 1\n"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def install(programs: Path, script: str) -> None:
    (programs / CONTROL).write_text(script)
    (programs / CONTROL).chmod(0o700)


class RealDevices:
    """Real as far as the partitioner can tell."""

    simulated = False

    def node(self, node_id: str) -> Node:
        return Node(node_id)

    def telemetry(self, tenants: object) -> tuple[Telemetry, ...]:
        return ()

    def speeds(self, tenants: list[Tenant] | object) -> dict[WorkerKey, float]:
        return {}

    def ensure_mig(self, gpu_uuid: str, profile: str, start: int) -> str:
        return "MIG-1"


def share(uuid: str) -> Share:
    return Share(uuid, Mode.MPS, 300, 1 << 30)


def test_the_daemon_of_a_gpu_is_started_once(programs: Path, tmp_path: Path) -> None:
    install(programs, DAEMON)
    partitioner = Partitioner(RealDevices(), tmp_path)
    for _ in range(3):
        partitioner.ensure([share("GPU-1")])
    folders = mps_folders(tmp_path, "GPU-1")
    assert (folders.pipe / "starts").read_text() == f"GPU-1 {folders.log}\n"


def test_each_gpu_has_its_own_daemon(tmp_path: Path) -> None:
    assert mps_folders(tmp_path, "GPU-1") != mps_folders(tmp_path, "GPU-2")


def test_a_worker_cannot_use_two_daemons(programs: Path, tmp_path: Path) -> None:
    install(programs, DAEMON)
    with pytest.raises(OperationFailed, match="one GPU"):
        Partitioner(RealDevices(), tmp_path).ensure([share("GPU-1"), share("GPU-2")])


def test_a_daemon_that_does_not_start_says_why(programs: Path, tmp_path: Path) -> None:
    install(programs, REFUSING)
    folders = mps_folders(tmp_path, "GPU-1")
    make_folders(folders)
    with pytest.raises(OperationFailed, match="GPU-1 does not start: an instance of this daemon"):
        ensure_daemon(folders, "GPU-1")


def test_without_mps_the_reason_is_that(programs: Path, tmp_path: Path) -> None:
    folders = mps_folders(tmp_path, "GPU-1")
    make_folders(folders)
    with pytest.raises(OperationFailed, match="nvidia-cuda-mps-control is not installed"):
        ensure_daemon(folders, "GPU-1")


def test_folders_that_cannot_be_made_are_a_failed_operation() -> None:
    with pytest.raises(OperationFailed, match="MPS: /dev/null/mps"):
        make_folders(mps_folders(Path("/dev/null"), "GPU-1"))
