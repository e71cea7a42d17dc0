"""What a job finds in its environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.environment import base_environment, job_environment
from agent.mps import MpsFolders
from agent.partitioner import Prepared
from manager.wire.agent_models import AgentCommand, CommandKind
from placement.model import Mode, Share

GIB = 1 << 30
FOLDER = Path("/data/attempts/job-1.2.1")


def command(**env: str) -> AgentCommand:
    return AgentCommand(
        sequence=1,
        epoch=1,
        kind=CommandKind.START,
        job_id="job-1",
        attempt=2,
        worker=1,
        workers=4,
        command=["true"],
        env=env,
        name="train",
        tenant="red",
    )


def environment(prepared: Prepared, **env: str) -> dict[str, str]:
    return job_environment({"PATH": "/bin"}, command(**env), prepared, FOLDER)


def test_a_whole_gpu() -> None:
    share = Share("GPU-1", Mode.EXCLUSIVE, 1000)
    assert environment(Prepared((share,), ("GPU-1",))) == {
        "PATH": "/bin",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "GPU-1",
        "NVIDIA_VISIBLE_DEVICES": "GPU-1",
        "RANK": "1",
        "WORLD_SIZE": "4",
        "LOCAL_RANK": "0",
        "COTENANT_JOB_ID": "job-1",
        "COTENANT_JOB_NAME": "train",
        "COTENANT_TENANT": "red",
        "COTENANT_ATTEMPT": "2",
        "COTENANT_WORKER": "1",
        "COTENANT_WORKERS": "4",
        "COTENANT_PROGRESS": "/data/attempts/job-1.2.1/progress",
    }


def test_no_gpu_means_none_visible() -> None:
    found = environment(Prepared((), ()))
    assert (found["CUDA_VISIBLE_DEVICES"], found["NVIDIA_VISIBLE_DEVICES"]) == ("", "void")


def test_a_mig_slice_is_visible_by_its_own_uuid() -> None:
    share = Share("GPU-1", Mode.MIG, 142, 9 * GIB, "1g.10gb", 0)
    assert environment(Prepared((share,), ("MIG-x",)))["CUDA_VISIBLE_DEVICES"] == "MIG-x"


@pytest.mark.parametrize(
    ("compute_milli", "memory_bytes", "percentage", "limit"),
    [
        (300, 10 * GIB, "30", "0=10G"),
        (305, 10 * GIB + (1 << 20), "30", "0=10241M"),
        (1, 1, "1", "0=1M"),
        (1000, None, "100", None),
    ],
)
def test_an_mps_share_is_limited(
    compute_milli: int, memory_bytes: int | None, percentage: str, limit: str | None
) -> None:
    share = Share("GPU-1", Mode.MPS, compute_milli, memory_bytes)
    found = environment(Prepared((share,), ("GPU-1",), MpsFolders(Path("/m/pipe"), Path("/m/log"))))
    assert found["CUDA_MPS_PIPE_DIRECTORY"] == "/m/pipe"
    assert found["CUDA_MPS_LOG_DIRECTORY"] == "/m/log"
    assert found["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == percentage
    assert found.get("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT") == limit


def test_limits_go_by_the_place_among_the_visible_devices() -> None:
    shares = (Share("GPU-1", Mode.EXCLUSIVE, 1000), Share("GPU-2", Mode.MPS, 500, 4 * GIB))
    found = environment(Prepared(shares, ("GPU-1", "GPU-2"), MpsFolders(Path("/p"), Path("/l"))))
    assert found["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "1=4G"


def test_several_shares_of_one_gpu_are_one_device_with_one_limit_for_each_process() -> None:
    share = Share("GPU-2", Mode.MPS, 300, 4 * GIB)
    found = environment(Prepared((share, share), ("GPU-2",), MpsFolders(Path("/p"), Path("/l"))))
    assert (found["CUDA_VISIBLE_DEVICES"], found["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"]) == ("GPU-2", "0=4G")
    assert found["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "30"


@pytest.mark.parametrize(("clients", "percentage"), [(2, "50"), (3, "33"), (6, "16")])
def test_shares_of_a_slice_divide_it_among_them(clients: int, percentage: str) -> None:
    share = Share("GPU-2", Mode.MPS, 428 // clients, 4 * GIB, "3g.40gb", 4)
    found = environment(Prepared((share,) * clients, ("MIG-x",), MpsFolders(Path("/p"), Path("/l"))))
    assert (found["CUDA_VISIBLE_DEVICES"], found["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"]) == ("MIG-x", "0=4G")
    assert found["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == percentage


@pytest.mark.parametrize(
    ("name", "value", "wins"),
    [
        ("PATH", "/mine", True),
        ("RANK", "17", True),
        ("CUDA_LAUNCH_BLOCKING", "1", True),
        ("ANYTHING", "x", True),
        ("CUDA_VISIBLE_DEVICES", "GPU-of-somebody-else", False),
        ("COTENANT_JOB_ID", "job-2", False),
        ("COTENANT_PROGRESS", "/etc/passwd", False),
    ],
)
def test_the_users_variables_win_over_all_but_ours(name: str, value: str, wins: bool) -> None:
    found = environment(Prepared((Share("GPU-1", Mode.EXCLUSIVE, 1000),), ("GPU-1",)), **{name: value})
    assert (found[name] == value) is wins


MPS = Prepared(
    (Share("GPU-1", Mode.MPS, 300, 10 * GIB),), ("GPU-1",), MpsFolders(Path("/m/pipe"), Path("/m/log"))
)
UNLIMITED = Prepared((Share("GPU-1", Mode.MPS, 300),), ("GPU-1",), MPS.mps)
WHOLE = Prepared((Share("GPU-1", Mode.EXCLUSIVE, 1000),), ("GPU-1",))
SLICE = Prepared((Share("GPU-1", Mode.MIG, 142, 9 * GIB, "1g.10gb", 0),), ("MIG-x",))


@pytest.mark.parametrize(
    "prepared",
    [MPS, UNLIMITED, WHOLE, SLICE, Prepared((), ())],
    ids=["mps", "mps-no-memory", "whole", "mig", "none"],
)
def test_no_variable_that_carries_the_share_can_be_set_by_the_user(prepared: Prepared) -> None:
    greed = {
        "CUDA_VISIBLE_DEVICES": "0,1,2,3",
        "CUDA_DEVICE_ORDER": "FASTEST_FIRST",
        "NVIDIA_VISIBLE_DEVICES": "all",
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "100",
        "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=80G",
        "CUDA_MPS_PIPE_DIRECTORY": "/m/of-another-gpu/pipe",
        "CUDA_MPS_LOG_DIRECTORY": "/m/of-another-gpu/log",
    }
    assert environment(prepared, **greed) == environment(prepared)


def test_of_the_agents_environment_a_job_gets_only_what_is_harmless() -> None:
    own = {"PATH": "/bin", "LC_ALL": "C", "HOME": "/h", "COTENANT_TOKEN": "secret", "AWS_SECRET": "secret"}
    assert base_environment(own) == {"PATH": "/bin", "LC_ALL": "C", "HOME": "/h"}
