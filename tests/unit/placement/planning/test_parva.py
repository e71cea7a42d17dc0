"""ParvaGPU's plans against the maps that its authors published, and what must hold of any plan."""

from __future__ import annotations

import csv
import functools
import os
from collections import Counter, defaultdict
from pathlib import Path
from random import Random

import pytest

from placement.model import InvalidAmount, UnknownName
from placement.partition import geometry_of, state_of
from placement.planning import parva
from placement.planning.parva import ServingPlan, plan_services
from placement.planning.serving import Service, ServingPoint, choose_segments, smaller_segments

DATA = Path(os.environ.get("COTENANT_DATA") or Path(__file__).parents[5] / "shared" / "data")
needs_data = pytest.mark.skipif(not (DATA / "parvagpu").is_dir(), reason="needs parvagpu under COTENANT_DATA")

A100 = geometry_of("A100-SXM4-80GB")
A30 = geometry_of("A30-24GB")

Segment = tuple[str, int, int, int]
"""Model, slices, batch, processes."""

# Two of the eleven models have no measurements here.  Their published segments stand in for them: points by
# (slices, batch, processes) with made-up rates that are in proportion such that the first stage asks for what
# the second stage then breaks into the published pieces; and the rate to serve.
STAND_INS: dict[str, dict[str, tuple[dict[tuple[int, int, int], float], float]]] = {
    "1": {"vgg19": ({(2, 32, 2): 100}, 90)},
    "2": {"vgg19": ({(2, 32, 2): 100}, 90), "densenet169": ({(2, 16, 3): 100}, 90)},
    "3": {
        "vgg19": ({(3, 32, 2): 160, (2, 32, 1): 90, (1, 16, 1): 40}, 155),
        "densenet169": ({(3, 16, 3): 100}, 90),
    },
    "4": {
        "vgg19": ({(3, 32, 2): 160, (2, 32, 1): 90, (1, 16, 1): 40}, 240),
        "densenet169": ({(3, 16, 3): 100, (1, 16, 1): 30}, 125),
    },
    "5": {
        "vgg19": ({(3, 32, 1): 140, (2, 16, 1): 90, (1, 8, 1): 40}, 300),
        "densenet169": ({(3, 16, 2): 100, (1, 8, 1): 25}, 420),
    },
    "6": {
        "vgg19": ({(3, 64, 2): 36.5, (2, 32, 2): 19, (1, 32, 1): 10}, 117),
        "densenet169": ({(7, 128, 2): 100}, 190),
    },
}


