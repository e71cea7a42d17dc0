"""Progress under slowdown: the truth makes jobs slow, the belief only decides; neighbours come and go."""

import pytest

from placement.interference import AdditiveInterference, NoInterference, Prediction, Resident
from placement.model import Devices, Mode, Profile, Request
from placement.trace import TraceRow
from simulator.cluster_spec import load_cluster
from simulator.engine import SimulationOptions, SimulationResult, simulate

SHARED = frozenset({Mode.TIMESLICE})
BUSY = Profile("busy", sm_milli=500, dram_milli=0)


class Crowd:
    """Everyone runs as many times slower as there are residents; it counts how often it is asked."""

    name = "crowd"

    def __init__(self) -> None:
        self.asked = 0

    def predict(self, gpu_model: str, residents: tuple[Resident, ...]) -> tuple[Prediction, ...]:
        self.asked += 1
        slowdown = float(len(residents))
        return (Prediction(slowdown, slowdown),) * len(residents)


def share(job_id: str, submit_s: float, duration_s: float | None, milli: int = 250, **fields) -> TraceRow:
    limit = fields.pop("max_slowdown", None)
    request = Request(
        gpus=fields.pop("gpus", 1), compute_milli=milli, modes=fields.pop("modes", SHARED), max_slowdown=limit
    )
    return TraceRow(job_id, submit_s, request, duration_s, **fields)


def run(
    rows, truth, belief=None, *, cluster="1x1xA100-SXM4-80GB", policy="best-fit", profiles=()
) -> SimulationResult:
    options = SimulationOptions(policy, truth=truth, belief=belief or NoInterference(), profiles=profiles)
    return simulate(rows, load_cluster(cluster), options)


CROWDS = {
    "alone": ([("a", 0, 100)], {"a": 100}),
    "two from the start share evenly": ([("a", 0, 100), ("b", 0, 100)], {"a": 200, "b": 200}),
    "the second comes half way": ([("a", 0, 100), ("b", 50, 100)], {"a": 150, "b": 200}),
    "the short one leaves, the long one speeds up": ([("a", 0, 100), ("b", 0, 10)], {"a": 110, "b": 20}),
    "three, one after the other": ([("a", 0, 30), ("b", 10, 30), ("c", 20, 30)], {"a": 65, "b": 85, "c": 90}),
    "a neighbour that never ends": ([("a", 0, 100), ("z", 40, None)], {"a": 160, "z": None}),
}  # fmt: skip


def test_shares_of_one_slice_slow_each_other_and_not_those_of_another():
    request = Request(
        gpus=2, compute_milli=70, modes=frozenset({Mode.MIG, Mode.TIMESLICE}), devices=Devices.SAME
    )
    result = run([TraceRow(job_id, 0, request, 100) for job_id in "ab"], Crowd(), policy="parvagpu")
    assert {o.job_id: o.ended_s for o in result.outcomes} == {"a": 200, "b": 200}


@pytest.mark.parametrize("case", CROWDS)
def test_progress_is_integrated_under_the_slowdown_of_the_present_neighbours(case):
    lines, ends = CROWDS[case]
    result = run([share(*line) for line in lines], Crowd())
    assert {o.job_id: o.ended_s for o in result.outcomes} == ends


def test_those_in_a_slice_slow_each_other_and_nobody_beside_it():
    """Each crowd is asked about by itself: the two in each slice, and the one that has a slice alone."""
    modes = frozenset({Mode.MIG, Mode.TIMESLICE})
    asked = Request(gpus=2, compute_milli=70, modes=modes, devices=Devices.SAME)
    cut = Request(modes=frozenset({Mode.MIG}), mig_profile="2g.20gb")
    rows = [TraceRow("cut", 0, cut, 100), *(TraceRow(f"pair{i}", 0, asked, 100) for i in range(2))]
    result = run(rows, Crowd(), policy="parvagpu")
    assert {o.job_id: o.ended_s for o in result.outcomes} == {"cut": 100, "pair0": 200, "pair1": 200}


def test_observed_slowdown_is_running_time_over_solo_time():
    result = run([share("a", 0, 100), share("b", 50, 100)], Crowd())
    assert [o.slowdown for o in result.outcomes] == [1.5, 1.5]
    assert [o.served_s for o in result.outcomes] == [100, 100]
    assert result.metrics.mean_slowdown == 1.5


def test_a_job_on_several_gpus_runs_at_the_pace_of_its_slowest():
    rows = [share("wide", 0, 100, 500, gpus=2), share("n", 20, 40, 500)]
    ends = {o.job_id: o.ended_s for o in run(rows, Crowd(), cluster="1x2xA100-SXM4-80GB").outcomes}
    assert ends == {"wide": 140, "n": 100}


def test_truth_slows_and_belief_decides():
    """The believers in no interference pack two jobs on one GPU; the truth breaks the promise."""
    rows = [share(name, 0, 100, 250, profile="busy", max_slowdown=1.2) for name in ("a", "b")]
    additive = AdditiveInterference()
    two_gpus = {"cluster": "1x2xA100-SXM4-80GB", "profiles": (BUSY,)}
    fooled = run(rows, additive, NoInterference(), **two_gpus).metrics
    oracle = run(rows, additive, additive, **two_gpus).metrics
    timid = run(rows, NoInterference(), additive, **two_gpus).metrics
    assert fooled.promises_broken == 2
    assert fooled.mean_slowdown == pytest.approx(1 + 1.12 * 0.5)
    assert (oracle.promises_broken, oracle.mean_slowdown) == (0, 1)
    assert (timid.promises_broken, timid.mean_slowdown) == (0, 1)


