"""What each command asks the manager for, and what it prints."""

from __future__ import annotations

import json

import pytest

from cli.main import main
from manager.wire import models
from manager.wire.discovery import write_endpoint
from placement.lifecycle import JobState
from placement.model import Denied, Unreachable
from tests.unit.cli.conftest import NOW_S, assignment, job_view, share

GIB = 1 << 30

RUNNING = job_view(
    "j2",
    name="resnet",
    tenant="vision",
    state=JobState.RUNNING,
    attempt=1,
    assignments=[assignment(share(memory_bytes=10 * GIB))],
    neighbours=["j3"],
    predicted_slowdown=1.2,
    predicted_upper=1.25,
    observed_slowdown=1.22,
    step=40,
)
FAILED = job_view(
    "j4", state=JobState.FAILED, attempt=1, ended_s=NOW_S, exit_code=-9, failure="killed\x1b[31m by\nsignal 9"
)


def test_queue_lists_what_waits_and_runs(manager, run):
    manager.hold(job_view("j1"), RUNNING, FAILED)
    answer = run("queue")
    assert answer.status == 0
    assert answer.out.splitlines() == [
        "JOB  NAME    TENANT   STATE      AGE  ASKS   NODE   HOLDS         STEP",
        "j1   -       default  queued   1m30s  1 GPU  -      -                -",
        "j2   resnet  vision   running  1m30s  1 GPU  sim-0  mps 30% 10Gi    40",
    ]


@pytest.mark.parametrize(
    ("options", "jobs"),
    [
        ("", ["j1", "j2"]),
        ("--all", ["j1", "j2", "j4"]),
        ("--state failed", ["j4"]),
        ("--tenant vision", ["j2"]),
        ("--tenant nobody", []),
    ],
)
def test_queue_selects(manager, run, options, jobs):
    manager.hold(job_view("j1"), RUNNING, FAILED)
    answer = run("queue", "-o", "json", *options.split())
    assert [job["job_id"] for job in json.loads(answer.out)] == jobs


@pytest.mark.parametrize("command", ["queue", "queue --tenant vision", "gpus", "gpus -o json", "top"])
def test_jobs_that_have_ended_are_not_even_sent(manager, run, command):
    manager.hold(job_view("j1"), RUNNING, FAILED, FAILED.model_copy(update={"tenant": "vision"}))
    assert run(*command.split()).status == 0
    assert JobState.FAILED not in {view.state for view in manager.sent}


def test_empty_queue_says_so_on_stderr_only(manager, run):
    answer = run("queue")
    assert (answer.status, answer.out, answer.err) == (0, "", "no jobs\n")


def test_wide_queue_shows_prediction_and_neighbours(manager, run):
    manager.hold(RUNNING)
    header, line = run("queue", "-o", "wide").out.splitlines()
    assert "1.20x (up to 1.25x)" in line
    assert "1.22x" in line
    assert line.rstrip().endswith("true")
    assert header.split()[-1] == "COMMAND"


def test_unknown_slowdown_reads_unknown(manager, run):
    manager.hold(RUNNING.model_copy(update={"predicted_slowdown": None, "observed_slowdown": None}))
    assert run("status", "j2").out.count("unknown") == 2


def test_status_shows_what_is_predicted_among_the_present_neighbours(manager, run):
    manager.hold(RUNNING)
    manager.explanations["j2"] = models.ExplanationView(
        job_id="j2", outcome="fit", reasons={}, candidates=0, predicted_slowdown=1.5, predicted_upper=1.6
    )
    assert "predicted slowdown: 1.50x (up to 1.60x)" in run("status", "j2").out


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"moves": 1}, "0 preemptions, 1 move, 0 of 0 retries"),
        ({"preemptions": 1, "moves": 2}, "1 preemption, 2 moves, 0 of 0 retries"),
        ({}, None),
    ],
)
def test_status_says_how_often_a_job_was_interrupted(manager, run, fields, line):
    manager.hold(job_view("j9", **fields))
    lines = [each for each in run("status", "j9").out.splitlines() if each.startswith("interruptions:")]
    assert [each.partition(":")[2].strip() for each in lines] == ([line] if line else [])


def test_status_shows_a_life_and_no_control_characters(manager, run):
    manager.hold(FAILED)
    manager.event_views = [
        models.JobEvent(
            sequence=1, job_id="j4", attempt=0, before=None, after=JobState.QUEUED, at_s=NOW_S - 90
        ),
        models.JobEvent(
            sequence=2,
            job_id="j4",
            attempt=1,
            before=JobState.QUEUED,
            after=JobState.STARTING,
            at_s=NOW_S - 80,
            note="n",
        ),
    ]
    answer = run("status", "j4")
    assert answer.status == 0
    assert "signal 9" in answer.out
    assert "\x1b" not in answer.out
    assert answer.out.splitlines()[-2:] == ["       0.0 s  queued", "      10.0 s  starting  attempt 1  n"]