def rows(name: str) -> list[dict[str, str]]:
    with (DATA / "parvagpu" / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@functools.cache
def measured() -> dict[str, tuple[ServingPoint, ...]]:
    points: dict[str, list[ServingPoint]] = defaultdict(list)
    for row in rows("mig_mps_profiles.csv"):
        processes = int(row["mps_processes"])
        if int(row["batch_size"]) <= 128 and float(row["throughput_req_s"]) > 0:
            throughput = float(row["throughput_req_s"]) * processes
            point = (int(row["mig_slices"]), int(row["batch_size"]), processes)
            points[row["model"]].append(ServingPoint(*point, throughput, float(row["latency_s"])))
    return {model: tuple(found) for model, found in points.items()}


@functools.cache
def goals(scenario: str) -> dict[str, tuple[float, float]]:
    """Rate per second and latency goal in seconds by model; the authors cut goals to whole milliseconds."""
    values: dict[str, dict[str, float]] = defaultdict(dict)
    for row in rows("slo_scenarios.csv"):
        if row["scenario"] == scenario and row["value"] != "N/A":
            values[row["model"]][row["kind"]] = float(row["value"])
    return {m: (v["request_rate_s"], int(v["latency_slo_ms"]) / 1000) for m, v in values.items()}


def services(scenario: str) -> list[Service]:
    found = []
    for model, (rate, slo) in sorted(goals(scenario).items()):
        if model in measured():
            found.append(Service(model, rate, slo, measured()[model]))
        else:
            points, stand_in_rate = STAND_INS[scenario][model]
            made = tuple(ServingPoint(*point, served, 0.001) for point, served in points.items())
            found.append(Service(model, stand_in_rate, 1.0, made))
    return found


def published(scenario: str) -> Counter[tuple[Segment, ...]]:
    """The authors' GPUs, each as what runs on it."""
    gpus: dict[tuple[str, str], list[Segment]] = defaultdict(list)
    for row in rows("parvagpu_deployments.csv"):
        if row["scenario"] == scenario:
            size = (int(row["instance_size"]), int(row["batch_size"]), int(row["num_proc"]))
            gpus[row["num_instance"], row["num_gpu"]].append((row["model"], *size))
    return Counter(tuple(sorted(gpu)) for gpu in gpus.values())


def planned(plan: ServingPlan) -> Counter[tuple[Segment, ...]]:
    gpus: dict[int, list[Segment]] = defaultdict(list)
    for placed in plan.segments:
        point = placed.point
        gpus[placed.gpu].append((placed.service, point.slices, point.batch, point.processes))
    return Counter(tuple(sorted(gpu)) for gpu in gpus.values())


def check(plan: ServingPlan, wanted: list[Service], geometry=A100) -> None:
    """Each GPU's slices can stand together, every goal is met by the table, and every rate is served."""
    goal = {service.name: service for service in wanted}
    on_gpu = defaultdict(list)
    for placed in plan.segments:
        on_gpu[placed.gpu].append(placed.instance)
        profile = geometry.profiles[geometry.profile_index(placed.instance.profile)]
        assert profile.compute_slices == placed.point.slices
        assert placed.point in goal[placed.service].points
        assert placed.point.latency_s < 0.9 * goal[placed.service].slo_s / 2
    assert sorted(on_gpu) == list(range(plan.gpus))
    assert all(state_of(geometry, instances) is not None for instances in on_gpu.values())
    served = plan.throughput_per_s()
    assert set(served) | set(plan.unserved) == set(goal)
    assert all(served[name] >= goal[name].rate_per_s - 1e-6 for name in served)


# One published GPU has two slices of 1 more than the rate needs, most likely because the published code looks
# again at slices that it has just moved within a GPU.
ONCE_MORE = (("resnet152", 1, 4, 1),) * 2


@needs_data
@pytest.mark.parametrize(
    ("scenario", "gpus", "differs"),
    [("1", 2, 0), ("2", 3, 0), ("3", 5, 0), ("4", 7, 0), ("5", 13, 1), ("6", 16, 0)],
)
def test_the_published_maps(scenario, gpus, differs):
    wanted = services(scenario)
    plan = plan_services(A100, wanted)
    check(plan, wanted)
    assert plan.gpus == gpus == published(scenario).total()
    ours, theirs = planned(plan) - published(scenario), published(scenario) - planned(plan)
    assert ours.total() == theirs.total() == differs
    for mine, other in zip(ours, theirs, strict=True):
        assert tuple(sorted((*mine, *ONCE_MORE))) == other


@needs_data
@pytest.mark.parametrize(("scenario", "smallest"), [("1", 1), ("2", 2)])
def test_the_published_starts(scenario, smallest):
    """Elsewhere a published 1g often stands where a larger slice is, say at 6 beside a 3g at 4."""
    plan = plan_services(A100, services(scenario))
    ours = {
        (placed.gpu, placed.service, placed.instance.start)
        for placed in plan.segments
        if placed.point.slices >= smallest
    }
    theirs = {
        (int(row["num_gpu"]), row["model"], int(row["placement"]))
        for row in rows("parvagpu_deployments.csv")
        if row["scenario"] == scenario and int(row["instance_size"]) >= smallest
    }
    assert ours == theirs


@needs_data
def test_the_second_stage_saves_gpus(monkeypatch):
    both = [plan_services(A100, services(scenario)).gpus for scenario in "123456"]
    monkeypatch.setattr(parva, "LITTLE_USED_SLICES", 0)
    first = [plan_services(A100, services(scenario)).gpus for scenario in "123456"]
    assert (first, both) == ([2, 3, 8, 11, 20, 26], [2, 3, 5, 7, 13, 16])


@needs_data
def test_random_services_are_served_in_time():
    random = Random(11)
    late = 0
    for _ in range(40):
        wanted = [
            Service(f"{model}-{i}", random.uniform(1, 4000), random.uniform(0.01, 1.0), measured()[model])
            for i, model in enumerate(random.choices(sorted(measured()), k=random.randint(1, 12)))
        ]
        plan = plan_services(A100, wanted)
        check(plan, wanted)
        late += len(plan.unserved)
        for name in plan.unserved:
            service = next(s for s in wanted if s.name == name)
            assert not any(p.latency_s < 0.45 * service.slo_s for p in service.points)
    assert late > 0


SMALL = ServingPoint(1, 4, 1, 10.0, 0.010)
PAIR = ServingPoint(2, 8, 2, 25.0, 0.020)
LARGE = ServingPoint(4, 8, 2, 60.0, 0.020)
SLOW = ServingPoint(1, 64, 3, 90.0, 0.200)


@pytest.mark.parametrize(
    ("rate", "slo", "points", "chosen"),
    [
        (9, 0.1, [SMALL], [SMALL]),
        (10, 0.1, [SMALL], [SMALL]),
        (21, 0.1, [SMALL], [SMALL] * 3),
        (5, 0.1, [SMALL, PAIR, LARGE], [SMALL]),
        (65, 0.1, [SMALL, PAIR, LARGE], [LARGE, SMALL]),
        (75, 0.1, [SMALL, PAIR, LARGE], [LARGE, PAIR]),
        (110, 0.1, [SMALL, PAIR, LARGE], [LARGE, LARGE]),
        (110, 0.040, [SMALL, PAIR, LARGE], [SMALL] * 11),
        (110, 1.0, [SMALL, PAIR, LARGE, SLOW], [SLOW, SLOW]),
        (1, 0.0222, [SMALL], None),
        (1, 0.0223, [SMALL], [SMALL]),
        (1, 1.0, [], None),
    ],
)
def test_the_segments_of_a_service(rate, slo, points, chosen):
    choice = choose_segments(Service("s", rate, slo, tuple(points)))
    assert (None if choice is None else list(choice.segments())) == chosen


@pytest.mark.parametrize(
    ("points", "rate", "pieces"),
    [
        ([SMALL, PAIR, LARGE], 60, [PAIR, PAIR, SMALL]),
        ([SMALL, PAIR, LARGE], 20, [SMALL, SMALL]),
        ([SMALL, PAIR, LARGE], -5, []),
        ([SMALL, LARGE], 60, [SMALL] * 6),
        ([PAIR, LARGE], 60, [PAIR] * 3),
        ([LARGE], 60, None),
        ([SMALL, ServingPoint(2, 8, 2, 20.0, 0.02), LARGE], 45, [SMALL] * 5),
    ],
)
def test_what_a_little_used_gpu_is_broken_into(points, rate, pieces):
    choice = choose_segments(Service("s", 1, 0.1, tuple(points)))
    assert smaller_segments(choice, rate) == pieces


def test_other_gpus_and_wrong_input():
    wanted = [Service("s", 100, 1.0, (LARGE, SMALL)), Service("t", 15, 1.0, (SMALL, PAIR))]
    plan = plan_services(A30, wanted)
    check(plan, wanted, A30)
    assert plan.gpus == 3
    with pytest.raises(UnknownName):
        plan_services(A30, [Service("s", 1, 1.0, (ServingPoint(3, 1, 1, 5.0, 0.01),))])
    for rate, slo in ((0, 1.0), (1, 0)):
        with pytest.raises(InvalidAmount):
            plan_services(A100, [Service("s", rate, slo, (SMALL,))])


def test_nothing_is_undone_that_cannot_be_made_smaller():
    plan = plan_services(A100, [Service("s", 60, 1.0, (LARGE,))])
    assert planned(plan) == {(("s", 4, 8, 2),): 1}
