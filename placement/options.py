"""How a scheduler goes about its decisions, policy and belief aside."""

from __future__ import annotations

from dataclasses import dataclass

from placement.mix import Mix


@dataclass(frozen=True, slots=True)
class Options:
    """What the answers may depend on besides events and time.

    Attributes:
        seed: of all draws.
        compiled: use compiled kernels where they can be had; changes no answer.
        exact: look at every node for every request; if not, a request that only one live job makes is
            answered by a bounded look.
        mix: the requests that are usual here; policies that weigh what those lose go by it.  Empty: by
            :data:`placement.usual.USUAL`.
    """

    seed: int = 0
    compiled: bool = True
    exact: bool = False
    mix: Mix = ()


PLAIN = Options()
"""Nothing out of the ordinary."""
