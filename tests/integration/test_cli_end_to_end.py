"""The command line against a real manager and a real agent, as a user meets them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli.sweep import end_processes_of, processes_of
from manager.wire.client import Client
from tests.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

DEADLINE_S = 60.0
PYTHON = sys.executable


@dataclass(frozen=True)
class Cotenant:
    """One user's command line, with settings of its own."""

    environment: dict[str, str]
    home: Path

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [PYTHON, "-m", "cli", *words],
            capture_output=True,
            text=True,
            env=self.environment,
            cwd=self.home,
            timeout=DEADLINE_S,
            check=False,
        )

    def reaches(self, job_id: str, state: str) -> None:
        """Wait until a job is in that state; asked in this process, which is quicker than a command."""
        endpoint = json.loads((self.home / "endpoint.json").read_text())
        token = Path(endpoint["token_file"]).read_text().strip()
        with Client(endpoint["url"], token) as client:
            until(lambda: client.job(job_id).state.value == state)

    def json(self, *words: str) -> object:
        return json.loads(self(*words, "-o", "json").stdout)

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [PYTHON, "-m", "cli", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.environment,
            cwd=self.home,
        )


def user(home: Path) -> Cotenant:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COTENANT_")}
    return Cotenant({**kept, "COTENANT_ENDPOINT_FILE": str(home / "endpoint.json")}, home)


def command_line(pid: int) -> bytes:
    """A process's arguments, each followed by a zero byte; nothing once it has gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def read_until(process: subprocess.Popen[str], word: str) -> str:
    """What a program says up to the line with that word."""
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        if word in line:
            return said
    raise AssertionError(f"it ended with {process.wait()} and said: {said}")


@pytest.fixture(scope="module")
def cotenant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cotenant]:
    """A user with a cluster of two simulated nodes, which is ended as by Ctrl-C."""
    home = tmp_path_factory.mktemp("home")
    command = user(home)
    up = command.start(
        "up", "--simulate", "2xA100-SXM4-80GB", "--simulate", "1xH100-SXM5-80GB",
        "--listen", "127.0.0.1:0", "--data-dir", str(home / "data"), "--stop-jobs",
    )  # fmt: skip
    try:
        said = read_until(up, "submit with")
        assert "node sim-0: simulated 2 x A100-SXM4-80GB" in said
        assert "node sim-1: simulated 1 x H100-SXM5-80GB" in said
        yield command
        up.send_signal(signal.SIGINT)
        assert up.wait(DEADLINE_S) == 0
        assert processes_of(home) == []
    finally:
        up.kill()
        up.wait()
        end_processes_of(home)


def test_a_job_runs_and_its_output_comes_back(cotenant):
    done = cotenant("submit", "--wait", "--", "sh", "-c", "echo hello; echo there >&2")
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == f"{done.stdout.strip()} succeeded"
    assert cotenant("logs", done.stdout.strip()).stdout == "hello\nthere\n"


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (["sh", "-c", "exit 7"], 7),
        (["sh", "-c", "kill -9 $$"], 137),
        (["no-such-command-anywhere"], 1),
    ],
)
def test_waiting_ends_with_the_status_of_the_job(cotenant, command, status):
    done = cotenant("submit", "--wait", "--", *command)
    assert done.returncode == status, done.stderr
    assert " failed" in done.stderr.splitlines()[-1]


def test_a_command_that_does_not_exist_is_named(cotenant):
    done = cotenant("submit", "--wait", "--", "no-such-command-anywhere")
    assert "no-such-command-anywhere" in done.stderr


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--gpu-model", "B200"], "other GPU model"),
        (["--memory", "200Gi"], "memory"),
        (["--workers", "50"], "larger than the cluster"),
    ],
)
def test_what_could_never_run_is_rejected_with_the_reason(cotenant, options, reason):
    for waiting in ([], ["--wait"]):
        done = cotenant("submit", *waiting, *options, "--", "true")
        assert done.returncode == 1
        (line,) = done.stderr.splitlines()
        assert line.startswith(f"{done.stdout.strip()} rejected: ")
        assert reason in line


def test_a_job_file_is_submitted(cotenant):
    (cotenant.home / "job.yaml").write_text("command: [sh, -c, 'echo $WORD']\nenv: {WORD: from-the-file}\n")
    done = cotenant("submit", "--file", "job.yaml", "--env", "WORD=from-the-option", "--wait")
    assert done.returncode == 0, done.stderr
    assert cotenant("logs", done.stdout.strip()).stdout == "from-the-option\n"
    assert "from-the-option" not in cotenant("status", done.stdout.strip(), "-o", "json").stdout


def test_a_running_job_is_shown_explained_and_cancelled(cotenant):
    job = cotenant("submit", "--name", "long", "--mode", "mps", "--compute", "30%", "--", "sleep", "600")
    job_id = job.stdout.strip()
    cotenant.reaches(job_id, "running")
    assert [j["job_id"] for j in cotenant.json("queue", "--state", "running")] == [job_id]
    holders = [(t["job_id"], t["share"]["mode"]) for gpu in cotenant.json("gpus") for t in gpu["tenancies"]]
    assert holders == [(job_id, "mps")]
    why = cotenant("why", job_id)
    assert why.returncode == 0
    assert "holding mps 30%" in why.stdout
    assert "predicted slowdown: " in why.stdout
    assert f"{job_id}" in cotenant("top").stdout
    assert cotenant("cancel", job_id).stdout == f"{job_id} is being cancelled\n"
    cotenant.reaches(job_id, "cancelled")
    assert cotenant("cancel", job_id).stdout == f"{job_id} had ended already: cancelled\n"


def test_a_waiting_job_says_why_it_waits(cotenant):
    first = cotenant(
        "submit", "--gpu-model", "H100", "--mode", "exclusive", "--", "sleep", "600"
    ).stdout.strip()
    cotenant.reaches(first, "running")
    second = cotenant("submit", "--gpu-model", "H100", "--mode", "exclusive", "--", "true").stdout.strip()
    cotenant.reaches(second, "queued")
    reasons = cotenant.json("why", second)["reasons"]
    assert reasons["GPU already in use"] == 1
    assert reasons["other GPU model"] == 2
    assert cotenant("cancel", first).returncode == 0
    cotenant.reaches(second, "succeeded")


def test_a_gang_knows_its_ranks(cotenant):
    script = "echo $RANK of $WORLD_SIZE"
    done = cotenant("submit", "--workers", "2", "--wait", "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    job_id = done.stdout.strip()
    assert cotenant("logs", job_id).stdout == "0 of 2\n"
    assert cotenant("logs", "--worker", "1", job_id).stdout == "1 of 2\n"


def test_following_the_output_of_a_running_job(cotenant):
    job_id = cotenant("submit", "--", "sh", "-c", "echo one; sleep 1; echo two").stdout.strip()
    assert cotenant("logs", "-f", job_id).stdout == "one\ntwo\n"


def test_waiting_survives_a_killed_manager(cotenant):
    """`up` starts it again where it was; the job's end and its status come through."""
    flag = cotenant.home / "go"
    waiting = cotenant.start(
        "submit", "--wait", "--", "sh", "-c", f"while [ ! -e {flag} ]; do sleep 0.05; done; exit 6"
    )
    read_until(waiting, " running on ")
    (manager,) = [pid for pid in processes_of(cotenant.home) if b"\0manager\0--listen" in command_line(pid)]
    os.kill(manager, signal.SIGKILL)
    flag.touch()
    assert waiting.wait(DEADLINE_S) == 6
    assert waiting.stdout is not None
    assert waiting.stdout.read().splitlines()[-1].endswith(" exited with status 6")


