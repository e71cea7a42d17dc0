"""Which agent speaks for a node, and for which database: with a real manager."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.killing import _AGENT, NODES, Cluster, wait_until
from manager.wire.models import JobSpec
from placement.lifecycle import ENDED, JobState

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path / "cluster")
    cluster.root.mkdir()
    try:
        cluster.start("manager")
        yield cluster
    finally:
        cluster.stop()


def agent(cluster: Cluster, data_name: str, node: int = 0) -> Path:
    """Start an agent of a node with a data folder of that name; returns where it logs."""
    log = cluster.root / f"{data_name}.log"
    arguments = [
        cluster.url,
        str(cluster.token_file),
        f"node-{node}",
        str(cluster.root / data_name),
        NODES[node],
    ]
    with log.open("ab") as errors:
        cluster.processes[data_name] = subprocess.Popen(
            [sys.executable, "-c", _AGENT, *arguments],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
        )
    return log


def shell(script: str, **fields: object) -> JobSpec:
    return JobSpec.model_validate({"command": ["sh", "-c", script], **fields})


def state_of(cluster: Cluster, job_id: str) -> JobState:
    with cluster.client() as client:
        wait_until(lambda: client.job(job_id).state in ENDED, 60.0, f"{job_id} has ended")
        return client.job(job_id).state


def run(cluster: Cluster, script: str) -> JobState:
    with cluster.client() as client:
        wait_until(lambda: bool(client.info()), 40.0, "the manager answers")  # it may just have been started
        job_id = client.submit(shell(script)).job_id
    return state_of(cluster, job_id)


def test_of_two_agents_of_one_node_the_second_is_refused_and_jobs_run_once(
    cluster: Cluster, tmp_path: Path
) -> None:
    first = agent(cluster, "first")
    wait_until(lambda: "joined as node-0" in first.read_text(), 40.0, "the first has joined")
    second = agent(cluster, "second")
    wait_until(lambda: "another agent is running" in second.read_text(), 40.0, "the second is refused")
    runs = tmp_path / "runs"
    for _ in range(4):
        assert run(cluster, f"echo run >> {runs}") is JobState.SUCCEEDED
    assert runs.read_text() == "run\n" * 4
    assert "joined" not in second.read_text()
    assert second.read_text().count("another agent is running") == 1
    assert list((cluster.root / "second" / "done").iterdir()) == []


def new_database(cluster: Cluster) -> None:
    """Have the manager lose its database, but not its token."""
    token = cluster.token_file.read_text()
    cluster.kill("manager")
    (cluster.root / "manager").rename(cluster.root / "former")
    (cluster.root / "manager").mkdir(mode=0o700)
    (cluster.root / "manager" / "token").touch(mode=0o600)
    (cluster.root / "manager" / "token").write_text(token)
    cluster.start("manager")


def test_jobs_of_a_new_database_are_not_taken_for_those_of_the_former(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.kill("manager")
    cluster.start("manager")  # so that the former epoch is the higher one
    runs, go = tmp_path / "runs", tmp_path / "go"
    log = agent(cluster, "agent")
    assert run(cluster, f"echo former >> {runs}") is JobState.SUCCEEDED
    with cluster.client() as client:
        client.submit(shell(f"echo begun >> {runs}; while [ ! -e {go} ]; do sleep 0.05; done"))
    wait_until(lambda: "begun" in runs.read_text(), 40.0, "a job runs")
    new_database(cluster)
    wait_until(lambda: "belongs to database" in log.read_text(), 40.0, "it is refused while its job runs")
    assert "are now in" not in log.read_text()
    go.touch()
    assert run(cluster, f"echo new-1 >> {runs}") is JobState.SUCCEEDED
    assert run(cluster, f"echo new-2 >> {runs}") is JobState.SUCCEEDED
    assert runs.read_text().split() == ["former", "begun", "new-1", "new-2"]
    (old,) = (cluster.root / "agent").glob("old-*")
    assert {path.name for path in (old / "done").iterdir()} | {
        path.name for path in (old / "attempts").iterdir()
    } == {"job-1.1.0", "job-2.1.0"}
