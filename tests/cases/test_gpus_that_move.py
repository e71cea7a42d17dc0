"""A GPU that turns up on another node, or as another model: it is where and what it was seen last."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest

from placement.model import Devices, Gpu, JobKind, Node, NodeJoined, NodeLost, Request
from placement.scheduler import Scheduler
from tests.cases.desk import EXCLUSIVE, GIB, MIG, MPS, WHOLE, Desk, began, exited, mig, node

G = Gpu("g", "V100-SXM2-32GB", 32 << 30)
A, B, BARE_A, BARE_B = Node("a", (G,)), Node("b", (G,)), Node("a"), Node("b")


def joins(*nodes: Node) -> list[NodeJoined]:
    return [NodeJoined(node) for node in nodes]


@pytest.mark.parametrize(
    ("steps", "where"),
    [
        ([[A], [B]], "b"),
        ([[A], [B], [A]], "a"),  # a never changed: it is told again just as it was
        ([[B], [A], [B]], "b"),
        ([[A], [B], [A], [BARE_A]], None),  # b has to say so
        ([[A], [B], [BARE_B], [A]], "a"),
        ([[A, B]], "a"),  # at the same moment: the first by id
        ([[B, A]], "a"),
        ([[A, B], [B]], "b"),
        ([[A, B], [B], [A]], "a"),
        ([[A, B], [BARE_A]], "b"),
        ([[A], [BARE_A, B], [A, BARE_B]], "a"),
    ],
)
@pytest.mark.parametrize("restored", [False, True])
def test_where_a_gpu_is(steps, where, restored):
    desk = Desk("backfill", ())
    for step in steps:
        if restored:
            old = desk.scheduler
            desk.scheduler = Scheduler.restore(old.policy, old.belief, copy.deepcopy(old.snapshot()))
        desk.tell(*joins(*step))
    if where is not None:
        desk.tell(desk.job("one"), desk.job("two"))
        assert desk.scheduler.record("one").assignments[0].node_id == where
        assert desk.waiting() == ["two"]
        assert [tenancy.job_id for tenancy in desk.scheduler.residents("g")] == ["one"]
    else:
        assert not desk.scheduler.cluster.is_on("g", "a")
        assert not desk.scheduler.cluster.is_on("g", "b")


def test_who_holds_a_gpu_that_has_moved_on_is_not_pushed_out_for_it():
    desk = Desk("srtf", (A, BARE_B))
    desk.submit("long", duration_s=100.0)
    desk.tell(*joins(B))
    desk.submit("other", duration_s=50.0)
    assert desk.scheduler.record("other").assignments[0].node_id == "b"
    assert desk.submit("short", duration_s=0.5) == ["stop other.0 preempted"]


def test_a_claim_on_a_gpu_that_has_moved_on_comes_to_nothing():
    desk = Desk("srtf", (A, BARE_B))
    desk.submit("long", duration_s=100.0)
    desk.submit("short", duration_s=1.0)
    desk.tell(*joins(B))
    assert desk.scheduler.record("short").assignments[0].node_id == "a"
    assert not desk.scheduler.cluster.can_start(desk.scheduler.record("short").assignments[0])


MODELS = {
    "another cut": ("A30-24GB", 24),
    "the same names of other slices": ("A100-SXM4-40GB", 40),
    "no slices": ("V100-SXM2-32GB", 32),
    "unknown": ("X", None),
}


@pytest.mark.parametrize("policy", ["best-fit", "cotenant", "parvagpu", "srtf", "miso", "srtf+miso"])
@pytest.mark.parametrize(("model", "gib"), MODELS.values(), ids=MODELS)
def test_a_gpu_comes_back_as_another_model_while_slices_of_it_are_held(policy, model, gib):
    """Nothing new goes there until they are free, and then what the new model has."""
    desk = Desk(policy, (node("a", "1xA100-SXM4-80GB"),), belief="additive")
    desk.submit("one", mig("1g.10gb"))
    desk.submit("three", mig("3g.40gb"))
    desk.submit("two", Request(gpus=2, compute_milli=70, modes=MIG | MPS, devices=Devices.SAME))
    desk.tell(began("one"), began("three"), began("two"))
    gpu = replace(desk.nodes[0].gpus[0], model=model, memory_bytes=None if gib is None else gib * GIB)
    desk.tell(NodeLost("a"), NodeJoined(Node("a", (gpu,))), at_s=100.0)
    desk.submit("new", Request(modes=EXCLUSIVE), duration_s=1.0)
    desk.submit("cut", Request(compute_milli=100, modes=MIG), duration_s=1.0, kind=JobKind.INFERENCE)
    for name in ("one", "new", "cut"):
        desk.scheduler.explain(name)
    desk.tell(exited("one"), at_s=200.0)
    desk.leave_all()
    desk.submit("whole", WHOLE)
    assert desk.holds("whole") == "a-0:exclusive:1000"
