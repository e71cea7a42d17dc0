"""A placement that moves others, for tests, known by its name only as long as a test wants it, and desks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from manager.store.codec import RECORD, encode
from placement import repartition
from placement.options import Options
from placement.policies import PLACEMENTS
from placement.policies.best_fit import BestFit
from placement.scheduler import Scheduler, Snapshot
from tests.cases.desk import Desk, began, exited, node, whole


class Moving(BestFit):
    """Best fit that has others moved for a job that fits nowhere."""

    name = "moving"
    repartitions = True


@contextmanager
def moving_registered(settled_s: float | None = None) -> Iterator[None]:
    """Makes `moving` a placement like others; ``settled_s`` after which a job may be moved, or as usual."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PLACEMENTS, Moving.name, Moving)
        if settled_s is not None:
            patch.setattr(repartition, "SETTLED_S", settled_s)
        yield


V100 = "V100-SXM2-32GB"
MOVING = f"backfill+{Moving.name}"
X1, X2 = whole(1), whole(2)
PAIRS = (node("a", f"2x{V100}"), node("b", f"2x{V100}"))

HALVES = [("p", X1), ("-q", X1), ("r", X1), ("-s", X1)]
"""On PAIRS: one GPU of each node is free, so nobody can have two of one node."""


def peopled(nodes, jobs, policy: str = MOVING) -> Desk:
    """A desk where these jobs run; those named with a minus have left again."""
    desk = Desk(policy, nodes)
    names = [name.strip("-") for name, *_rest in jobs]
    for name, request, *fields in jobs:
        desk.submit(name.strip("-"), request, **(fields[0] if fields else {}))
    for name in names:
        record = desk.scheduler.record(name)
        desk.tell(*(began(name, worker=w) for w in range(record.job.workers if record.attempt else 0)))
    desk.tell(*(exited(name.strip("-")) for name, *_rest in jobs if name.startswith("-")))
    return desk


def one_moves() -> Desk:
    """p is told to move from a-0 to b-1 for new, which claims node a."""
    desk = peopled(PAIRS, HALVES)
    assert desk.submit("new", X2) == ["stop p.0 moved"]
    return desk


def stored(desk: Desk) -> Scheduler:
    """A scheduler that knows what the store holds of another, and nothing else."""
    old = desk.scheduler
    kept = old.snapshot()
    records = tuple(RECORD.validate_json(encode(RECORD, record)) for record in kept.records)
    assert records == kept.records
    snapshot = Snapshot(kept.nodes, kept.profiles, records, kept.events, kept.decisions)
    return Scheduler.restore(old.policy, old.belief, snapshot, Options(seed=desk.seed))
