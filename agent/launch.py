"""Starts the shim of an attempt, apart from the agent: its own session, without the agent's environment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from placement.model import OperationFailed

LAUNCH_TIMEOUT_S = 30.0
_ROOT = str(Path(__file__).resolve().parent.parent)
_BOOT = f"import sys; sys.path.append({_ROOT!r}); from agent.shim import main; sys.exit(main(sys.argv[1:]))"


def launch(folder: Path) -> None:
    """Make sure that a shim looks after the folder; calling it twice is the same as once.

    Raises:
        OperationFailed: the shim cannot begin; the message says why.
    """
    # Neither site packages (it starts faster) nor the agent's environment (which may hold a token).
    argv = [sys.executable, "-I", "-S", "-c", _BOOT, str(folder)]
    try:
        done = subprocess.run(
            argv,
            env={"LC_ALL": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LAUNCH_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise OperationFailed(f"cannot start: the runner: {error}") from error
    if done.returncode != 0:
        reason = (done.stdout.strip() or done.stderr.strip() or "the runner failed").splitlines()[-1]
        raise OperationFailed(reason)
