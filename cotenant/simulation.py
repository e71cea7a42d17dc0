"""A simulation in one call."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TypedDict, Unpack

from cotenant.plugins import load_plugins
from placement.policies import DEFAULT_POLICY
from simulator.engine import SimulationResult
from simulator.study import StudySpec, run_study


class SimulateOptions(TypedDict, total=False):
    """What may be said besides; the defaults are those of `cotenant simulate`."""

    trace_format: str
    truth: str
    belief: str
    seed: int
    limit: int
    skip_bad_lines: bool
    options: Mapping[str, str]
    data_folder: Path | None


def simulate(
    trace: str | Path | None = None,
    cluster: str | None = None,
    policy: str = DEFAULT_POLICY,
    **more: Unpack[SimulateOptions],
) -> SimulationResult:
    """Replay a trace on a cluster under one policy; without a trace, the one that ships.

    ``cluster`` is a short form such as ``64x8xV100-SXM2-32GB`` or a node list file, needed with a trace of
    one's own.  The first run of a placement on a machine compiles for up to half a minute; stderr says so.

    Raises:
        InvalidInput: the trace, the cluster, a name or an option cannot be right.
    """
    load_plugins()
    spec = StudySpec(
        policies=(policy,), trace=None if trace is None else Path(trace), cluster=cluster, **more
    )
    ((_, result),) = run_study(spec, tell=partial(print, file=sys.stderr)).runs
    return result