def test_status_json_holds_job_and_events(manager, run):
    manager.hold(RUNNING)
    document = json.loads(run("status", "j2", "-o", "json").out)
    assert (document["job_id"], document["state"], document["events"]) == ("j2", "running", [])


@pytest.mark.parametrize("command", ["status", "why", "cancel", "logs -f"])
def test_a_job_that_does_not_exist_is_a_failure(manager, run, command):
    answer = run(*command.split(), "nowhere")
    assert (answer.status, answer.out) == (1, "")
    assert answer.err == "cotenant: no job 'nowhere'; see 'cotenant queue --all'\n"


def test_cancel_goes_on_after_an_unknown_job(manager, run):
    manager.hold(RUNNING, FAILED, job_view("j1"), job_view("j5", state=JobState.CANCELLED))
    answer = run("cancel", "nowhere", "j1", "j2", "j4", "j5")
    assert answer.status == 1
    assert answer.out.splitlines() == [
        "j1 cancelled",
        "j2 is being cancelled",
        "j4 had ended already: failed",
        "j5 had ended already: cancelled",
    ]
    assert "nowhere" in answer.err


def test_why_counts_reasons_of_a_job_that_waits(manager, run):
    manager.hold(job_view("j1", position=2))
    manager.explanations["j1"] = models.ExplanationView(
        job_id="j1",
        outcome="no-fit",
        reasons={"other GPU model": 1, "not enough GPU memory": 4, "an earlier job waits for its turn": 2},
        candidates=0,
        predicted_slowdown=None,
        predicted_upper=None,
    )
    answer = run("why", "j1")
    assert answer.out.splitlines() == [
        "job j1 (1 GPU) waits, 2 ahead of it in the queue",
        "outcome: no-fit (fits nowhere now)",
        "",
        "because:",
        "   COUNT  REASON",
        "  4 GPUs  not enough GPU memory",
        "  2 jobs  an earlier job waits for its turn",
        "   1 GPU  other GPU model",
    ]


def test_why_of_a_job_that_ended_still_tells_what_was_ruled_out(manager, run):
    ended = RUNNING.model_copy(update={"state": JobState.SUCCEEDED, "ended_s": NOW_S, "exit_code": 0})
    manager.hold(ended)
    manager.explanations["j2"] = models.ExplanationView(
        job_id="j2",
        outcome="fit",
        reasons={"GPU already in use": 3},
        candidates=2,
        predicted_slowdown=1.2,
        predicted_upper=1.25,
    )
    lines = run("why", "j2").out.splitlines()
    assert lines[0] == "job j2 (1 GPU) ran on sim-0, holding mps 30% 10Gi"
    assert "candidates: 2 nodes could have held it" in lines
    assert lines[-3:] == ["ruled out:", "   COUNT  REASON", "  3 GPUs  GPU already in use"]


@pytest.mark.parametrize("failure", ["larger than the cluster\nNODE_GPUS", ""])
@pytest.mark.parametrize("state", [JobState.REJECTED, JobState.FAILED, JobState.CANCELLED])
def test_why_of_a_job_that_was_never_placed_says_its_end_once(manager, run, state, failure):
    manager.hold(job_view("j1", state=state, ended_s=NOW_S, failure=failure))
    manager.explanations["j1"] = models.ExplanationView(
        job_id="j1",
        outcome="no-fit",
        reasons={},
        candidates=0,
        predicted_slowdown=None,
        predicted_upper=None,
        note=f"{state.value}: {failure}".rstrip(": "),
    )
    end = f"{state.value}: {' '.join(failure.split())}".rstrip(": ")
    assert run("why", "j1").out.splitlines() == [f"job j1 (1 GPU) was never placed; it is {end}"]


def test_why_has_no_wide_table(manager, run):
    manager.hold(RUNNING)
    answer = run("why", "j2", "-o", "wide")
    assert (answer.status, answer.out) == (2, "")
    assert "'wide' is not one of 'table', 'json'" in answer.err


@pytest.mark.parametrize(("candidates", "nodes"), [(5, "5 nodes"), (1, "1 node")])
def test_why_tells_the_promise_of_a_job_that_runs(manager, run, candidates, nodes):
    manager.hold(RUNNING)
    manager.explanations["j2"] = models.ExplanationView(
        job_id="j2",
        outcome="fit",
        reasons={},
        candidates=candidates,
        predicted_slowdown=1.2,
        predicted_upper=1.25,
    )
    lines = run("why", "j2").out.splitlines()
    assert lines[0] == "job j2 (1 GPU) is on sim-0, holding mps 30% 10Gi"
    assert f"candidates: {nodes} could have held it" in lines
    assert "predicted slowdown: 1.20x, at most 1.25x" in lines
    assert "observed slowdown: 1.22x" in lines


