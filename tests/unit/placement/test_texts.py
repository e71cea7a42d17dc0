"""The canonical text of decisions, and rows of traces as jobs."""

from __future__ import annotations

import pytest

from placement.decision_log import lines
from placement.lifecycle import JobState, Transition
from placement.model import (
    Assignment,
    Command,
    Job,
    JobKind,
    Mode,
    Request,
    Share,
    StartWorker,
    StopCause,
    StopWorker,
    UnknownName,
)
from placement.scheduler import Step
from placement.trace import TraceRow

S = JobState


def start(*shares: Share, worker: int = 0) -> StartWorker:
    return StartWorker("job-1", 2, Assignment(worker, "node-7", shares))


COMMANDS = [
    (start(), "start job-1 2.0 on node-7"),
    (start(worker=11), "start job-1 2.11 on node-7"),
    (
        start(Share("GPU-a", Mode.EXCLUSIVE, 1000, 34359738368)),
        "start job-1 2.0 on node-7 GPU-a:exclusive:1000:34359738368",
    ),
    (start(Share("GPU-a", Mode.MPS, 300)), "start job-1 2.0 on node-7 GPU-a:mps:300:-"),
    (start(Share("GPU-a", Mode.TIMESLICE, 50, 1)), "start job-1 2.0 on node-7 GPU-a:timeslice:50:1"),
    (
        start(Share("GPU-a", Mode.MIG, 142, 99, "1g.10gb", 0)),
        "start job-1 2.0 on node-7 GPU-a:mig/1g.10gb@0:142:99",
    ),
    (
        start(Share("GPU-a", Mode.EXCLUSIVE, 1000, None), Share("GPU-b", Mode.EXCLUSIVE, 1000, None)),
        "start job-1 2.0 on node-7 GPU-a:exclusive:1000:- GPU-b:exclusive:1000:-",
    ),
    *(
        (StopWorker("job-1", 2, 3, "node-7", cause, 5.0), f"stop job-1 2.3 on node-7 {cause.value}")
        for cause in StopCause
    ),
]


@pytest.mark.parametrize(("command", "text"), COMMANDS)
def test_a_command_as_text(command, text):
    assert lines(Step((), (command,)), 1.5) == [f"1.500000 {text}"]


@pytest.mark.parametrize(
    ("move", "now_s", "text"),
    [
        (Transition("a", 0, None, S.QUEUED, 1.0), 1.0, "1.000000 a 0 - -> queued"),
        (Transition("a", 0, S.QUEUED, S.REJECTED, 1.0, "no room"), 1.0, "1.000000 a 0 queued -> rejected"),
        (Transition("a", 3, S.STARTING, S.RUNNING, 2.0), 0.1234567, "0.123457 a 3 starting -> running"),
        (Transition("a", 1, S.RUNNING, S.STOPPING, 2.0), 1e9, "1000000000.000000 a 1 running -> stopping"),
    ],
)
def test_a_move_as_text(move, now_s, text):
    assert lines(Step((move,), ()), now_s) == [text]


def test_moves_come_before_commands_and_both_stay_in_order():
    moves = (Transition("b", 0, None, S.QUEUED, 0.0), Transition("a", 0, None, S.QUEUED, 0.0))
    commands: tuple[Command, ...] = (start(worker=1), start(worker=0))
    assert lines(Step(moves, commands), 0.0) == [
        "0.000000 b 0 - -> queued",
        "0.000000 a 0 - -> queued",
        "0.000000 start job-1 2.1 on node-7",
        "0.000000 start job-1 2.0 on node-7",
    ]
    assert lines(Step((), ()), 0.0) == []


ROW = TraceRow(
    "row-1",
    10.0,
    Request(gpus=2),
    60.0,
    workers=3,
    tenant="red",
    kind=JobKind.INFERENCE,
    profile="bert",
    immediate=True,
)


@pytest.mark.parametrize(("known", "duration_s"), [(True, 60.0), (False, None)])
def test_a_row_becomes_a_job_that_tells_its_duration_only_if_it_may(known, duration_s):
    assert ROW.to_job(7, duration_known=known) == Job(
        "row-1",
        Request(gpus=2),
        10.0,
        7,
        tenant="red",
        workers=3,
        kind=JobKind.INFERENCE,
        duration_s=duration_s,
        profile="bert",
        immediate=True,
    )


@pytest.mark.parametrize(
    ("duration_s", "by_model", "model", "solo_s"),
    [
        (60.0, None, "k80", 60.0),
        (None, None, "k80", None),
        (60.0, {"k80": 90.0}, "k80", 90.0),
        (None, {"k80": 90.0, "v100": 10.0}, "v100", 10.0),
        (None, {"k80": 90.0, "v100": 10.0}, "V100-SXM2-32GB", 10.0),
    ],
)
def test_the_solo_time_of_a_row(duration_s, by_model, model, solo_s):
    row = TraceRow("row", 0.0, Request(), duration_s, by_model)
    assert row.solo_s(model) == solo_s


def test_a_model_that_a_row_does_not_know_is_no_place_for_it():
    with pytest.raises(UnknownName):
        TraceRow("row", 0.0, Request(), 60.0, {"k80": 90.0}).solo_s("v100")
