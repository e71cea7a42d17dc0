"""The runner shim as a real process: exits, signals, stops, output, pace, crashes."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent import attempt, leftovers
from agent.attempt import EndCause, StopRequest
from placement.model import OperationFailed
from tests.integration.shim_job import DEAF, TRAP, Job, until

pytestmark = pytest.mark.integration


@pytest.mark.parametrize(
    ("script", "cause", "code", "output"),
    [
        ("echo hello", EndCause.EXITED, 0, "hello\n"),
        ("echo out; echo err >&2; exit 7", EndCause.EXITED, 7, "out\nerr\n"),
        ("kill -SEGV $$", EndCause.EXITED, -signal.SIGSEGV, ""),
        ("kill -KILL $$", EndCause.EXITED, -signal.SIGKILL, ""),
        ("printf 'no newline'", EndCause.EXITED, 0, "no newline"),
        ("cat", EndCause.EXITED, 0, ""),  # nothing on standard input, for ever
        ("seq 1 200000", EndCause.EXITED, 0, "".join(f"{i}\n" for i in range(1, 200001))),
    ],
)
def test_end_and_output_are_those_of_the_program(
    job: Job, script: str, cause: EndCause, code: int, output: str
) -> None:
    end = job.shell(script).start().end()
    assert (end.cause, end.exit_code, end.message) == (cause, code, "")
    assert job.output() == output
    assert end.log_bytes == len(output)
    assert end.served_s is None


@pytest.mark.parametrize(
    ("command", "workdir", "message"),
    [
        (("no-such-program",), None, "cannot start: no such command: no-such-program"),
        (("/no/such/program", "x"), None, "cannot start: no such command: /no/such/program"),
        (("/etc/passwd",), None, "cannot start: not allowed to execute: /etc/passwd"),
        (
            ("true",),
            "/no/such/folder",
            "cannot start: working directory /no/such/folder: No such file or directory",
        ),
    ],
)
def test_what_cannot_start_says_why(
    job: Job, command: tuple[str, ...], workdir: str | None, message: str
) -> None:
    end = job.order(*command, workdir=workdir).start().end()
    assert (end.cause, end.exit_code, end.message) == (EndCause.LAUNCH_FAILED, None, message)
    assert attempt.read_started(job.folder) is None


def test_a_program_that_heeds_the_request_ends_in_its_grace_time(job: Job) -> None:
    end = job.shell(TRAP).start().says("ready").stop().end()
    assert (end.cause, end.exit_code, end.message) == (EndCause.STOPPED, 5, "cancelled")
    assert job.output().endswith("asked\n")


def test_a_program_that_does_not_heed_it_is_killed_after_its_grace_time(job: Job) -> None:
    end = job.shell(DEAF).start().says("ready").stop(grace_s=0.3).end()
    assert (end.cause, end.exit_code) == (EndCause.STOPPED, -signal.SIGKILL)
    until(lambda: not job.processes(), "no process is left")


def test_a_paced_program_is_let_go_on_before_it_is_asked_to_end(job: Job) -> None:
    attempt.write_speed(job.folder, 0.01)  # stopped nearly all the time
    end = job.shell(TRAP).start().says("ready").stop().end()
    assert (end.cause, end.exit_code) == (EndCause.STOPPED, 5)


def test_a_second_stop_with_less_patience_is_heeded(job: Job) -> None:
    job.shell(DEAF).start().says("ready").stop(1000.0)
    end = job.stop(0.0).end()
    assert (end.cause, end.exit_code) == (EndCause.STOPPED, -signal.SIGKILL)


def test_a_stop_before_the_start_starts_nothing(job: Job) -> None:
    job.shell("echo ran")
    attempt.request_stop(job.folder, StopRequest(5.0, "preempted"))
    end = job.start().end()
    assert (end.cause, end.exit_code, end.message) == (EndCause.STOPPED, None, "preempted")
    assert job.output() == ""


def test_a_torn_stop_request_stops_all_the_same(job: Job) -> None:
    job.shell(TRAP).start().says("ready")
    (job.folder / attempt.STOP).write_text('{"grace_')
    assert job.end().cause is EndCause.STOPPED


def test_a_pipe_in_the_place_of_the_pace_does_not_hold_up_the_shim(job: Job) -> None:
    job.shell(f"mkfifo {job.folder}/{attempt.SPEED}; {DEAF}").start().says("ready")
    assert job.stop(0.0).end().cause is EndCause.STOPPED


def test_a_grandchild_that_keeps_the_output_open_is_killed_with_the_job(job: Job) -> None:
    script = "sleep 1000 & setsid sleep 1000 & echo done; exit 3"
    end = job.shell(script).start().end()
    assert (end.cause, end.exit_code) == (EndCause.EXITED, 3)
    assert job.output() == "done\n"
    until(lambda: not job.processes(), "no process is left")


ESCAPES = {
    "another session": "setsid -f sleep 1000",
    "without the environment": "env -i setsid -f sleep 1000",
    "an orphan's orphan": "env -i setsid -f sh -c 'setsid -f sleep 1000; sleep 1000'",
    "stopped": "env -i setsid -f sh -c 'kill -STOP $$'",
    "deaf": "env -i setsid -f sh -c \"trap '' TERM HUP INT; while :; do sleep 0.1; done\"",
}


@pytest.mark.parametrize("told", [False, True], ids=["by itself", "when told"])
@pytest.mark.parametrize("escape", ESCAPES.values(), ids=ESCAPES.keys())
def test_nothing_that_a_job_started_outlives_it(job: Job, escape: str, told: bool) -> None:
    go = job.folder.parent / "go"
    waiting = "exec sleep 1000" if told else f"while ! [ -e {go} ]; do sleep 0.02; done; exit 3"
    job.shell(f"{escape}; {escape}; echo ready; {waiting}").start().says("ready")
    shim = job.shim()
    until(lambda: len(leftovers.descendants(shim)) >= 3, "the job and those that escaped are there")
    there = leftovers.descendants(shim)
    if told:
        job.stop(0.0)
    else:
        go.touch()
    assert job.end().cause is (EndCause.STOPPED if told else EndCause.EXITED)
    assert [pid for pid in there if Path(f"/proc/{pid}").exists()] == []


def test_two_shims_run_a_job_once(job: Job) -> None:
    marker = job.folder.parent / "runs"
    job.shell(f"echo run >> {marker}; sleep 0.3")
    for _ in range(3):
        job.start()
    job.end()
    job.start()
    assert marker.read_text() == "run\n"


def test_a_killed_shim_takes_the_job_with_it_and_the_next_one_says_so(job: Job) -> None:
    marker = job.folder.parent / "runs"
    job.shell(f"echo run >> {marker}; (setsid sleep 1000 &); echo ready; exec sleep 1000").start().says(
        "ready"
    )
    pid = job.pid()
    os.kill(job.shim(), signal.SIGKILL)
    # Nobody fences a job without its shim: it must end although no agent looks.
    until(lambda: pid not in job.processes(), "the job's process is gone")
    until(lambda: not attempt.has_shim(job.folder), "the shim is gone")
    job.start()
    end = job.end()
    assert (end.cause, end.exit_code) == (EndCause.EXITED, -signal.SIGKILL)
    assert end.message == "the runner of this job was killed"
    assert marker.read_text() == "run\n"
    until(lambda: not job.processes(), "no process is left")


def test_a_job_whose_machine_went_down_is_lost(job: Job) -> None:
    job.shell("echo ready; exec sleep 1000").start().says("ready")
    (job.folder / attempt.STARTING).write_text("another-boot")
    os.kill(job.shim(), signal.SIGKILL)
    until(lambda: not attempt.has_shim(job.folder), "the shim is gone")
    end = job.start().end()
    assert (end.cause, end.exit_code) == (EndCause.LOST, None)


def test_a_shim_that_died_before_the_job_was_started_is_simply_followed(job: Job) -> None:
    job.shell("echo ran")
    (job.folder / attempt.LOCK).touch()
    (job.folder / attempt.RESERVE).write_bytes(b"\0" * 100)
    (job.folder / attempt.OUTPUT).touch()
    end = job.start().end()
    assert (end.cause, end.exit_code, job.output()) == (EndCause.EXITED, 0, "ran\n")


@pytest.mark.parametrize("torn", ["", "{", "[]", '{"job_id": "x"}', "\0\0\0"])
def test_a_torn_order_is_a_failure_to_start(job: Job, torn: str) -> None:
    (job.folder / attempt.ORDER).write_text(torn)
    end = job.start().end()
    assert end.cause is EndCause.LAUNCH_FAILED
    assert end.message.startswith("cannot start: order.json")


def test_a_shim_told_to_end_asks_the_job_to_end_and_says_lost(job: Job) -> None:
    job.shell(TRAP).start().says("ready")
    os.kill(job.shim(), signal.SIGTERM)
    end = job.end()
    assert (end.cause, end.exit_code) == (EndCause.LOST, 5)
    assert "shutting down" in end.message


def test_the_shim_is_in_a_session_of_its_own_and_ignores_a_hangup(job: Job) -> None:
    job.shell(TRAP).start().says("ready")
    shim = job.shim()
    assert os.getsid(shim) != os.getsid(0)
    assert os.getpgid(job.pid()) == job.pid()
    os.kill(shim, signal.SIGHUP)
    os.kill(shim, signal.SIGINT)
    assert job.stop().end().cause is EndCause.STOPPED


def test_the_job_gets_default_signals_and_its_own_environment_alone(job: Job) -> None:
    program = (
        "import os, signal; print(sorted(os.environ));"
        "print([s.name for s in signal.Signals if s not in (signal.SIGKILL, signal.SIGSTOP)"
        " and signal.getsignal(s) not in (signal.SIG_DFL, signal.default_int_handler)])"
    )
    job.order(sys.executable, "-I", "-c", program).start().end()
    names, handlers = job.output().splitlines()
    assert set(json.loads(names.replace("'", '"'))) <= {"COTENANT_PROGRESS", "LC_CTYPE", "PATH", "PYTHONPATH"}
    # Python itself ignores these two.
    assert handlers == "['SIGPIPE', 'SIGXFSZ']"


# Room


def test_a_disk_that_fills_up_ends_the_job_with_a_reason(job: Job) -> None:
    limit = 200_000
    script = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))"
    _launch_with(job.shell("yes; echo never"), script)
    end = job.end()
    assert end.cause is EndCause.EXITED
    assert end.exit_code is None
    assert end.message.startswith(f"no room for logs: File too large after {limit} bytes")
    assert (job.folder / attempt.OUTPUT).stat().st_size == limit


def test_without_any_room_the_shim_does_not_begin(job: Job) -> None:
    job.shell("echo ran")
    with pytest.raises(OperationFailed, match="no room for logs: File too large"):
        _launch_with(job, "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))")
    assert not (job.folder / attempt.STARTING).exists()


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("no tmpfs can be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_really_full_disk_still_takes_the_last_word(tiny_disk: Path, tmp_path: Path) -> None:
    folder = tiny_disk / "attempt"
    folder.mkdir()
    end = Job(folder, tmp_path / "lease").shell("yes").start().end()
    assert end.message.startswith("no room for logs: No space left on device")


def _launch_with(job: Job, preamble: str) -> None:
    """Launch from an interpreter that limits itself (and so the shim) first."""
    imports = "import sys\nfrom pathlib import Path\nfrom agent.launch import launch"
    code = f"{imports}\n{preamble}\nlaunch(Path(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", code, str(job.folder)],
        cwd=Path(__file__).parents[2],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise OperationFailed(done.stderr.strip().splitlines()[-1])


def test_the_lock_is_not_inherited_by_the_job(job: Job) -> None:
    job.shell(DEAF).start().says("ready")
    held = os.open(job.folder / attempt.LOCK, os.O_RDWR)
    try:
        with pytest.raises(BlockingIOError):
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(held)
    targets = [os.readlink(path) for path in Path(f"/proc/{job.pid()}/fd").iterdir()]
    assert str(job.folder / attempt.LOCK) not in targets
