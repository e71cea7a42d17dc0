"""Bad input: one line on stderr, exit status 2, and nothing is asked of a manager."""

from __future__ import annotations

import pytest

BAD = [
    # options of submit                               a word of the complaint
    ("--compute 130% -- x", "130%"),
    ("--compute 0 -- x", "compute"),
    ("--compute -30% -- x", "compute"),
    ("--compute nan -- x", "compute"),
    ("--memory nan -- x", "memory"),
    ("--memory -5Gi -- x", "memory"),
    ("--memory 0 -- x", "memory"),
    ("--memory 10Qi -- x", "10Qi"),
    ("--memory 1e400 -- x", "memory"),
    ("--gpus -1 -- x", "gpus"),
    ("--gpus 1.5 -- x", "gpus"),
    ("--gpus 99999 -- x", "gpus"),
    ("--gpus nan -- x", "gpus"),
    ("--gpu-model /x -- x", "gpu model"),
    ("--max-slowdown nan -- x", "max slowdown"),
    ("--max-slowdown inf -- x", "max slowdown"),
    ("--max-slowdown 0.5 -- x", "at least 1"),
    ("--max-slowdown -2 -- x", "at least 1"),
    ("--workers 0 -- x", "workers"),
    ("--workers -3 -- x", "workers"),
    ("--workers many -- x", "many"),
    ("--priority 1e9 -- x", "priority"),
    ("--retries -1 -- x", "retries"),
    ("--time-limit -5 -- x", "time limit"),
    ("--time-limit 0 -- x", "time limit"),
    ("--time-limit 5y -- x", "5y"),
    ("--duration 5y -- x", "5y"),
    ("--duration -5 -- x", "duration"),
    ("--grace inf -- x", "grace"),
    ("--cpu nan -- x", "cpu"),
    ("--cpu -1 -- x", "cpu"),
    ("--ram 0 -- x", "ram"),
    ("--mode any --mode mps -- x", "any"),
    ("--mode half -- x", "half"),
    ("--mig-profile big -- x", "big"),
    ("--mig-profile 1g.10gb --mode mps -- x", "mig"),
    ("--isolation total -- x", "total"),
    ("--devices same -- x", "ask for at least 2"),
    ("--gpus 2 --devices same --mode exclusive -- x", "accepts exclusive alone"),
    ("--gpus 2 --devices same --compute 60% -- x", "2 shares of 60%"),
    ("--gpus 2 --devices twice -- x", "twice"),
    ("--together block -- x", "choose one of node, nvlink, rack, gpu-type"),
    ("--together rack,please -- x", "'please' after the comma must be 'required', as in rack,required"),
    ("--gpus 0 --together nvlink -- x", "is about GPUs"),
    ("--kind fun -- x", "fun"),
    ("--tenant a/b -- x", "a/b"),
    ("--env =5 -- x", "env"),
    ("--env 1A=5 -- x", "1A"),
    ("--env NOT_SET_ANYWHERE -- x", "NOT_SET_ANYWHERE"),
    ("--env COTENANT_JOB_ID=1 -- x", "COTENANT_JOB_ID"),
    ("--profile nowhere.yaml -- x", "nowhere.yaml"),
    ("--profile no!name -- x", "no!name"),
    ("--file nowhere.yaml", "nowhere.yaml"),
    ("", "no command"),
    ("--", "no command"),
    ("--bogus -- x", "--bogus"),
    ("--gpus", "--gpus"),
]


@pytest.mark.parametrize(("line", "word"), BAD, ids=[line or "nothing" for line, _ in BAD])
def test_bad_submission_is_refused_before_a_manager_is_asked(manager, run, line, word):
    answer = run("submit", *line.split())
    assert answer.status == 2
    assert answer.out == ""
    assert answer.err.count("\n") == 1
    assert answer.err.startswith("cotenant: ")
    assert word in answer.err
    assert manager.connected == []


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("nonsense", "nonsense"),
        ("quue", "'queue'"),
        ("--nonsense", "--nonsense"),
        ("status", "JOB"),
        ("cancel", "JOB"),
        ("queue -o xml", "xml"),
        ("queue --state happy", "happy"),
        ("logs --worker -1 j1", "--worker"),
        ("logs --attempt 0 j1", "--attempt"),
        ("top --every 0", "--every"),
        ("completion tcsh", "tcsh"),
        ("queue --manager nowhere", "nowhere"),
        ("queue --manager ftp://host", "ftp://host"),
        ("up --simulate 4xNoSuchGpu", "NoSuchGpu"),
        ("up --simulate many", "many"),
        ("agent --node-id a/b", "a/b"),
        ("agent --simulate 2xNoSuchGpu", "NoSuchGpu"),
        ("manager --lease nan", "lease"),
        ("manager --listen nowhere", "nowhere"),
        ("manager --policy nonsense", "nonsense"),
        ("up --simulate 0xA100-SXM4-80GB", "0x"),
        ("up --policy nonsense", "nonsense"),
        ("up --policy fifo --policy srtf", "given 2 times"),
        ("manager --policy fifo --policy srtf", "given 2 times"),
        ("up --belief nonsense", "nonsense"),
        ("up --simulate 1xA100-SXM4-80GB --truth nonsense", "nonsense"),
    ],
)
def test_bad_command_line_is_one_line_and_status_2(run, line, word):
    answer = run(*line.split())
    assert answer.status == 2
    assert answer.out == ""
    assert answer.err.count("\n") == 1
    assert word in answer.err


def test_null_character_in_the_command_is_refused(manager, run):
    answer = run("submit", "--", "python", "a\0b")
    assert answer.status == 2
    assert answer.err.count("\n") == 1
    assert manager.connected == []


def test_an_unclosed_quote_in_a_job_file_names_file_and_field(manager, run, tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text("""command: python -c 'print(1)\n""")
    answer = run("submit", "--file", str(path))
    assert answer.status == 2
    assert answer.err.startswith(f"cotenant: {path}: command: no closing quotation; ")
    assert answer.err.count("\n") == 1
    assert manager.connected == []


@pytest.mark.parametrize("token", ["a\nb", "a b", "schlüssel"])
@pytest.mark.parametrize("command", ["queue", "agent --simulate 1xA100-SXM4-80GB --node-id n"])
def test_a_token_that_could_not_be_sent_is_refused_and_not_shown(run, monkeypatch, token, command):
    monkeypatch.setenv("COTENANT_TOKEN", token)
    answer = run(*command.split())
    assert (answer.status, answer.out) == (2, "")
    assert "COTENANT_TOKEN" in answer.err
    assert token not in answer.err
    assert answer.err.count("\n") == 1


def test_unreachable_manager_is_status_3(run):
    answer = run("queue", "--manager", "http://127.0.0.1:1")
    assert answer.status == 3
    assert answer.err.count("\n") == 1
    assert "http://127.0.0.1:1" in answer.err