@pytest.mark.parametrize(
    ("ever", "present", "line"),
    [
        ([], [], "none"),
        (["j3"], ["j3"], "j3"),
        (["j1", "j3", "j4"], ["j3"], "j3; before: j1, j4"),
        (["j1", "j4"], [], "none; before: j1, j4"),
        (["j1", "j4"], None, "j1, j4 (at any time)"),
        ([], None, "none"),
    ],
)
def test_present_neighbours_come_first(manager, run, ever, present, line):
    ended = {} if present is not None else {"state": JobState.SUCCEEDED, "ended_s": NOW_S, "exit_code": 0}
    manager.hold(RUNNING.model_copy(update={"neighbours": tuple(ever), **ended}))
    manager.explanations["j2"] = models.ExplanationView(
        job_id="j2",
        outcome="fit",
        reasons={},
        candidates=1,
        predicted_slowdown=1.2,
        predicted_upper=1.25,
        neighbours=present or (),
    )
    for command in ("why", "status"):
        said = [each for each in run(command, "j2").out.splitlines() if each.startswith("neighbours:")]
        assert [each.partition(":")[2].strip() for each in said] == [line]


NODE = models.NodeView(
    node_id="sim-0", state="up", simulated=True, cpu_milli=2500, ram_bytes=None, gpus=["A", "A", "B"],
    workers=3, last_seen_s=NOW_S - 2, rack="r7", nvlink_domain=None,
)  # fmt: skip


def test_nodes(manager, run):
    manager.node_views = [NODE]
    assert run("nodes").out.splitlines() == [
        "NODE   STATE  GPUS          WORKERS  CPU  RAM  SIMULATED",
        "sim-0  up     2 x A, 1 x B        3  2.5    -  yes",
    ]
    assert run("nodes", "-o", "wide").out.splitlines()[1].split()[-4:] == ["r7", "-", "2s", "ago"]


def _gpu(slot: int, *tenancies: models.GpuTenancy, available: bool = True) -> models.GpuView:
    return models.GpuView(
        uuid=f"GPU-{slot}", model="A100-SXM4-80GB", node_id="sim-0", slot=slot, memory_bytes=80 * GIB,
        available=available, sm_milli=700 if tenancies else None, tenancies=list(tenancies),
    )  # fmt: skip


def test_gpus_have_a_line_for_each_share(manager, run):
    tenancies = [
        models.GpuTenancy(job_id=job, tenant="t", worker=worker, state=JobState.RUNNING, share=share())
        for job, worker in (("j1", 0), ("j2", 1))
    ]
    manager.hold(RUNNING)
    manager.gpu_views = [_gpu(0, *tenancies), _gpu(1), _gpu(2, available=False)]
    assert run("gpus").out.splitlines() == [
        "NODE   GPU  MODEL           USE  MEMORY  SHARE             JOB   NAME    TENANT  STATE",
        "sim-0    0  A100-SXM4-80GB  70%       -  mps 30%           j1    -       t       running",
        "                                         mps 30%           j2/1  resnet  t       running",
        "sim-0    1  A100-SXM4-80GB    -       -  free              -     -       -       -",
        "sim-0    2  A100-SXM4-80GB    -       -  node unavailable  -     -       -       -",
    ]
    assert [gpu["slot"] for gpu in json.loads(run("gpus", "-o", "json").out)] == [0, 1, 2]


def test_top_prints_once_where_there_is_no_terminal(manager, run):
    manager.hold(job_view("j1"), RUNNING, FAILED)
    manager.gpu_views = [_gpu(0)]
    lines = run("top").out.splitlines()
    assert lines[0] == "1 GPU, 0 in use; 1 job placed, 1 waiting; policy fifo"
    assert "j4" not in "".join(lines)


