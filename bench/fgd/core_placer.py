"""The project's decision core as the one who decides in the experiment."""

from __future__ import annotations

from bench.fgd.arrivals import Trial
from bench.fgd.experiment import Placer


def core_placer(trial: Trial, policy: str) -> Placer:
    """The decision core under a placement policy, with the trial's nodes in the trial's order."""
    raise NotImplementedError(f"the core is not wired up for {policy} on {trial.workload} yet")
