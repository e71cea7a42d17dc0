"""A real agent process under a real manager process: the ways a job can go."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent import attempt
from bench.killing import Cluster, wait_until
from manager.wire.client import Client
from manager.wire.models import JobSpec, JobView, ProfileSpec, RequestSpec
from placement.lifecycle import ENDED, JobState
from placement.model import Mode

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

STEPS = """
import sys, time
sys.path.insert(0, sys.argv[2])
from cotenant.progress import report_progress
for step in range(1, int(sys.argv[1]) + 1):
    time.sleep(0.01)
    report_progress(step)
"""
ROOT = str(Path(__file__).parents[2])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    cluster.start_all()
    yield cluster
    cluster.stop()


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Client]:
    with cluster.client() as client:
        yield client


def shell(script: str, **fields: object) -> JobSpec:
    return job("sh", "-c", script, **fields)


def job(*command: str, **fields: object) -> JobSpec:
    return JobSpec.model_validate({"command": list(command), **fields})


def in_state(client: Client, job_id: str, *states: JobState) -> JobView:
    wait_until(lambda: client.job(job_id).state in states, 60.0, f"{job_id} is {states}")
    return client.job(job_id)


def ended(client: Client, spec: JobSpec) -> JobView:
    return in_state(client, client.submit(spec).job_id, *ENDED)


def output(client: Client, job_id: str, worker: int = 0) -> str:
    text, offset = b"", 0
    while True:
        chunk = client.logs(job_id, worker, offset=offset)
        text += chunk.data
        if chunk.next_offset == offset:
            assert chunk.complete
            return text.decode()
        offset = chunk.next_offset


def running(client: Client, spec: JobSpec, says: str) -> str:
    """Submit a job and wait until it has printed something."""
    job_id = client.submit(spec).job_id
    wait_until(lambda: says.encode() in client.logs(job_id).data, 60.0, f"{job_id} says {says}")
    return job_id


@pytest.mark.parametrize(
    ("command", "workdir", "failure"),
    [
        ("no-such-program --now", None, "cannot start: no such command: no-such-program"),
        ("true", "/no/such", "cannot start: working directory /no/such: No such file or directory"),
    ],
)
def test_what_cannot_start_fails_with_the_reason(
    client: Client, command: str, workdir: str | None, failure: str
) -> None:
    view = ended(client, job(*shlex.split(command), workdir=workdir))
    assert view.state is JobState.FAILED
    assert failure in view.failure


@pytest.mark.parametrize(
    ("script", "state", "code"),
    [("exit 0", JobState.SUCCEEDED, 0), ("exit 9", JobState.FAILED, 9), ("kill -9 $$", JobState.FAILED, -9)],
)
def test_the_exit_status_comes_through(client: Client, script: str, state: JobState, code: int) -> None:
    view = ended(client, shell(script))
    assert (view.state, view.exit_code) == (state, code)


def test_a_long_output_arrives_whole_and_in_order(client: Client) -> None:
    view = ended(client, shell("seq 1 300000"))
    assert output(client, view.job_id) == "".join(f"{n}\n" for n in range(1, 300_001))


@pytest.mark.parametrize(
    ("mode", "compute_milli", "visible", "percentage"),
    [
        (Mode.EXCLUSIVE, None, "GPU-", ""),
        (Mode.TIMESLICE, 300, "GPU-", ""),
        (Mode.MPS, 300, "GPU-", "30"),
        (Mode.MIG, None, "MIG-", ""),
    ],
)
def test_a_job_sees_its_share(
    client: Client, mode: Mode, compute_milli: int | None, visible: str, percentage: str
) -> None:
    request = RequestSpec(memory_bytes=5 << 30, modes=[mode], compute_milli=compute_milli)
    script = "echo $CUDA_VISIBLE_DEVICES $CUDA_MPS_ACTIVE_THREAD_PERCENTAGE; env | grep -c TOKEN"
    lines = output(client, ended(client, shell(script, request=request)).job_id).splitlines()
    assert lines[0].startswith(visible)
    assert lines[0].partition(" ")[2] == percentage
    assert lines[1] == "0"


def test_a_gang_gets_its_ranks(client: Client) -> None:
    view = ended(client, shell("echo $RANK of $WORLD_SIZE", workers=3))
    assert [output(client, view.job_id, worker) for worker in range(3)] == [f"{w} of 3\n" for w in range(3)]


def test_a_cancelled_job_may_tidy_up(client: Client) -> None:
    script = "trap 'echo tidied; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    job_id = running(client, shell(script, grace_s=20.0), "ready")
    client.cancel(job_id)
    assert in_state(client, job_id, *ENDED).state is JobState.CANCELLED
    assert "tidied" in output(client, job_id)


def test_neighbours_are_really_slowed_down(client: Client) -> None:
    # The solo rate that sleeping programs reach here and now is the yardstick.
    def spec(profile: str | None, steps: int) -> JobSpec:
        request = RequestSpec(
            memory_bytes=5 << 30, modes=[Mode.TIMESLICE], compute_milli=500, gpu_models=["H100-SXM5-80GB"]
        )
        return job(
            sys.executable,
            "-I",
            "-c",
            STEPS,
            str(steps),
            ROOT,
            profile=profile,
            request=request,
            tenant="red",
        )

    solo = ended(client, spec(None, 150)).steps_per_s
    assert solo is not None
    client.put_profile(ProfileSpec(name="pressing", steps_per_s={"*": solo}, sm_milli=800, dram_milli=100))
    # Three on two GPUs: two of them share one.
    ids = [client.submit(spec("pressing", 400)).job_id for _ in range(3)]
    views = [in_state(client, job_id, *ENDED) for job_id in ids]
    assert {view.state for view in views} == {JobState.SUCCEEDED}
    slowed = [view.observed_slowdown for view in views if view.neighbours]
    assert len(slowed) >= 2
    for observed in slowed:
        assert observed is not None
        # 1 + 1.12 * 0.8 while they share; not all of the time.
        assert 1.2 < observed < 2.2


def test_jobs_outlive_an_agent_that_is_told_to_end(cluster: Cluster, client: Client) -> None:
    script = "echo ready; sleep 2; echo done; exit 4"
    request = RequestSpec(gpu_models=["A100-SXM4-80GB"])
    job_id = running(client, shell(script, request=request), "ready")
    agent = cluster.processes["node-0"]
    agent.send_signal(signal.SIGTERM)
    assert agent.wait(timeout=20) == 0
    cluster.start("node-0")
    view = in_state(client, job_id, *ENDED)
    assert (view.state, view.exit_code, view.attempt) == (JobState.FAILED, 4, 1)
    assert output(client, job_id) == "ready\ndone\n"


def test_a_job_that_kills_its_runner_has_failed_and_is_not_run_again(client: Client, tmp_path: Path) -> None:
    view = ended(client, shell(f"echo run >> {tmp_path}/runs; kill -9 $PPID; sleep 1000", retries=1))
    assert (view.state, view.exit_code, view.attempt) == (JobState.FAILED, -9, 2)
    assert "the runner of this job was killed" in view.failure
    assert (tmp_path / "runs").read_text() == "run\nrun\n"


def test_a_killed_runner_ends_the_attempt_and_the_job_is_retried(
    cluster: Cluster, client: Client, tmp_path: Path
) -> None:
    script = f"echo run >> {tmp_path}/runs; echo ready; test $COTENANT_ATTEMPT = 2 || exec sleep 1000"
    job_id = running(client, shell(script, retries=1), "ready")
    (folder,) = cluster.root.glob(f"node-*/attempts/{job_id}.1.0")
    started = attempt.read_started(folder)
    assert started is not None
    os.kill(int(Path(f"/proc/{started.pid}/stat").read_text().rpartition(")")[2].split()[1]), signal.SIGKILL)
    view = in_state(client, job_id, *ENDED)
    assert (view.state, view.exit_code, view.attempt) == (JobState.SUCCEEDED, 0, 2)
    assert (tmp_path / "runs").read_text() == "run\nrun\n"


def test_two_agents_cannot_use_one_folder(cluster: Cluster) -> None:
    first = cluster.processes["node-1"]
    cluster.start("node-1")
    assert cluster.processes["node-1"].wait(timeout=40) != 0
    assert "another agent uses it" in (cluster.root / "node-1.err").read_text()
    assert first.poll() is None
    cluster.processes["node-1"] = first


def test_a_node_cut_off_for_long_ends_its_jobs_before_they_run_elsewhere(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path / "cluster", lease_s=2.0, fence_s=3.0)
    cluster.start_all()
    script = f"echo begun >> {tmp_path}/marks; sleep 5; echo ended >> {tmp_path}/marks"
    request = RequestSpec(gpus=1)
    try:
        with cluster.client() as client:
            job_id = client.submit(shell(script, request=request)).job_id
            wait_until((tmp_path / "marks").exists, 30.0, "the job has begun")
            (node,) = {each.node_id for each in client.job(job_id).assignments}
            cluster.kill(node)  # its shim is left alone with the fence
            view = in_state(client, job_id, *ENDED)
        assert (view.state, view.attempt) == (JobState.SUCCEEDED, 2)
        assert (tmp_path / "marks").read_text() == "begun\nbegun\nended\n"
    finally:
        cluster.stop()
