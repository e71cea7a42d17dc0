"""Pack pairs on trial when nothing is free, and part those that do too little together."""

from __future__ import annotations

from placement.neighbourhood import Neighbour
from placement.policies.pairs import Pairs


class Gandiva(Pairs):
    """A free GPU; where there is none, beside any one job, on trial (Gandiva, OSDI'18, section 3.3).

    The newcomer goes back to the queue if the observed rates of the two add up to less than one job's alone;
    their profiles are then kept apart for good.  Only jobs whose profile is known are packed: without the
    rate alone nobody could tell how the trial went.  Pairs are tried blindly: jobs that do badly together
    have lost a trial period each time.
    """

    name = "gandiva"
    source = "Gandiva, OSDI'18, section 3.3"
    trials = True
    idles = "two profiles whose trial failed are not packed again, nor are jobs without a profile"
    forgets = "running trials begin anew and failed pairs are learned anew"

    def __init__(self) -> None:
        self._bad_pairs: frozenset[tuple[str, str]] = frozenset()

    def keep_apart(self, pairs: frozenset[tuple[str, str]]) -> None:
        """Remember who is not to meet again."""
        self._bad_pairs = pairs

    def may_pair(self, newcomer: Neighbour, host: Neighbour, gpu_model: str) -> bool:
        """Whether the two are worth a trial."""
        profiles = (newcomer.resident.profile, host.resident.profile)
        names = sorted(profile.name for profile in profiles if profile is not None)
        return len(names) == 2 and (names[0], names[1]) not in self._bad_pairs
