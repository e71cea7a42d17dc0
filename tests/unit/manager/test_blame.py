"""Waiting jobs that the scheduler cannot stand are found with few trials, whatever else waits."""

from __future__ import annotations

import copy
import math

import pytest

from manager.blame import MOST_CULPRITS, Blame
from manager.loop import CoreSettings
from manager.store import CoreImage
from placement.lifecycle import JobState
from placement.model import NodeJoined, OperationFailed
from placement.scheduler import Scheduler
from tests.unit.manager.parts import Parts, node

WAITING = 100


@pytest.fixture
def image(parts: Parts) -> CoreImage:
    """A hundred jobs that wait for a node."""
    for _ in range(WAITING):
        parts.submit()
    parts.turn()
    return parts.store.steps.load()


class Fragile:
    """Builds schedulers that cannot stand certain companies of waiting jobs."""

    def __init__(self, *unbearable: frozenset[str], most: int | None = None) -> None:
        self.trials = 0
        self._unbearable = unbearable
        self._most = WAITING if most is None else most

    def scheduler(self, image: CoreImage) -> Scheduler:
        self.trials += 1
        ids = {record.job.job_id for record in image.records if record.state is JobState.QUEUED}
        if len(ids) > self._most or any(company <= ids for company in self._unbearable):
            raise ZeroDivisionError("a bug")
        return CoreSettings().scheduler(image)


def only(*job_ids: str) -> frozenset[str]:
    return frozenset(job_ids)


@pytest.mark.parametrize(
    ("fragile", "culprits"),
    [
        (Fragile(only("job-1")), ("job-1",)),
        (Fragile(only("job-50")), ("job-50",)),
        (Fragile(only("job-100")), ("job-100",)),
        (Fragile(only("job-7"), only("job-70")), ("job-7", "job-70")),
        (Fragile(only("job-7", "job-70")), ("job-70",)),
        (Fragile(*(only(f"job-{n}") for n in (3, 30, 60))), ("job-3", "job-30", "job-60")),
        (Fragile(*(only(f"job-{n}") for n in (3, 30, 60, 90))), ()),
        (Fragile(most=0), ()),
        (Fragile(only()), ()),
    ],
    ids=["first", "middle", "last", "two", "a pair", "three", "four", "any job", "even without"],
)
def test_culprits_are_found_with_few_trials(
    image: CoreImage, fragile: Fragile, culprits: tuple[str, ...]
) -> None:
    assert Blame(image, fragile.scheduler, 1000.0).culprits([NodeJoined(node())]) == culprits
    assert fragile.trials <= MOST_CULPRITS * (math.ceil(math.log2(WAITING)) + 2)


def test_trials_leave_the_image_as_it_was(image: CoreImage) -> None:
    before = copy.deepcopy(image)
    blame = Blame(image, CoreSettings().scheduler, 1000.0)
    for _ in range(2):
        assert blame.works([NodeJoined(node())])
    assert image == before


def test_the_store_is_read_a_few_times_only(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [parts.submit(name="bad" if number == 3 else "good") for number in range(WAITING)]
    parts.turn()
    step, load, loads = Scheduler.step, parts.store.steps.load, 0

    def fragile(self: Scheduler, events: object, now_s: float) -> object:
        joins = any(isinstance(each, NodeJoined) for each in events)  # type: ignore[attr-defined]
        if joins and any(record.job.name == "bad" for record in self.records()):
            raise ZeroDivisionError("a bug")
        return step(self, events, now_s)  # type: ignore[arg-type]

    def counted() -> CoreImage:
        nonlocal loads
        loads += 1
        return load()

    monkeypatch.setattr(Scheduler, "step", fragile)
    monkeypatch.setattr(parts.store.steps, "load", counted)
    parts.join(node())
    states = [parts.state(job_id) for job_id in jobs]
    assert [jobs[n] for n, state in enumerate(states) if state is JobState.REJECTED] == [jobs[3]]
    assert states.count(JobState.STARTING) == 4
    assert loads <= 2


def test_a_core_that_stands_no_waiting_job_costs_none(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [parts.submit() for _ in range(MOST_CULPRITS + 1)]
    parts.turn()
    step = Scheduler.step

    def fragile(self: Scheduler, events: object, now_s: float) -> object:
        if any(record.state is JobState.QUEUED for record in self.records()):
            raise ZeroDivisionError("a bug")
        return step(self, events, now_s)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(Scheduler, "step", fragile)
        parts.store.intake.join(node(), simulated=True)
        with pytest.raises(OperationFailed, match="to blame"):
            parts.loop.run_once()
    parts.turn()
    assert {parts.state(job_id) for job_id in jobs} == {JobState.STARTING}
