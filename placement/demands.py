"""Who asks for what: equal demands are one object, and requests are compiled once."""

from __future__ import annotations

from placement import columns as k
from placement.ask import Ask, Crowd, Demand, compile_ask
from placement.cluster import Cluster
from placement.interference import InterferenceModel
from placement.model import Isolation, Job, Profile, Request
from placement.policies import Placement

MAX_ASKS = 4096
"""Demands and compiled requests are dropped, oldest first, beyond this."""

MAX_CROWDS = 1 << 16
"""Requests that nobody alive makes are forgotten beyond about so many."""

_KEPT_BY_IDENTITY = 4096
_NOBODY = None, Request(gpus=0), 0, None

_Key = tuple[Request, str | None, int]
"""A request, the name of the profile that goes with it, and the lifetime of the job where that is weighed."""
_AskKey = tuple[Request, str | None, int, int | None]
"""The same, and the one rank that will do."""


class Demands:
    """The demands of a cluster's jobs and their compiled requests, for one policy."""

    def __init__(self, cluster: Cluster, placement: Placement, belief: InterferenceModel) -> None:
        self._cluster = cluster
        self._placement = placement
        self._belief = belief
        self._crowds: dict[_Key, Crowd] = {}
        self._most_crowds = MAX_CROWDS
        self.alive = 0
        """How many jobs are alive."""
        self._demands: dict[tuple[Crowd, str | None], Demand] = {}
        self._latest: tuple[Job | None, Request, int, Crowd | None] = _NOBODY
        self._recent: dict[tuple[int, str | None, str | None, int], Demand] = {}
        self._asks: dict[_AskKey, Ask] = {}

    def demand(self, job: Job, profile: Profile | None) -> Demand:
        """The demand of a job's worker; the tenant counts only where somebody isolates."""
        entered, request, lifetime, crowd = self._latest
        if job is not entered:
            request, lifetime, crowd = self._placement.asks(job), self._lifetime(job), None
        isolates = self._cluster.isolated_gpus or request.isolation is Isolation.TENANT
        asker = job.tenant if isolates else None
        # Hashing a request costs more than a look: the very same object is recognised by its identity.
        same = (id(request), job.profile, asker, lifetime)
        demand = self._recent.get(same)
        if demand is not None and demand.request is request and demand.profile is profile:
            return demand
        if crowd is None:
            crowd = self._crowd((request, job.profile, lifetime))
        key = crowd, asker
        demand = self._demands.get(key)
        if demand is None or demand.profile is not profile:
            while len(self._demands) >= MAX_ASKS:
                del self._demands[next(iter(self._demands))]
            number = k.STRANGER if asker is None else self._cluster.tenant_number(asker)
            demand = Demand(request, profile, asker, crowd, lifetime=lifetime, number=number)
            self._demands[key] = demand
        if demand.request is request:
            if len(self._recent) >= _KEPT_BY_IDENTITY:
                self._recent.clear()
            self._recent[same] = demand
        return demand

    def entered(self, job: Job) -> None:
        """A job is alive from now on: requests that several live jobs make are worth a row of scores."""
        request, lifetime = self._placement.asks(job), self._lifetime(job)
        crowd = self._crowd((request, job.profile, lifetime))
        crowd.size += 1
        self.alive += 1
        self._latest = job, request, lifetime, crowd

    def _lifetime(self, job: Job) -> int:
        return int(job.lifetime) if self._placement.weighs_lifetimes else 0

    def _crowd(self, key: _Key) -> Crowd:
        crowd = self._crowds.get(key)
        if crowd is None:
            if len(self._crowds) >= self._most_crowds:
                # Those that nobody asks for any more go, and with them all that may still refer to them.
                self._crowds = {each: crowd for each, crowd in self._crowds.items() if crowd.size}
                self._most_crowds = 2 * len(self._crowds) + MAX_CROWDS
                self.forget()
            crowd = self._crowds[key] = Crowd()
        return crowd

    def left(self, job: Job) -> None:
        """A job has ended."""
        crowd = self._crowds.get((self._placement.asks(job), job.profile, self._lifetime(job)))
        if crowd is not None:
            crowd.size -= 1
            self.alive -= 1

    def forget(self) -> None:
        """Drop everything that was compiled: a profile has changed its meaning."""
        self._demands.clear()
        self._recent.clear()
        self._asks.clear()
        self._latest = _NOBODY

    def compiled(self, demand: Demand) -> Ask:
        """The compiled request of a demand."""
        ask = demand.ask
        if ask is None or ask.generation != self._cluster.generation:
            ask = demand.ask = self._compiled_once(demand)
        if ask.sweeps != self._cluster.neighbourhoods.sweeps:
            ask.forget_company(self._cluster.neighbourhoods)
        return ask

    def _compiled_once(self, demand: Demand) -> Ask:
        name = None if demand.profile is None else demand.profile.name
        key = (demand.request, name, demand.lifetime, demand.only)
        ask = self._asks.get(key)
        if ask is None or ask.generation != self._cluster.generation:
            while len(self._asks) >= MAX_ASKS:
                del self._asks[next(iter(self._asks))]
            ask = compile_ask(demand.request, demand.profile, self._cluster, self._placement, self._belief)
            ask.sweeps = self._cluster.neighbourhoods.sweeps
            ask.entries[k.LIFETIME] = ask.plain[k.LIFETIME] = demand.lifetime
            if demand.only is not None:
                ask.plain[k.OFFERED] &= 1 << demand.only
                ask.entries[k.OFFERED] = ask.plain[k.OFFERED]
            self._asks[key] = ask
        return ask
