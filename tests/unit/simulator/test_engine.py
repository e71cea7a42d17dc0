"""The simulated world: exact times, gangs, preemption, jobs that never end, equal runs equal to the byte."""

import json

import pytest

from placement.interference import NoInterference
from placement.lifecycle import JobState
from placement.model import JobSubmitted, Mode, Request
from placement.trace import TraceRow
from simulator import engine
from simulator.cluster_spec import load_cluster
from simulator.engine import SimulationOptions, SimulationResult, simulate

EXCLUSIVE = frozenset({Mode.EXCLUSIVE})


def row(job_id: str, submit_s: float, duration_s: float | None, gpus: int = 1, **fields) -> TraceRow:
    request = fields.pop("request", Request(gpus=gpus, modes=EXCLUSIVE))
    return TraceRow(job_id, submit_s, request, duration_s, **fields)


def run(rows, cluster="1x4xV100-SXM2-32GB", policy="fifo", **fields) -> SimulationResult:
    options = SimulationOptions(policy, truth=NoInterference(), belief=NoInterference(), **fields)
    return simulate(rows, load_cluster(cluster), options)


def spans(result: SimulationResult) -> dict[str, tuple[float | None, float | None]]:
    return {outcome.job_id: (outcome.first_placed_s, outcome.ended_s) for outcome in result.outcomes}


