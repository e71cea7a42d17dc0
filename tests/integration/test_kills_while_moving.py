"""The manager is killed while a job is moved: it goes on at its new place once, and so does the other."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.kill_jobs import Planned
from bench.killing import Cluster
from manager.wire.client import Client
from manager.wire.models import JobSpec, JobView, RequestSpec
from placement.lifecycle import JobState
from placement.model import Mode
from tests.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(180)]

PAIRS = ("2xA100-SXM4-80GB", "2xA100-SXM4-80GB")
GRACE_S = 120.0
"""Nobody is killed for taking its time: how long it takes, the test decides."""

# Whoever is asked to leave stays until it may go. All write into one file, so it says what came before what.
_PROGRAM = """
import os, signal, sys, time
name, folder = sys.argv[1:]

def write(what):
    fd = os.open(folder + "/journal", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(fd, f"{name} {what} {os.environ['COTENANT_ATTEMPT']}\\n".encode())
    os.close(fd)

def wait_for(file):
    while not os.path.exists(folder + "/" + file):
        time.sleep(0.01)

def leave(*_):
    write("asked")
    wait_for("may-go")
    write("left")
    os._exit(0)

signal.signal(signal.SIGTERM, leave)
write("began")
wait_for("end-" + name)
write("done")
"""


@dataclass
class Scene:
    """Two nodes of two GPUs; when one GPU of each is free, `wide` comes, which wants two of one node."""

    cluster: Cluster
    client: Client
    folder: Path
    ids: dict[str, str]

    def submit(self, name: str, gpus: int) -> None:
        request = RequestSpec(gpus=gpus, modes=[Mode.EXCLUSIVE])
        command = [sys.executable, "-I", "-S", "-c", _PROGRAM, name, str(self.folder)]
        spec = JobSpec(name=name, command=command, grace_s=GRACE_S, request=request)
        self.ids[name] = self.cluster.submit(Planned(spec, self.folder / name, 0, 0), name)

    def job(self, name: str) -> JobView:
        return self.client.job(self.ids[name])

    def node(self, name: str) -> str:
        (assignment,) = self.job(name).assignments
        return assignment.node_id

    def reaches(self, name: str, state: JobState) -> None:
        until(lambda: self.job(name).state is state, f"{name} is not {state.value} in time")

    def wrote(self, line: str) -> None:
        until(lambda: line in self.journal(), f"nobody wrote {line!r} in time")

    def journal(self) -> list[str]:
        path = self.folder / "journal"
        return path.read_text().splitlines() if path.exists() else []

    def bring_wide(self) -> str:
        """Let it come; gives who is moved for it."""
        self.submit("wide", 2)
        self.reaches("wide", JobState.PLACED)
        (moved,) = (name for name in self.ids if self.job(name).state is JobState.STOPPING)
        return moved

    def end(self, *names: str) -> None:
        for name in names:
            (self.folder / f"end-{name}").touch()
        for name in names:
            self.reaches(name, JobState.SUCCEEDED)

    def let_go(self) -> None:
        (self.folder / "may-go").touch()

    def kill(self, *names: str) -> None:
        for name in names:
            self.cluster.kill(name)

    def start(self, *names: str) -> None:
        for name in names:
            self.cluster.start(name)
        self.cluster.wait_for_nodes()


AGENTS = ("node-0", "node-1")
STAYERS = ("a", "b", "c", "d")


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    cluster = Cluster(tmp_path / "cluster", nodes=PAIRS)
    try:
        cluster.start_all()
        with cluster.client() as client:
            scene = Scene(cluster, client, tmp_path, {})
            for name in STAYERS:
                scene.submit(name, 1)
                scene.wrote(f"{name} began 1")
            yield scene
    finally:
        (tmp_path / "may-go").touch()
        cluster.stop()


def before_anybody_is_told(scene: Scene) -> None:
    scene.kill(*AGENTS)
    scene.bring_wide()
    scene.kill("manager")
    scene.let_go()
    scene.start("manager", *AGENTS)


def while_it_is_leaving(scene: Scene) -> None:
    moved = scene.bring_wide()
    scene.wrote(f"{moved} asked 1")
    scene.kill("manager")
    scene.start("manager")
    scene.let_go()


def when_it_has_left_and_nobody_knows(scene: Scene) -> None:
    moved = scene.bring_wide()
    scene.wrote(f"{moved} asked 1")
    scene.kill("manager", *AGENTS)
    scene.let_go()
    scene.wrote(f"{moved} left 1")
    scene.start("manager", *AGENTS)


def when_its_start_is_on_the_way(scene: Scene) -> None:
    moved = scene.bring_wide()
    (new,) = set(AGENTS) - {scene.node(moved)}
    scene.kill(new)
    scene.let_go()
    until(lambda: (scene.job(moved).state, scene.job(moved).attempt) == (JobState.STARTING, 2))
    scene.kill("manager")
    scene.start("manager", new)


@pytest.mark.parametrize(
    "kill",
    [
        before_anybody_is_told,
        while_it_is_leaving,
        when_it_has_left_and_nobody_knows,
        when_its_start_is_on_the_way,
    ],
)
def test_a_move_goes_on_although_the_manager_is_killed(scene: Scene, kill: Callable[[Scene], None]) -> None:
    last_of = {scene.node(name): name for name in STAYERS}
    assert set(last_of) == set(AGENTS), "two on each node"
    scene.end(*last_of.values())
    stay = [name for name in STAYERS if name not in last_of.values()]
    old_node = {name: scene.node(name) for name in stay}
    kill(scene)
    scene.reaches("wide", JobState.RUNNING)
    (moved,) = (name for name in stay if scene.job(name).attempt == 2)
    scene.reaches(moved, JobState.RUNNING)
    (other,) = set(stay) - {moved}
    assert scene.node("wide") == old_node[moved]
    assert scene.node(moved) == scene.node(other) == old_node[other]
    scene.end(*stay, "wide")

    journal = scene.journal()
    expected = {f"{name} {what} 1" for name in (*STAYERS, "wide") for what in ("began", "done")}
    expected -= {f"{moved} done 1"}
    expected |= {f"{moved} {what}" for what in ("asked 1", "left 1", "began 2", "done 2")}
    assert sorted(journal) == sorted(expected), "each once, and nothing else"
    left = journal.index(f"{moved} left 1")
    assert left < journal.index(f"{moved} began 2"), "never in two places"
    assert left < journal.index("wide began 1"), "never two on one GPU"
    states = [event.after.value for event in scene.client.events(scene.ids[moved])]
    assert " ".join(states[2:]) == "running stopping queued placed starting running succeeded"
    assert scene.job("wide").attempt == scene.job(other).attempt == 1
