"""What users and plug-in writers import; everything else may change without notice.

Training code imports this package inside a job, often in an environment of its own: importing it alone
imports nothing beyond the standard library, and each name below imports what it needs when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cotenant.plugins import register_model as register_model
    from cotenant.plugins import register_policy as register_policy
    from cotenant.progress import report_progress as report_progress
    from cotenant.simulation import simulate as simulate
    from manager.wire.client import Client as Client
    from manager.wire.discovery import find_manager as find_manager
    from manager.wire.models import JobSpec as JobSpec
    from manager.wire.models import RequestSpec as RequestSpec
    from placement.interference import InterferenceModel as InterferenceModel
    from placement.interference import Prediction as Prediction
    from placement.interference import Resident as Resident
    from placement.model import Job as Job
    from placement.policies import Measure as Measure
    from placement.policies import Offer as Offer
    from placement.policies import OrderPolicy as OrderPolicy
    from placement.policies import Placement as Placement
    from placement.policies import Policy as Policy
    from placement.policies import larger as larger
    from placement.policies import level as level
    from placement.policies import smaller as smaller
    from placement.policies import where as where

    __version__: str

_HOMES = {
    "Client": "manager.wire.client",
    "InterferenceModel": "placement.interference",
    "Job": "placement.model",
    "JobSpec": "manager.wire.models",
    "Measure": "placement.policies",
    "Offer": "placement.policies",
    "OrderPolicy": "placement.policies",
    "Placement": "placement.policies",
    "Policy": "placement.policies",
    "Prediction": "placement.interference",
    "RequestSpec": "manager.wire.models",
    "Resident": "placement.interference",
    "find_manager": "manager.wire.discovery",
    "larger": "placement.policies",
    "level": "placement.policies",
    "register_model": "cotenant.plugins",
    "register_policy": "cotenant.plugins",
    "report_progress": "cotenant.progress",
    "simulate": "cotenant.simulation",
    "smaller": "placement.policies",
    "where": "placement.policies",
}
"""Each name and the module that defines it."""

__all__ = [
    "Client",
    "InterferenceModel",
    "Job",
    "JobSpec",
    "Measure",
    "Offer",
    "OrderPolicy",
    "Placement",
    "Policy",
    "Prediction",
    "RequestSpec",
    "Resident",
    "__version__",
    "find_manager",
    "larger",
    "level",
    "register_model",
    "register_policy",
    "report_progress",
    "simulate",
    "smaller",
    "where",
]


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
    return sorted({*globals(), *__all__})
