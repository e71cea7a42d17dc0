"""The synthetic generator: seeded to the byte, heavy tails, gangs and fractions; also the default trace."""

import dataclasses
from pathlib import Path

import pytest

from placement.model import InvalidAmount, OperationFailed
from simulator.study import DEFAULT_TRACE
from simulator.synthetic import Arrivals, SyntheticSpec, write
from simulator.traces import ReadOptions, read_trace

DEFAULT = SyntheticSpec(jobs=1000, seed=7, arrivals=Arrivals.DIURNAL)


def rows_of(folder: Path, spec: SyntheticSpec):
    write(spec, folder / "t.csv")
    return read_trace(folder / "t.csv", ReadOptions()).rows


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_equal_specs_give_equal_bytes_and_another_seed_gives_others(tmp_path, name):
    spec = SyntheticSpec(jobs=200, seed=5)
    files = [tmp_path / f"{n}-{name}" for n in range(3)]
    for path, seed in zip(files, (5, 5, 6), strict=True):
        write(dataclasses.replace(spec, seed=seed), path)
    assert files[0].read_bytes() == files[1].read_bytes() != files[2].read_bytes()


def test_the_trace_that_ships_is_what_the_generator_writes(tmp_path):
    write(DEFAULT, tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_bytes() == DEFAULT_TRACE.read_bytes()


def test_shape(tmp_path):
    rows = rows_of(tmp_path, SyntheticSpec(jobs=4000, seed=1, largest_gang=8))
    durations = sorted(row.duration_s for row in rows)
    assert durations[2000] == pytest.approx(1200, rel=0.1), "the median is what was asked for"
    assert sum(durations[-400:]) > 0.4 * sum(durations), "a tenth of the jobs brings most of the work"
    assert {row.workers for row in rows} == {1, 2, 4, 8}
    gangs = sum(row.workers > 1 for row in rows)
    shared = sum(row.request.compute_milli is not None for row in rows)
    assert gangs == pytest.approx(0.05 * 4000, rel=0.2)
    assert shared == pytest.approx(0.95 * 0.6 * 4000, rel=0.1)
    assert any(row.request.max_slowdown is not None for row in rows)
    assert rows[-1].submit_s == pytest.approx(100 * 3600, rel=0.1), "40 jobs an hour"


@pytest.mark.parametrize(
    ("arrivals", "low", "high"), [(Arrivals.POISSON, 0.8, 1.25), (Arrivals.DIURNAL, 2.5, 12)]
)
def test_arrivals_are_flat_or_follow_the_day(tmp_path, arrivals, low, high):
    rows = rows_of(tmp_path, SyntheticSpec(jobs=6000, seed=2, arrivals=arrivals))
    hours = [row.submit_s / 3600 % 24 for row in rows]
    noon, midnight = sum(9 <= hour < 15 for hour in hours), sum(hour < 3 or hour >= 21 for hour in hours)
    assert low < noon / midnight < high


@pytest.mark.parametrize(
    "wrong",
    [
        {"jobs": 0},
        {"tenants": 0},
        {"largest_gang": 1},
        {"jobs_per_hour": 0.0},
        {"median_s": float("nan")},
        {"sigma": -1.0},
        {"gang_fraction": 1.1},
        {"shared_fraction": -0.1},
    ],
)
def test_specs_that_cannot_be_right(wrong):
    with pytest.raises(InvalidAmount):
        SyntheticSpec(**wrong)


def test_a_file_that_cannot_be_written(tmp_path):
    with pytest.raises(OperationFailed, match="cannot be written"):
        write(SyntheticSpec(jobs=1), tmp_path / "absent" / "t.csv")
