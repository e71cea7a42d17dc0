"""Policies by name: one visible list each for orders and placements, freely combined with ``+``.

Third parties add theirs by the entry-point groups ``cotenant.orders`` and ``cotenant.placements``; the front
door loads those and calls :func:`register`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from numbers import Integral, Real
from typing import TypeVar

from placement.model import CotenantError, InvalidSpec, Job, Request, UnknownName
from placement.policies.backfill import Backfill
from placement.policies.base import Measure, OrderPolicy, Placement, Policy, aging_of
from placement.policies.best_fit import BestFit
from placement.policies.clustering import Clustering
from placement.policies.cotenant import Cotenant
from placement.policies.dot_product import DotProduct
from placement.policies.fgd import Fgd
from placement.policies.fifo import Fifo
from placement.policies.gandiva import Gandiva
from placement.policies.hived import Hived
from placement.policies.lucid import Lucid
from placement.policies.miso import Miso
from placement.policies.offer import Offer, larger, level, smaller, where
from placement.policies.packing import Packing
from placement.policies.parvagpu import ParvaGpu
from placement.policies.planner import PlannedPart, PlannedPlace, Planner
from placement.policies.random import Random
from placement.policies.spread import Spread
from placement.policies.srtf import Srtf
from placement.policies.worst_fit import WorstFit

T = TypeVar("T")

ORDERS: dict[str, Callable[[], OrderPolicy]] = {"fifo": Fifo, "backfill": Backfill, "srtf": Srtf}
PLACEMENTS: dict[str, Callable[[], Placement]] = {
    "cotenant": Cotenant,
    "best-fit": BestFit,
    "worst-fit": WorstFit,
    "spread": Spread,
    "random": Random,
    "dot-product": DotProduct,
    "clustering": Clustering,
    "packing": Packing,
    "fgd": Fgd,
    "gandiva": Gandiva,
    "lucid": Lucid,
    "hived": Hived,
    "parvagpu": ParvaGpu,
    "miso": Miso,
}

DEFAULT_POLICY = "cotenant"
"""Where a user names none.  An order that stands alone still places by best fit: see :func:`policy_named`."""


def policy_names() -> tuple[str, ...]:
    """Every name that may stand alone or in a combination."""
    return (*ORDERS, *PLACEMENTS)


def register(name: str, *, order: Callable[[], OrderPolicy] | None = None,
             placement: Callable[[], Placement] | None = None) -> None:  # fmt: skip
    """Add a policy of one's own under a new name.

    Raises:
        InvalidSpec: the name is taken or holds a ``+``, or there is nothing to add.
    """
    if order is None and placement is None:
        raise InvalidSpec(f"policy {name!r}: give an order, a placement, or both")
    if {*"+:,"} & {*name} or not name or name != name.strip():
        raise InvalidSpec(f"policy name {name!r}: must not be empty or contain '+', ':', ',' or outer blanks")
    if name in ORDERS or name in PLACEMENTS:
        raise InvalidSpec(f"policy name {name!r} is taken; give yours another name")
    if order is not None:
        ORDERS[name] = order
    if placement is not None:
        PLACEMENTS[name] = placement


def policy_named(spec: str) -> Policy:
    """The policy ``ORDER``, ``PLACEMENT`` or ``ORDER+PLACEMENT``; a placement may be ``PLACEMENT:OPTIONS``.

    An order alone places by best fit, so that published orders are compared with the placement that disturbs
    least; a placement alone orders by skip-ahead FIFO.

    Raises:
        UnknownName: nobody registered one of the names.
        InvalidSpec: two orders, two placements or more than two names, options that the policy does not
            take, or two that make no sense together.
    """
    parts = [part.strip() for part in spec.split("+")]
    options = dict(part.split(":", 1) for part in parts if ":" in part)
    names = [part.partition(":")[0] for part in parts]
    for name in names:
        _check_known(spec, name)
    orders = [name for name in names if name in ORDERS]
    placements = [name for name in names if name in PLACEMENTS]
    for kind, found in (("order", orders), ("placement", placements)):
        if len(found) > 1:
            many = "two" if len(found) == 2 else len(found)
            raise InvalidSpec(
                f"policy {spec!r}: has {many} {kind}s, {' and '.join(found)}; "
                f"write at most one order ({', '.join(ORDERS)}) and one placement ({', '.join(PLACEMENTS)})"
            )
    order = order_named(orders[0]) if orders else Backfill()
    placement = placement_named(placements[0]) if placements else BestFit()
    for name, text in options.items():
        if name not in PLACEMENTS:
            raise InvalidSpec(f"policy {spec!r}: order {name!r} takes no options")
        placement = placement.with_options(text)
    if misfit := placement.misfit(order):
        raise InvalidSpec(f"policy {spec!r}: {order.name} and {placement.name} do not go together: {misfit}")
    return Policy("+".join(parts), order, placement)


def order_named(name: str) -> OrderPolicy:
    """A new order of that name, which is registered; its rank is tried on a job.

    Raises:
        CotenantError: it cannot be made, lacks something of an order, or its rank fails or is no number.
    """
    order = _made(name, ORDERS[name])
    for fact, kind in _OF_ORDERS.items():
        if not isinstance(getattr(order, fact, None), kind):
            raise InvalidSpec(
                f"policy {name!r}: {type(order).__name__} has no {fact!r} that is a {kind.__name__}"
            )
    try:
        rank = order.rank(Job("job", Request(), 0.0, 0), None)
    except Exception as problem:
        raise InvalidSpec(
            f"policy {name!r}: its rank fails on a job: {type(problem).__name__}: {problem}"
        ) from problem
    if not isinstance(rank, Real):
        raise InvalidSpec(f"policy {name!r}: its rank gives {rank!r}, but must give a number")
    return order


_OF_ORDERS = {"name": str, "strict": bool, "preemptive": bool, "knows_durations": bool}
"""What an order must have besides its rank; the scheduler asks for it long after the order was made."""


def placement_named(name: str) -> Placement:
    """A new placement of that name, which is registered; its scores are tried before they are compiled.

    Raises:
        CotenantError: it cannot be made, is no placement, or its scores fail on an offer or give no whole
            number.
    """
    placement = _made(name, PLACEMENTS[name])
    if not isinstance(placement, Placement):
        raise InvalidSpec(f"policy {name!r}: {type(placement).__name__} does not derive from Placement")
    offer = Offer(*(1 for _ in Offer._fields))
    for score in (placement.score, placement.within):
        try:
            value = score(offer)
        except Exception as problem:
            what = f"policy {name!r}: its {score.__name__} fails on an offer"
            raise InvalidSpec(f"{what}: {type(problem).__name__}: {problem}") from problem
        if not isinstance(value, Integral):
            raise InvalidSpec(
                f"policy {name!r}: its {score.__name__} gives {value!r}, but must give a whole number"
            )
    return placement


def _made(name: str, build: Callable[[], T]) -> T:
    try:
        return build()
    except CotenantError:
        raise
    except Exception as problem:
        raise InvalidSpec(f"policy {name!r} cannot be made: {type(problem).__name__}: {problem}") from problem


def _check_known(spec: str, name: str) -> None:
    """Raises UnknownName or InvalidSpec: nobody registered this part of a policy, or it is empty."""
    if not name and spec.strip():
        raise InvalidSpec(f"policy {spec!r}: a name is missing; write ORDER, PLACEMENT or ORDER+PLACEMENT")
    if name in ORDERS or name in PLACEMENTS:
        return
    near = difflib.get_close_matches(name.lower(), policy_names(), n=1)
    meant = f"did you mean {near[0]!r}? " if near else ""
    raise UnknownName(
        f"policy {name!r} is unknown; {meant}choose one of {', '.join(policy_names())}, or ORDER+PLACEMENT"
    )


__all__ = [
    "DEFAULT_POLICY",
    "ORDERS",
    "PLACEMENTS",
    "Measure",
    "Offer",
    "OrderPolicy",
    "Placement",
    "PlannedPart",
    "PlannedPlace",
    "Planner",
    "Policy",
    "aging_of",
    "larger",
    "level",
    "order_named",
    "placement_named",
    "policy_named",
    "policy_names",
    "register",
    "smaller",
    "where",
]
