"""The simulator tells gandiva how fast jobs run, and bad pairs are really parted."""

from __future__ import annotations

import pytest

from placement.interference import AdditiveInterference
from placement.model import InvalidSpec, Mode, Profile, Request, node_from_short_form
from placement.trace import TraceRow
from simulator.cluster_spec import ClusterSpec
from simulator.engine import SimulationOptions, SimulationResult, simulate

PROFILES = (Profile("light", sm_milli=200, dram_milli=100), Profile("heavy", sm_milli=900, dram_milli=900))
SHARE = Request(compute_milli=300, modes=frozenset({Mode.MPS}))


def run(policy: str, *profiles: str, model: str = "V100-SXM2-32GB") -> SimulationResult:
    """Jobs of 1000 s alone, one a second, on one GPU."""
    rows = [TraceRow(f"{name}-{i}", float(i), SHARE, 1000.0, profile=name) for i, name in enumerate(profiles)]
    cluster = ClusterSpec("one GPU", (node_from_short_form(f"1x{model}", "n-0"),))
    truth = AdditiveInterference()
    options = SimulationOptions(policy, truth, truth, profiles=PROFILES, compiled=False)
    return simulate(rows, cluster, options)


@pytest.mark.parametrize(
    ("profiles", "preemptions", "placed_s"),
    [
        (("heavy", "light"), [0, 0], [0, 1]),  # the pair does well and stays
        (("heavy", "heavy"), [0, 1], [0, 1]),  # it does less than one alone: the second leaves after a minute
        (("heavy", "heavy", "light"), [0, 1, 0], [0, 1, 61]),  # and another takes its place
    ],
)
def test_pairs_that_do_too_little_are_parted_after_a_minute(profiles, preemptions, placed_s):
    outcomes = run("gandiva", *profiles).outcomes
    assert [outcome.preemptions for outcome in outcomes] == preemptions
    assert [outcome.first_placed_s for outcome in outcomes] == placed_s
    assert all(outcome.ended_s for outcome in outcomes)


def test_policies_without_trials_are_told_nothing():
    assert (
        run("best-fit", "heavy", "heavy").metrics.events == run("best-fit", "light", "light").metrics.events
    )


def test_a_cluster_that_cannot_hold_the_cells_is_refused_before_anything_happens():
    with pytest.raises(InvalidSpec, match="this cluster has none"):
        run("hived:red=1x1xT4-16GB", "light")