def test_what_the_truth_does_not_know_runs_at_solo_speed_and_counts_as_unknown():
    rows = [share("a", 0, 100), share("b", 50, 20), share("c", 500, 10)]
    outcomes = run(rows, AdditiveInterference()).outcomes
    assert [o.ended_s for o in outcomes] == [100, 70, 510]
    assert [o.slowdown for o in outcomes] == [None, None, 1], "c was alone all the time"


def test_whole_gpus_are_never_asked_about():
    truth = Crowd()
    rows = [share(f"j{n}", n, 10, 1000, modes=frozenset({Mode.EXCLUSIVE})) for n in range(5)]
    assert run(rows, truth).metrics.mean_slowdown == 1
    assert truth.asked == 0


def test_the_truth_is_asked_once_per_set_of_residents():
    truth = Crowd()
    run([share(f"j{n}", 10 * (n // 2), 4, 500) for n in range(40)], truth)
    assert truth.asked <= 2


def test_mig_slices_do_not_disturb_each_other():
    rows = [share(name, 0, 100, 140, profile="light", modes=frozenset({Mode.MIG})) for name in ("a", "b")]
    result = run(rows, AdditiveInterference(), profiles=(Profile("light", sm_milli=100, dram_milli=0),))
    assert [o.ended_s for o in result.outcomes] == [100, 100]
    assert [o.slowdown for o in result.outcomes] == [1, 1]


A100 = "A100-SXM4-80GB"
RATES = {A100: 10.0, f"{A100}/3g.40gb": 4.0, f"{A100}/1g.10gb": 2.0, f"{A100}/2g.20gb": 11.0}


def sliced(job_id: str, cut: str, **fields) -> TraceRow:
    request = Request(modes=frozenset({Mode.MIG}), mig_profile=cut, gpus=fields.pop("gpus", 1))
    return TraceRow(job_id, 0, request, 100, **fields)


SLICES = {
    "by the rate in the slice": ([sliced("a", "3g.40gb", profile="known")], {"a": (250, 2.5)}),
    "each by its own, neighbours are apart": (
        [sliced("a", "3g.40gb", profile="known"), sliced("b", "1g.10gb", profile="known")],
        {"a": (250, 2.5), "b": (500, 5.0)},
    ),
    "never faster than on the whole GPU": ([sliced("a", "2g.20gb", profile="known")], {"a": (100, 1.0)}),
    "the slice is not in the profile": ([sliced("a", "4g.40gb", profile="known")], {"a": (100, 1.0)}),
    "the whole GPU is not in the profile": ([sliced("a", "3g.40gb", profile="half")], {"a": (100, 1.0)}),
    "no profile": ([sliced("a", "3g.40gb")], {"a": (100, 1.0)}),
    "of two GPUs the slower counts": (
        [sliced("a", "3g.40gb", profile="known", gpus=2)],
        {"a": (250, 2.5)},
    ),
}


@pytest.mark.parametrize(("rows", "expected"), SLICES.values(), ids=SLICES)
def test_a_slice_slows_a_job_as_far_as_its_profile_knows(rows, expected):
    profiles = Profile("known", RATES), Profile("half", {f"{A100}/3g.40gb": 4.0})
    result = run(rows, NoInterference(), cluster=f"1x2x{A100}", profiles=profiles)
    assert {o.job_id: (o.ended_s, o.slowdown) for o in result.outcomes} == expected


def test_where_the_rate_in_the_slice_is_not_known_the_truth_model_decides():
    profile = Profile("busy", {A100: 10.0}, sm_milli=1000)
    result = run([sliced("a", "3g.40gb", profile="busy")], AdditiveInterference(), profiles=[profile])
    assert result.outcomes[0].ended_s == pytest.approx(100 * 1000 / 428)


def test_a_larger_slice_makes_a_job_faster_from_then_on():
    """Two of 400 s share as 4/7 and 3/7; the first to end leaves the whole GPU to the other."""
    rows = [TraceRow(f"j{i}", 100.0 * i, Request(), 400.0, profile="p") for i in range(2)]
    profile = Profile("p", {A100: 10.0, **{f"{A100}/{cut}": 10 * s for cut, s in SPEEDS.items()}})
    result = run(rows, NoInterference(), policy="backfill+miso", profiles=[profile])
    ended = {outcome.job_id: outcome.ended_s for outcome in result.outcomes}
    # Alone until 100, 9 s and 21 s for the move to 4/7.
    done_s = 130.0 + 300.0 / 0.7
    # The other begins when the first has left, at 109; then 30 s for the move, and the rest at full speed.
    rest_s = 400.0 - (done_s - 109.0) * 0.6
    assert ended == pytest.approx({"j0": done_s, "j1": done_s + 30.0 + rest_s})


SPEEDS = {"4g.40gb": 0.7, "3g.40gb": 0.6, "2g.20gb": 0.4, "1g.10gb": 0.2, "7g.80gb": 1.0}
