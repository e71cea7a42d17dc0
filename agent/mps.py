"""The MPS control daemon of a GPU or MIG slice: where its pipes lie, and that it runs."""

from __future__ import annotations

import hashlib
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from placement.model import OperationFailed

CONTROL = "nvidia-cuda-mps-control"
TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class MpsFolders:
    """Where one daemon listens and logs."""

    pipe: Path
    log: Path


def mps_folders(data_dir: Path, device: str) -> MpsFolders:
    """The folders of a GPU or slice; short, for the daemon makes sockets there, whose names have a limit."""
    home = data_dir / "mps" / hashlib.sha256(device.encode()).hexdigest()[:8]
    return MpsFolders(home / "pipe", home / "log")


def make_folders(folders: MpsFolders) -> None:
    """Make the folders.

    Raises:
        OperationFailed: the disk refuses.
    """
    try:
        for folder in (folders.pipe, folders.log):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise OperationFailed(f"MPS: {folders.pipe}: {error.strerror}") from error


def ensure_daemon(folders: MpsFolders, device: str) -> None:
    """Make sure that the daemon of a GPU or slice answers; one that runs is left alone.

    Raises:
        OperationFailed: it cannot be started.
    """
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "CUDA_VISIBLE_DEVICES": device,
        "CUDA_MPS_PIPE_DIRECTORY": str(folders.pipe),
        "CUDA_MPS_LOG_DIRECTORY": str(folders.log),
    }
    if _control([CONTROL], environment, "get_default_active_thread_percentage\n") is None:
        return
    problem = _control([CONTROL, "-d"], environment, "")
    if problem is not None:
        raise OperationFailed(f"MPS: the control daemon of {device} does not start: {problem}")


def _control(command: list[str], environment: dict[str, str], text: str) -> str | None:
    """Run the control program; why it failed, None if it did not."""
    try:
        done = subprocess.run(
            command,
            env=environment,
            input=text,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError:
        return f"{command[0]} is not installed"
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return None
    return (done.stderr.strip() or done.stdout.strip() or f"exit status {done.returncode}").splitlines()[0]