SCHEDULES = {
    "strict fifo: nobody overtakes the wide job": (
        "fifo",
        [row("a", 0, 10, 2), row("wide", 1, 5, 4), row("c", 2, 1, 1)],
        {"a": (0, 10), "wide": (10, 15), "c": (15, 16)},
    ),
    "skip-ahead: the narrow job overtakes": (
        "backfill",
        [row("a", 0, 10, 2), row("wide", 1, 5, 4), row("c", 2, 1, 1)],
        {"a": (0, 10), "wide": (10, 15), "c": (2, 3)},
    ),
    "a completion and an arrival of the same time are seen together": (
        "fifo",
        [row("a", 0, 10, 4), row("b", 10, 3, 4)],
        {"a": (0, 10), "b": (10, 13)},
    ),
    "a job of no length": (
        "fifo",
        [row("a", 5, 0, 1), row("b", 5, 2, 4)],
        {"a": (5, 5), "b": (5, 7)},
    ),
    "the shorter job preempts, and the longer goes on where it stopped": (
        "srtf",
        [row("long", 0, 100, 4), row("short", 30, 10, 4)],
        {"long": (0, 110), "short": (30, 40)},
    ),
    "a job that never ends holds its GPUs": (
        "fifo",
        [row("forever", 0, None, 4), row("b", 1, 1, 1)],
        {"forever": (0, None), "b": (None, None)},
    ),
    "a gang larger than the cluster is rejected at once": (
        "fifo",
        [row("a", 3, 1, 4, workers=2), row("b", 4, 1, 4)],
        {"a": (None, 3), "b": (4, 5)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SCHEDULES)
def test_schedules_on_one_node_of_four_gpus(case):
    policy, rows, expected = SCHEDULES[case]
    assert spans(run(rows, policy=policy)) == expected


def test_who_is_placed_and_put_back_in_one_moment_does_no_work_meanwhile():
    rows = [row("guest", 0, 10, 1, tenant="a"), row("owner", 0, 100, 4, tenant="b")]
    result = run(rows, policy="hived:b=1x4xV100-SXM2-32GB")
    assert spans(result) == {"guest": (0, 110), "owner": (0, 100)}
    guest = result.outcomes[0]
    assert (guest.preemptions, guest.held_s, guest.served_s) == (1, 10, 10)
    assert result.metrics.gpu_utilisation_ratio == result.metrics.gpu_allocation_ratio == 410 / 440


def test_without_queueing_mean_completion_time_is_mean_duration_exactly():
    durations = [7, 11, 3600, 86_400, 1, 99_999]
    rows = [row(f"j{n}", 1_000_003 * n, duration, 1 + n % 4) for n, duration in enumerate(durations)]
    metrics = run(rows).metrics
    assert metrics.avg_jct_s == sum(durations) / len(durations)
    assert (metrics.avg_wait_s, metrics.p99_wait_s) == (0, 0)
    assert (metrics.mean_slowdown, metrics.p99_slowdown) == (1, 1)


def test_times_that_binary_fractions_cannot_hold_never_go_backwards():
    rows = [row(f"j{n}", n * 0.1, 0.3) for n in range(50)]
    outcomes = run(rows, "16x1xT4-16GB").outcomes
    assert all(o.first_placed_s == o.submit_s for o in outcomes)
    assert [o.ended_s for o in outcomes] == [n * 0.1 + 0.3 for n in range(50)]


def test_allocation_counts_what_is_held_and_utilisation_what_is_served():
    metrics = run([row("a", 0, 10, 2), row("b", 0, 20, 1)]).metrics
    assert metrics.makespan_s == 20
    assert metrics.gpu_allocation_ratio == (2 * 10 + 20) / (4 * 20)
    assert metrics.gpu_utilisation_ratio == metrics.gpu_allocation_ratio


def test_what_still_runs_at_the_end_is_held_and_served_until_then():
    result = run([row("forever", 10, None, 2), row("last", 20, 80, 1)])
    forever = result.outcomes[0]
    assert (forever.state, forever.held_s, forever.served_s) == (JobState.RUNNING, 90, 90)
    assert result.metrics.gpu_allocation_ratio == (2 * 90 + 80) / (4 * 90)


def test_a_preempted_job_is_served_its_work_once_and_held_only_while_placed():
    result = run([row("long", 0, 100, 4), row("short", 30, 10, 4)], policy="srtf")
    long = result.outcomes[0]
    assert (long.preemptions, long.held_s, long.served_s, long.slowdown) == (1, 100, 100, 1)
    assert result.metrics.preemptions == 1


def test_a_gang_starts_whole_on_several_nodes():
    result = run([row("g", 0, 10, 4, workers=3), row("x", 0, 5, 1)], "3x4xT4-16GB", keep_decision_log=True)
    starts = [line for line in result.decision_log if " start g " in line]
    assert len(starts) == 3
    assert len({line.split(" on ")[1].split()[0] for line in starts}) == 3
    assert spans(result) == {"g": (0, 10), "x": (10, 15)}


def test_immediate_jobs_are_placed_or_rejected_never_queued():
    rows = [row(f"p{n}", n, None, 2, immediate=True) for n in range(3)]
    assert [o.state for o in run(rows).outcomes] == [JobState.RUNNING, JobState.RUNNING, JobState.REJECTED]


def test_lengths_by_gpu_model_follow_the_place_and_its_family():
    lengths = {"v100": 10.0, "k80": 80.0}
    rows = [
        row(
            "fast", 0, 10, request=Request(gpu_models=("v100",), modes=EXCLUSIVE), duration_by_model_s=lengths
        ),
        row(
            "slow", 0, 10, request=Request(gpu_models=("k80",), modes=EXCLUSIVE), duration_by_model_s=lengths
        ),
        row("none", 4, None, duration_by_model_s={}),
        row(
            "p100",
            5,
            1,
            request=Request(gpu_models=("p100",), modes=EXCLUSIVE),
            duration_by_model_s={"p100": 1.0},
        ),
    ]
    result = run(rows, "1x1xV100-SXM2-32GB+1x1xK80-12GB")
    assert spans(result) == {"fast": (0, 10), "slow": (0, 80), "none": (None, 4), "p100": (None, 5)}
    assert result.metrics.jobs_rejected == 2


def test_a_gang_over_two_gpu_models_runs_at_the_pace_of_the_slower():
    pair = row("pair", 0, 10, workers=2, duration_by_model_s={"v100": 10.0, "k80": 80.0})
    assert spans(run([pair], "1x1xv100+1x1xk80")) == {"pair": (0, 80)}


@pytest.mark.parametrize("known", [False, True])
def test_the_policy_knows_durations_only_when_told(known):
    seen = []
    original = engine.Scheduler.step

    def step(self, events, now_s):
        seen.extend(event.job.duration_s for event in events if isinstance(event, JobSubmitted))
        return original(self, events, now_s)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine.Scheduler, "step", step)
        run([row("a", 0, 9)], known_durations=known)
    assert seen == [9 if known else None]


@pytest.mark.parametrize(
    "policy", ["fifo", "backfill", "srtf", "best-fit", "spread", "random", "srtf+spread"]
)
def test_equal_inputs_give_equal_bytes_and_nothing_is_lost(policy):
    rows = [row(f"j{n}", 3 * n, 1 + n * 37 % 101, 1 + n % 3, workers=1 + n % 2) for n in range(120)]

    def document() -> str:
        result = run(rows, "3x4xT4-16GB", policy, seed=3, keep_decision_log=True)
        figures = result.metrics.to_dict()
        for name in ("load_s", "wall_s", "decisions_per_s"):
            del figures[name]
        return json.dumps([figures, result.decision_log, [repr(o) for o in result.outcomes]])

    first = document()
    assert document() == first
    assert json.loads(first)[0]["jobs_completed"] == 120


def test_the_seed_matters_to_random_placement_alone():
    rows = [row(f"j{n}", n, 10) for n in range(8)]
    logs = [
        run(rows, "8x2xT4-16GB", "random", seed=seed, keep_decision_log=True).decision_log for seed in (1, 2)
    ]
    assert logs[0] != logs[1]


@pytest.mark.parametrize("policy", ["fifo", "backfill", "srtf", "best-fit", "spread", "random"])
def test_compiled_and_plain_kernels_decide_alike(policy):
    rows = [row(f"j{n}", 3 * n, 1 + n * 37 % 101, 1 + n % 3, workers=1 + n % 2) for n in range(80)]
    logs = [
        run(rows, "5x4xT4-16GB", policy, keep_decision_log=True, compiled=compiled).decision_log
        for compiled in (True, False)
    ]
    assert logs[0] == logs[1]


def test_progress_is_told_as_jobs_end():
    told = []
    run([row(f"j{n}", n, 1) for n in range(5)], progress=lambda done, total: told.append((done, total)))
    assert told == [(n, 5) for n in range(1, 6)]


def test_an_empty_trace_is_a_run_without_figures():
    metrics = run([]).metrics
    assert (metrics.jobs_total, metrics.avg_jct_s, metrics.makespan_s) == (0, None, None)
