"""Pack only when nothing is free, and only gentle pairs."""

from __future__ import annotations

from placement.model import KNOWN_GPU_MEMORY_BYTES
from placement.neighbourhood import Neighbour
from placement.planning.packing_score import PackingJob, counters_of, packing_score, why_not_pair
from placement.policies.pairs import Pairs


class Lucid(Pairs):
    """A free GPU; where there is none, beside one job if the packing scores allow (Lucid, ASPLOS'23).

    Each job scores 0, 1 or 2 by its profile, and two may share whose scores add up to at most 2.  A job
    without a profile runs alone: who sends no profiles gains nothing by this policy.
    """

    name = "lucid"
    source = "Lucid, ASPLOS'23"
    idles = "a pair is not packed whose scores add up to more than 2, or of which too little is known"

    def may_pair(self, newcomer: Neighbour, host: Neighbour, gpu_model: str) -> bool:
        """Whether the scores allow it; whether the memory suffices is the search's question."""
        memory_bytes = KNOWN_GPU_MEMORY_BYTES.get(gpu_model)
        one, other = _packing_job(newcomer, memory_bytes), _packing_job(host, memory_bytes)
        return why_not_pair(one, [other], None) is None


def _packing_job(neighbour: Neighbour, gpu_memory_bytes: int | None) -> PackingJob:
    profile = neighbour.resident.profile
    score = None if profile is None else packing_score(counters_of(profile, gpu_memory_bytes))
    return PackingJob(1, score, None)
