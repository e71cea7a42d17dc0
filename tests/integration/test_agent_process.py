"""The agent as a program: without GPUs, without a manager, with a wrong token, with bad settings."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.killing import Cluster, wait_until
from manager.wire.models import JobSpec, RequestSpec
from placement.lifecycle import ENDED, JobState
from tests.integration.shim_job import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]
WRONG = "a-wrong-token-of-some-length"
NOBODY = "http://127.0.0.1:9"


class Program:
    """One agent process with its messages."""

    def __init__(
        self, folder: Path, url: str, *more: str, token: str = WRONG, file_bytes: int | None = None
    ) -> None:
        self.folder = folder
        # Each with a name of its own: a second agent of a node is refused while the first one's lease lasts.
        name = "lone" if file_bytes is None else "cramped"
        arguments = ["--manager", url, "--node-id", name, "--data-dir", str(folder / "data"), *more]
        with (folder / "messages").open("w") as messages:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "cli", "agent", *arguments],
                env={**os.environ, "COTENANT_TOKEN": token},
                cwd=Path(__file__).parents[2],
                stdout=messages,
                stderr=messages,
                preexec_fn=None if file_bytes is None else _limit(file_bytes),  # noqa: PLW1509
            )

    def says(self, text: str) -> None:
        until(lambda: text in self.messages(), f"{text!r} is said")

    def messages(self) -> str:
        return (self.folder / "messages").read_text()

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=30)


def _limit(file_bytes: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))


def token_of(cluster: Cluster) -> str:
    return cluster.token_file.read_text().strip()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    cluster.start("manager")
    with cluster.client() as client:
        wait_until(client.healthy, 40.0, "the manager answers")
    yield cluster
    cluster.stop()


def test_a_machine_without_a_driver_is_a_node_without_gpus(cluster: Cluster, tmp_path: Path) -> None:
    program = Program(tmp_path, cluster.url, token=token_of(cluster))
    program.says("joined as lone with 0 GPUs")
    with cluster.client() as client:
        (node,) = [each for each in client.nodes() if each.node_id == "lone"]
    assert (node.state, list(node.gpus), node.simulated) == ("up", [], False)
    assert node.cpu_milli is not None
    assert node.cpu_milli >= 1000
    assert program.end() == 0


def test_a_job_whose_output_finds_no_room_fails_with_that_reason(cluster: Cluster, tmp_path: Path) -> None:
    program = Program(
        tmp_path, cluster.url, "--simulate", "1xL4-24GB", token=token_of(cluster), file_bytes=300_000
    )
    program.says("joined as cramped with 1 GPUs")
    with cluster.client() as client:
        spec = JobSpec(command=("yes",), request=RequestSpec(gpu_models=("L4",)))
        job_id = client.submit(spec).job_id
        wait_until(lambda: client.job(job_id).state in ENDED, 60.0, "the job has ended")
        job, log = client.job(job_id), client.logs(job_id)
    assert job.state is JobState.FAILED
    assert job.failure.startswith("no room for logs: File too large after 300000 bytes")
    assert log.data == b"y\n" * 150_000
    assert log.complete
    assert program.end() == 0


def test_a_wrong_token_is_said_once_and_nothing_is_given_up(cluster: Cluster, tmp_path: Path) -> None:
    program = Program(tmp_path, cluster.url, token=WRONG)
    program.says("heartbeat:")
    assert program.process.poll() is None
    assert WRONG not in program.messages()
    assert program.end() == 0


def test_without_a_manager_the_agent_waits_and_says_so_once(tmp_path: Path) -> None:
    program = Program(tmp_path, NOBODY, "--simulate", "1xA100-SXM4-80GB")
    program.says(f"no manager answers at {NOBODY}")
    assert program.end() == 0
    assert program.messages().count("no manager answers") == 1
    assert "Traceback" not in program.messages()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--simulate", "2xNOSUCH"), "NOSUCH"),
        (("--simulate", "many"), "many"),
        (("--simulate", "1xA100-SXM4-80GB", "--truth", "guess"), "guess"),
        (("--data-dir", "/dev/null/x"), "/dev/null/x"),
    ],
)
def test_settings_that_cannot_work_end_it_with_one_line(
    tmp_path: Path, more: tuple[str, ...], message: str
) -> None:
    program = Program(tmp_path, NOBODY, *more)
    assert program.process.wait(timeout=40) == 2
    *_, line = program.messages().splitlines()
    assert message in line
    assert "Traceback" not in program.messages()
