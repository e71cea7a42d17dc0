"""What users and plug-in writers import; everything else may change without notice.

Training code imports this package inside a job, often in an environment of its own: importing it alone
imports nothing beyond the standard library, and each name below imports what it needs when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cotenant.progress import report_progress as report_progress
    from manager.wire.client import Client as Client
    from placement.interference import InterferenceModel as InterferenceModel
    from placement.policies import Policy as Policy
    from simulator.engine import simulate as simulate

    __version__: str

_HOMES = {
    "Client": "manager.wire.client",
    "InterferenceModel": "placement.interference",
    "Policy": "placement.policies",
    "report_progress": "cotenant.progress",
    "simulate": "simulator.engine",
}
"""Each name and the module that defines it."""

__all__ = ["Client", "InterferenceModel", "Policy", "__version__", "report_progress", "simulate"]


def __getattr__(name: str) -> Any:
    """Import a name on its first use and keep it."""
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("cotenant")
    elif name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module 'cotenant' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
