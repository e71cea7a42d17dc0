"""Who holds shares of GPUs, and what of it matters to the neighbours."""

from __future__ import annotations

from dataclasses import dataclass

from placement.interference import Coupling, lies_in_slice
from placement.model import Profile, Share
from placement.model.frozen import made_often
from placement.neighbourhood import Known, Token, token_of

_APART = 0, 0, 0, 0


@dataclass(frozen=True, slots=True)
class Tenancy:
    """One worker's share of a GPU."""

    job_id: str
    worker: int
    share: Share


@made_often
@dataclass(frozen=True, slots=True)
class Holder:
    """What the cluster must know of a job that holds shares."""

    job_id: str
    tenant: str
    profile: Profile | None = None
    max_slowdown: float | None = None
    isolating: bool = False
    cpu_milli: int = 0
    ram_bytes: int = 0
    lifetime: int = 0
    """Its class, see :class:`placement.model.Lifetime`; 0 if unknown."""


class Lodging:
    """A tenancy with its holder, and what the figures of the GPU are summed up from.

    ``amounts``: compute in thousandths, bytes as far as they are stated, and the two channels each of its
    pressure on neighbours and of its sensitivity to them.
    """

    __slots__ = ("amounts", "holder", "key", "known", "share", "tenant", "token")

    def __init__(
        self, key: tuple[str, int], holder: Holder, share: Share, tenant: int, coupling: Coupling | None
    ) -> None:
        self.key = key
        self.holder = holder
        self.share = share
        self.tenant = tenant
        pull = _APART if coupling is None else (*coupling.pressure, *coupling.sensitivity)
        self.amounts = share.compute_milli, share.memory_bytes or 0, *pull
        # What was promised in a slice that a worker shares with itself does not depend on its neighbours.
        promise = None if lies_in_slice(share) else holder.max_slowdown
        self.known: Known = (holder.profile, share.gpu_mode, share.compute_milli, promise)
        self.token: Token | None = None
        if holder.profile is not None or promise is not None:
            self.token = token_of(self.known)
