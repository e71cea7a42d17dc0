"""How a scheduler goes about its decisions, policy and belief aside."""

from __future__ import annotations

from dataclasses import dataclass

from placement.mix import Mix
from placement.model import InvalidSpec

SIGHT = 24
"""A window of a bounded look holds so many nodes that could hold the request."""

OWN_SIGHT = 8
"""So many nodes come beside them on which the asker may take what strangers may not."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the answers may depend on besides events and time.

    Attributes:
        seed: of all draws.
        compiled: use compiled kernels where they can be had; changes no answer.
        exact: look at every node for every request; if not, a request that hardly any live jobs make is
            answered by a bounded look, see :mod:`placement.sight`.
        sight, own_sight: how many nodes that look takes at once.
        mix: the requests that are usual here; policies that weigh what those lose go by it.  Empty: by
            :data:`placement.usual.USUAL`.

    Raises:
        InvalidSpec: a look would see nothing.
    """

    seed: int = 0
    compiled: bool = True
    exact: bool = False
    sight: int = SIGHT
    own_sight: int = OWN_SIGHT
    mix: Mix = ()

    def __post_init__(self) -> None:
        if self.sight < 1 or self.own_sight < 0:
            raise InvalidSpec(
                f"options: a look at {self.sight} nodes and {self.own_sight} own ones; write at least 1 and 0"
            )


PLAIN = Options()
"""Nothing out of the ordinary."""
