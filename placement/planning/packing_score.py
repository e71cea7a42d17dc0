"""Which jobs share a GPU without hurting each other, by a score that anyone can work out by hand."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from placement.model import Profile


@dataclass(frozen=True, slots=True)
class Counters:
    """What a job uses alone on a GPU, in thousandths of what the GPU offers; None is unknown.

    ``mixed_precision``: the job computes in half precision where it can (AMP).
    """

    sm_milli: int | None
    dram_milli: int | None
    memory_milli: int | None = None
    mixed_precision: bool = False


@dataclass(frozen=True, slots=True)
class ScoreLimits:
    """The most that a job of some score uses of each; it has the first score of which it passes no limit."""

    sm_milli: int
    dram_milli: int
    memory_milli: int


SPEED_BANDS = (0.95, 0.85)
"""Lucid (ASPLOS'23): a job scores 0 if the mean speed in company is at least the first, 1 if the second."""

SCORE_LIMITS: tuple[ScoreLimits, ...] = (ScoreLimits(150, 150, 500), ScoreLimits(600, 350, 1000))
"""Limits of the scores 0 and 1 where no speed in company was measured; all else scores 2.

Lucid learns a tree from measured pairs.  These limits are our own: with them the additive interference model
under MPS predicts a speed in the band beside a partner that uses half of the SMs and 0.3 of the bandwidth.
"""

MIXED_PRECISION_RELIEF_MILLI = 250
"""Tensor cores keep an SM busy, but little of it: limits on SM use are a quarter higher for such jobs."""


class PairRefusal(enum.Enum):
    """Why two jobs do not share GPUs; where several hold, the first is told."""

    PACKING_OFF = "the cluster has room enough for everyone alone"
    NOT_ALONE = "the running job has a partner already"
    UNKNOWN = "too little is known of one of the two jobs"
    UNLIKE_GPUS = "the jobs do not use the same number of GPUs"
    TOO_MANY_GPUS = "jobs on so many GPUs do not share"
    SCORES = "the two jobs together would press too hard on a GPU"
    MEMORY = "the memory of the two jobs together is too large"
    PRIORITY = "the newcomer is too large for the running job to wait for"


@dataclass(frozen=True, slots=True)
class PackingJob:
    """What the rules look at: ``score`` and ``memory_bytes`` (of one GPU) None are unknown.

    ``rank`` is the estimated duration times GPUs, None if nobody estimates it.
    """

    gpus: int
    score: int | None
    memory_bytes: int | None
    rank: float | None = None


@dataclass(frozen=True, slots=True)
class PackingRules:
    """Limits of indolent packing (Lucid, ASPLOS'23)."""

    on: bool = True
    score_sum: int = 2
    most_gpus: int = 8
    rank_ratio: float = 2.0


def counters_of(profile: Profile, gpu_memory_bytes: int | None, *, mixed_precision: bool = False) -> Counters:
    """What a profile says of a job on a GPU of this memory; the memory's share is rounded up."""
    share = None
    if profile.memory_bytes is not None and gpu_memory_bytes is not None:
        share = -(-1000 * profile.memory_bytes // gpu_memory_bytes)
    return Counters(profile.sm_milli, profile.dram_milli, share, mixed_precision)


def packing_score(counters: Counters, limits: Sequence[ScoreLimits] = SCORE_LIMITS) -> int | None:
    """0: a friendly neighbour, 1: bearable, 2: only beside a friendly one; None if SM or DRAM use is unknown.

    Unknown memory does not count: whether it fits is another question.
    """
    if counters.sm_milli is None or counters.dram_milli is None:
        return None
    sm = counters.sm_milli * 1000
    if counters.mixed_precision:
        sm = sm * 1000 // (1000 + MIXED_PRECISION_RELIEF_MILLI)
    for score, limit in enumerate(limits):
        within = sm <= limit.sm_milli * 1000 and counters.dram_milli <= limit.dram_milli
        if within and (counters.memory_milli is None or counters.memory_milli <= limit.memory_milli):
            return score
    return len(limits)


def why_not_pair(
    newcomer: PackingJob,
    running: Sequence[PackingJob],
    gpu_memory_bytes: int | None,
    rules: PackingRules | None = None,
) -> PairRefusal | None:
    """Why a job may not join those that run on a GPU, None if it may; the first reason in their order.

    An idle GPU is open to all.  Ranks matter only where both are known, memory only where the GPU's is known.
    """
    rules = rules or PackingRules()
    if not running:
        return None
    if not rules.on:
        return PairRefusal.PACKING_OFF
    if len(running) > 1:
        return PairRefusal.NOT_ALONE
    broken = (*_unlike(newcomer, running[0], rules), *_overfull(newcomer, running[0], gpu_memory_bytes))
    return min(broken, key=list(PairRefusal).index, default=None)


def _unlike(newcomer: PackingJob, other: PackingJob, rules: PackingRules) -> Iterator[PairRefusal]:
    if newcomer.score is None or other.score is None:
        yield PairRefusal.UNKNOWN
    elif newcomer.score + other.score > rules.score_sum:
        yield PairRefusal.SCORES
    if newcomer.gpus != other.gpus:
        yield PairRefusal.UNLIKE_GPUS
    if newcomer.gpus > rules.most_gpus:
        yield PairRefusal.TOO_MANY_GPUS
    if newcomer.rank is not None and other.rank is not None and newcomer.rank > rules.rank_ratio * other.rank:
        yield PairRefusal.PRIORITY


def _overfull(newcomer: PackingJob, other: PackingJob, gpu_memory_bytes: int | None) -> Iterator[PairRefusal]:
    if gpu_memory_bytes is None:
        return
    if newcomer.memory_bytes is None or other.memory_bytes is None:
        yield PairRefusal.UNKNOWN
    elif newcomer.memory_bytes + other.memory_bytes > gpu_memory_bytes:
        yield PairRefusal.MEMORY
