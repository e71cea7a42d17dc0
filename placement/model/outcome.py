"""Answers of a search, from worst to best, and why a place was ruled out."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field


class Outcome(enum.IntEnum):
    """How well a job fits now; a gang's outcome is the worst of its workers'."""

    NO_FIT = 0
    PREEMPT = 1
    REPARTITION = 2
    FIT = 3


class Reason(enum.Enum):
    """Why a GPU, a node or the whole cluster was ruled out; the value is what users read."""

    NODE_UNAVAILABLE = "node unavailable"
    NODE_CPU = "not enough CPU on the node"
    NODE_RAM = "not enough RAM on the node"
    NODE_GPUS = "not enough suitable GPUs on the node"
    GPU_MODEL = "other GPU model"
    GPU_MEMORY = "not enough GPU memory"
    GPU_COMPUTE = "not enough GPU compute"
    GPU_BUSY = "GPU already in use"
    GPU_MODE = "GPU shared in another mode"
    MIG_GEOMETRY = "no free MIG slice of that profile"
    MPS_CLIENTS = "MPS client limit reached"
    ISOLATION = "neighbour of another tenant"
    OWN_PROMISE = "own slowdown promise would break"
    NEIGHBOUR_PROMISE = "a neighbour's slowdown promise would break"
    COMPANY = "the policy keeps them apart"
    GANG = "not enough room for all workers at once"
    TOGETHER = "not enough room for all workers together"
    PRICE = "moving others costs more than it gains"
    ORDER = "an earlier job waits for its turn"
    NO_NODES = "no node has joined yet"
    TOO_LARGE = "larger than the cluster could ever hold"


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a job waits, or why it was placed where it is.

    ``reasons`` counts GPUs (or nodes, or 1 for the cluster) by why they were ruled out; ``candidates`` is how
    many GPUs could hold the first worker, for a placed job how many nodes could have when it was placed, None
    if not all were looked at.  Slowdowns are None when unknown.
    """

    job_id: str
    outcome: Outcome
    reasons: Mapping[Reason, int] = field(default_factory=dict)
    candidates: int | None = None
    predicted_slowdown: float | None = None
    predicted_upper: float | None = None
    note: str = ""
