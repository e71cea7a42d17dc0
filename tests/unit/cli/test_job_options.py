"""What options and job files say, and the submission that comes of it."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from pydantic import ValidationError

from cli.job_file import profile_or_name, read_job_file, read_profile_file
from cli.job_options import JobWishes, job_spec_of, variables_of
from manager.wire.models import JobSpec
from placement.model import InvalidInput, InvalidSpec

GIB = 1 << 30

GOOD = [
    # wish                                        field of the submission  its value
    ({"memory": "10Gi"}, "request.memory_bytes", 10 * GIB),
    ({"compute": "30%"}, "request.compute_milli", 300),
    ({"compute": "auto"}, "request.compute_milli", None),
    ({"compute": "100%"}, "request.compute_milli", 1000),
    ({"gpus": "0"}, "request.gpus", 0),
    ({}, "request.gpus", 1),
    ({"gpu_model": ("A100", "H100")}, "request.gpu_models", ["A100", "H100"]),
    ({"mode": ("mps",)}, "request.modes", ["mps"]),
    ({}, "request.modes", ["exclusive", "mig", "mps", "timeslice"]),
    ({"mode": ("any",)}, "request.modes", ["exclusive", "mig", "mps", "timeslice"]),
    ({"mig_profile": "1g.10gb"}, "request.modes", ["mig"]),
    ({"mig_profile": "1g.10gb+me"}, "request.mig_profile", "1g.10gb+me"),
    ({"isolation": "hardware"}, "request.isolation", "hardware"),
    ({"gpus": "2", "compute": "30%", "devices": "same"}, "request.devices", "same"),
    ({}, "request.devices", "distinct"),
    ({"together": "rack"}, "request.together", {"level": "rack", "required": False}),
    ({"together": "gpu-type,required"}, "request.together", {"level": "gpu-type", "required": True}),
    ({}, "request.together", None),
    ({"max_slowdown": "1.2"}, "request.max_slowdown", 1.2),
    ({"max_slowdown": "1"}, "request.max_slowdown", 1.0),
    ({"cpu": "500m"}, "request.cpu_milli", 500),
    ({"cpu": "1.5"}, "request.cpu_milli", 1500),
    ({"ram": "16Gi"}, "request.ram_bytes", 16 * GIB),
    ({"workers": "4"}, "workers", 4),
    ({"priority": "-5"}, "priority", -5),
    ({"preemptible": False}, "preemptible", False),
    ({"retries": "2"}, "retries", 2),
    ({"time_limit": "2h"}, "time_limit_s", 7200.0),
    ({"duration": "2h"}, "duration_s", 7200.0),
    ({}, "duration_s", None),
    ({"grace": "1.5s"}, "grace_s", 1.5),
    ({"profile": "resnet"}, "profile", "resnet"),
    ({"kind": "inference"}, "kind", "inference"),
    ({"env": {"A": "1"}}, "env", {"A": "1"}),
]


@pytest.mark.parametrize(("wishes", "path", "value"), GOOD)
def test_a_wish_becomes_a_field(wishes, path, value):
    document = job_spec_of(JobWishes(command=("x",), **wishes)).model_dump(mode="json")
    for part in path.split("."):
        document = document[part]
    assert document == value


def test_options_win_over_the_file_and_variables_are_merged():
    base = JobWishes(command=("a",), gpus="4", memory="1Gi", mode=("mps",), env={"A": "1", "B": "1"})
    said = JobWishes(gpus="2", env={"B": "2"}, preemptible=False)
    assert said.over(base) == JobWishes(
        command=("a",), gpus="2", memory="1Gi", mode=("mps",), env={"A": "1", "B": "2"}, preemptible=False
    )


def test_variables_take_their_value_from_here(monkeypatch):
    monkeypatch.setenv("HERE", "with=sign")
    assert variables_of(["A=1=2", "HERE", "EMPTY="]) == {"A": "1=2", "HERE": "with=sign", "EMPTY": ""}


def test_job_file(tmp_path):
    path = tmp_path / "job.yaml"
    path.write_text(
        "name: x\ncommand: python train.py --name 'a b'\ngpus: 2\ngpu-model: A100\nmemory: 10Gi\n"
        "max_slowdown: 1.5\nmode: [mps, timeslice]\nenv: {EPOCHS: 3}\npreemptible: false\ntenant:\n"
        "profile: p.yaml\n"
    )
    assert read_job_file(path) == JobWishes(
        command=("python", "train.py", "--name", "a b"),
        name="x",
        gpus="2",
        gpu_model=("A100",),
        memory="10Gi",
        max_slowdown="1.5",
        mode=("mps", "timeslice"),
        env={"EPOCHS": "3"},
        preemptible=False,
        profile=str(tmp_path / "p.yaml"),
    )


BAD_FILES = [
    ("gpuz: 1", "gpuz"),
    ("[1, 2]", "mapping"),
    ("a: b: c", "not YAML"),
    ("gpus: [1]", "gpus"),
    ("name: yes", "name"),
    ("mode: {mps: 1}", "mode"),
    ("env: [A]", "env"),
    ("env: {A: [1]}", "env"),
    ("preemptible: maybe", "preemptible"),
    ("command: [python, [a]]", "command"),
    ("\x00", "not YAML"),
    ("!!python/object/apply:os.system ['true']", "not YAML"),
]


@pytest.mark.parametrize(("text", "word"), BAD_FILES)
def test_bad_job_file_names_itself_and_what_is_wrong(tmp_path, text, word):
    path = tmp_path / "job.yaml"
    path.write_text(text)
    with pytest.raises(InvalidSpec, match=word) as error:
        read_job_file(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    "text", ["memory: .nan", "max_slowdown: .inf", "gpus: -1", "compute: 1.3", "workers: 0"]
)
def test_amounts_of_a_job_file_are_checked_like_those_of_options(tmp_path, text):
    path = tmp_path / "job.yaml"
    path.write_text(f"command: x\n{text}\n")
    with pytest.raises(InvalidInput):
        job_spec_of(read_job_file(path))


def test_profile_file(tmp_path):
    path = tmp_path / "resnet.yaml"
    path.write_text("steps_per_s: {'*': 66.7}\nsm_milli: 450\nmemory: 12Gi\n")
    profile = read_profile_file(path)
    assert (profile.name, profile.steps_per_s, profile.sm_milli) == ("resnet", {"*": 66.7}, 450)
    assert (profile.memory_bytes, profile.dram_milli) == (12 * GIB, None)


@pytest.mark.parametrize(
    "text",
    [
        "sm_milli: 1001",
        "sm_milli: half",
        "steps_per_s: {a: 0}",
        "steps_per_s: {a: .nan}",
        "speed: 1",
        "memory: x",
    ],
)
def test_bad_profile_file(tmp_path, text):
    path = tmp_path / "p.yaml"
    path.write_text(text)
    with pytest.raises(InvalidSpec, match=str(path)):
        read_profile_file(path)


def test_a_profile_is_a_name_unless_it_looks_like_a_file():
    assert profile_or_name("resnet") == ("resnet", None)
    with pytest.raises(InvalidSpec, match="nowhere"):
        profile_or_name("./nowhere")


@pytest.mark.parametrize(
    ("wishes", "taken"),
    [
        ({"gpu_model": ("RTX A6000 (48GB)+x/y",)}, True),
        ({"gpu_model": ("A" * 127,)}, True),
        ({"gpu_model": ("A" * 128,)}, False),
        ({"gpu_model": ("A100\n",)}, False),
        ({"gpu_model": ("-A100",)}, False),
        ({"env": {"V" * 255: ""}}, True),
        ({"env": {"V" * 256: ""}}, False),
        ({"env": {"V\n": ""}}, False),
        ({"tenant": "t" * 63}, True),
        ({"tenant": "t" * 64}, False),
        ({"tenant": "t\n"}, False),
    ],
)
def test_names_are_refused_here_exactly_where_the_manager_refuses_them(wishes, taken):
    (name,) = wishes
    sent = {"command": ["x"], **wishes}
    if name == "gpu_model":
        sent = {"command": ["x"], "request": {"gpu_models": wishes[name]}}
    with nullcontext() if taken else pytest.raises(ValidationError):
        JobSpec.model_validate(sent)
    with nullcontext() if taken else pytest.raises(InvalidSpec, match=r"must be|is no model|not the name"):
        job_spec_of(JobWishes(command=("x",), **wishes))