def test_submit_sends_the_job_and_prints_its_id(manager, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answer = run(
        "submit", "--memory", "10Gi", "--mode", "mps", "--mode", "mig", "python", "a.py", "--gpus", "9"
    )
    assert (answer.status, answer.out, answer.err) == (0, "j1\n", "")
    (spec,) = manager.submitted
    assert list(spec.command) == ["python", "a.py", "--gpus", "9"]
    assert spec.request.memory_bytes == 10 * GIB
    assert spec.workdir == str(tmp_path)


def test_submit_says_that_a_job_is_rejected_at_once(manager, run):
    manager.hold(job_view("j1", state=JobState.REJECTED, ended_s=NOW_S, failure="not enough\nGPU memory"))
    answer = run("submit", "--memory", "500Gi", "--", "x")
    assert (answer.status, answer.out, answer.err) == (1, "j1\n", "j1 rejected: not enough GPU memory\n")


def test_submit_asks_again_with_the_same_key(manager, run, tmp_path):
    (tmp_path / "p.yaml").write_text("name: resnet\n")
    manager.silent = {"info": 1, "put_profile": 1, "submit": 2}
    answer = run("submit", "--profile", str(tmp_path / "p.yaml"), "--", "x")
    assert (answer.status, answer.out) == (0, "j1\n")
    assert len(manager.submitted) == 1
    assert len(manager.keys) == 3
    assert len(set(manager.keys)) == 1
    assert manager.keys[0]
    assert run("submit", "--", "x").status == 0
    assert manager.keys[3] != manager.keys[0]


@pytest.mark.parametrize("before", [Unreachable, Denied])
def test_submit_looks_for_the_token_of_a_manager_that_is_just_starting(
    manager, run, monkeypatch, tmp_path, before
):
    monkeypatch.setattr("cli.connection.AGAIN_S", 0.0)
    (tmp_path / "token").write_text("made-just-now")

    def answer(method: str) -> None:
        if manager.connected[-1][1] is None:
            write_endpoint(tmp_path / "endpoint.json", "http://127.0.0.1:7500", tmp_path / "token")
            raise before("not yet")

    monkeypatch.setattr(manager, "answer", answer)
    assert run("submit", "--", "x").status == 0
    assert manager.connected == [("http://127.0.0.1:7077", None), ("http://127.0.0.1:7500", "made-just-now")]


def test_submit_does_not_ask_again_with_a_token_that_was_refused(manager, run, monkeypatch):
    monkeypatch.setenv("COTENANT_TOKEN", "wrong")

    def answer(method: str) -> None:
        raise Denied("the token is missing or wrong")

    monkeypatch.setattr(manager, "answer", answer)
    assert run("submit", "--", "x").status != 0
    assert len(manager.connected) == 1


@pytest.mark.parametrize(("silent", "accepted"), [("info", False), ("submit", True)])
def test_submit_says_whether_a_job_may_have_been_accepted(manager, run, monkeypatch, silent, accepted):
    monkeypatch.setattr("cli.submit.PATIENCE_S", 0.01)
    manager.silent = {silent: 10**9}
    answer = run("submit", "--", "x")
    assert (answer.status, answer.out) == (3, "")
    assert ("the job may have been accepted: see 'cotenant queue'" in answer.err) is accepted
    assert answer.err.count("\n") == 1


def test_submit_defines_the_profile_of_a_file_first(manager, run, tmp_path):
    (tmp_path / "p.yaml").write_text("name: resnet\nsm_milli: 500\n")
    assert run("submit", "--profile", str(tmp_path / "p.yaml"), "--", "x").status == 0
    assert [profile.name for profile in manager.profiles_put] == ["resnet"]
    assert manager.submitted[0].profile == "resnet"


@pytest.mark.parametrize(
    ("state", "exit_code", "status"),
    [
        (JobState.SUCCEEDED, 0, 0),
        (JobState.FAILED, 3, 3),
        (JobState.FAILED, -9, 137),
        (JobState.FAILED, None, 1),
        (JobState.CANCELLED, None, 1),
        (JobState.CANCELLED, 0, 1),
        (JobState.CANCELLED, -15, 143),
        (JobState.REJECTED, None, 1),
    ],
)
def test_waiting_exits_with_the_status_of_the_job(manager, run, state, exit_code, status):
    manager.hold(
        job_view("j1"),
        job_view("j1", state=JobState.RUNNING, attempt=1, assignments=[assignment(share())]),
        job_view("j1", state=state, exit_code=exit_code, ended_s=NOW_S, failure="because"),
    )
    answer = run("submit", "--wait", "--", "x")
    assert answer.status == status
    assert answer.out == "j1\n"
    assert answer.err.splitlines()[-1] == f"j1 {state.value}: because"


def test_logs_of_all_attempts_when_followed(manager, capsysbinary):
    manager.hold(
        job_view("j1", attempt=1, state=JobState.RUNNING),
        job_view("j1", attempt=1, state=JobState.RUNNING),
        job_view("j1", attempt=2, state=JobState.RUNNING),
        job_view("j1", attempt=2, state=JobState.SUCCEEDED),
    )
    manager.chunks["j1", 1] = [b"first attempt \xff\n"]
    manager.chunks["j1", 2] = [b"second\n"]
    assert main(["logs", "-f", "j1"]) == 0
    assert capsysbinary.readouterr().out == b"first attempt \xff\nsecond\n"


def test_logs_of_one_attempt(manager, capsysbinary):
    manager.chunks["j1", 1] = [b"first\n"]
    manager.chunks["j1", 2] = [b"second\n"]
    assert main(["logs", "--attempt", "1", "j1"]) == 0
    assert main(["logs", "j1"]) == 0
    assert capsysbinary.readouterr().out == b"first\nsecond\n"