def test_nodes_are_listed(cotenant):
    assert [(node["node_id"], node["state"]) for node in cotenant.json("nodes")] == [
        ("sim-0", "up"),
        ("sim-1", "up"),
    ]


def test_a_wrong_token_is_refused(cotenant):
    endpoint = json.loads((cotenant.home / "endpoint.json").read_text())
    stranger = Cotenant({**cotenant.environment, "COTENANT_TOKEN": "x" * 43}, cotenant.home)
    done = stranger("queue", "--manager", endpoint["url"])
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert "token" in done.stderr


def test_no_manager_is_status_3(tmp_path):
    done = user(tmp_path)("queue", "--manager", "http://127.0.0.1:1")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.count("\n") == 1


def test_up_says_why_it_cannot_start(cotenant, tmp_path):
    """The address is taken by the other cluster."""
    endpoint = json.loads((cotenant.home / "endpoint.json").read_text())
    taken = endpoint["url"].removeprefix("http://")
    done = user(tmp_path)(
        "up", "--simulate", "1xA100-SXM4-80GB", "--listen", taken, "--data-dir", str(tmp_path / "d")
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert taken in done.stderr
    assert processes_of(tmp_path) == []


def test_jobs_outlive_up_and_are_taken_up_again(tmp_path):
    """Without --stop-jobs a job goes on; the next `up` on the same folder reports its end."""
    cotenant = user(tmp_path)
    words = (
        "up",
        "--simulate",
        "1xA100-SXM4-80GB",
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
        str(tmp_path / "d"),
        "--fence",
        "5m",
    )
    try:
        up = cotenant.start(*words)
        read_until(up, "submit with")
        flag = tmp_path / "go"
        script = f"echo begun; while [ ! -e {flag} ]; do sleep 0.05; done; echo ended; exit 5"
        job_id = cotenant("submit", "--", "sh", "-c", script).stdout.strip()
        cotenant.reaches(job_id, "running")
        up.send_signal(signal.SIGTERM)
        said = read_until(up, "goes on")
        assert said.startswith("1 job goes on for up to 5m00s: ")
        assert up.wait(DEADLINE_S) == 0
        assert cotenant("queue").returncode == 3
        flag.touch()
        up = cotenant.start(*words)
        read_until(up, "submit with")
        cotenant.reaches(job_id, "failed")
        assert cotenant.json("status", job_id)["exit_code"] == 5
        assert cotenant("logs", job_id).stdout == "begun\nended\n"
        up.send_signal(signal.SIGTERM)
        assert up.wait(DEADLINE_S) == 0
    finally:
        end_processes_of(tmp_path)
