"""What `up` starts, and what it says of the jobs when it ends."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from cli import up as module
from cli.local_cluster import Interrupted, LocalSettings
from cli.supervisor import StopSignals
from manager.settings import ManagerSettings
from manager.wire import client as wire_client
from placement.lifecycle import JobState
from placement.model import parse_seconds
from tests.unit.cli.conftest import job_view


@dataclass
class _Started:
    """What a cluster was asked to be."""

    settings: list[LocalSettings] = field(default_factory=list)


@pytest.fixture
def started(monkeypatch) -> _Started:
    """Clusters that are interrupted as soon as they are made."""
    seen = _Started()

    class Cluster:
        def __init__(self, settings, _stop, _tell):
            seen.settings.append(settings)
            self.supervisor = self

        def start_manager(self):
            raise Interrupted

        def stop(self, _hurry):
            pass

    monkeypatch.setattr(module, "LocalCluster", Cluster)
    return seen


@pytest.mark.parametrize(
    ("words", "manager", "agent"),
    [
        ("", ["--fence", "120s"], []),
        ("--fence 1d", ["--fence", "1d"], []),
        ("--policy fifo --belief none", ["--policy", "fifo", "--belief", "none", "--fence", "120s"], []),
        ("--truth none", ["--fence", "120s"], []),
        ("--truth none --simulate 1xA100-SXM4-80GB", ["--fence", "120s"], ["--truth", "none"]),
    ],
)
def test_options_go_to_the_programs_that_know_them(started, run, words, manager, agent):
    assert run("up", *words.split()).status == 0
    (settings,) = started.settings
    assert (list(settings.manager_options), list(settings.agent_options)) == (manager, agent)


@pytest.mark.parametrize("fence", ["soon", "0", "-1s", "3 weeks"])
def test_a_fence_that_is_no_time_is_refused_before_anything_starts(started, run, fence):
    answer = run("up", "--fence", fence)
    assert (answer.status, started.settings) == (2, [])
    assert "fence" in answer.err


def test_the_fence_is_the_managers(tmp_path):
    assert parse_seconds(module.DEFAULT_FENCE, "fence") == ManagerSettings(tmp_path).fence_s


@pytest.mark.parametrize(
    ("jobs", "go_on_s", "words"),
    [
        (2, 120.0, "2 jobs go on for up to 2m00s: "),
        (1, 86400.0, "1 job goes on for up to 1d00h: "),
        (1, None, "ending 1 job: each is asked, and killed after its grace; waiting for up to 1m00s"),
    ],
)
def test_the_goodbye_says_for_how_long_jobs_go_on(manager, capsys, jobs, go_on_s, words):
    manager.hold(*[job_view(f"j{n}") for n in range(jobs)], job_view("ended", state=JobState.FAILED))
    signals = StopSignals()
    signals.hurry.set()
    module._say_goodbye(wire_client.Client("http://x", None), signals, go_on_s)
    said = capsys.readouterr()
    assert said.out.startswith(words)
    assert ("not all jobs have ended yet" in said.err) == (go_on_s is None)
