"""A small live cluster of real processes, killed at random moments."""

from __future__ import annotations

import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from bench.kill_jobs import Planned, moves, plan, problems
from manager.wire.client import Client
from manager.wire.models import JobView
from placement.lifecycle import ENDED
from placement.model import CotenantError, Unreachable
from placement.policies import DEFAULT_POLICY

NODES = ("4xA100-SXM4-80GB", "2xH100-SXM5-80GB")
CROWDED = ("2xA100-SXM4-80GB", "2xH100-SXM5-80GB")
"""So few GPUs that jobs are in each other's way, and now and then one is moved."""
LEASE_S = 20.0
FENCE_S = 120.0
START_TIMEOUT_S = 40.0
END_TIMEOUT_S = 90.0
JOBS_PER_KILL = 2
SETTLED_S = 0.3
"""Jobs of some seconds are moved, too: here nobody has to sit for a minute first."""

_MANAGER = """
import sys
from pathlib import Path
from manager.main import ManagerSettings, serve
from placement import repartition
repartition.SETTLED_S = float(sys.argv[6])
serve(ManagerSettings(data_dir=Path(sys.argv[1]), listen=sys.argv[2], policy=sys.argv[3],
                      lease_s=float(sys.argv[4]), fence_s=float(sys.argv[5])))
"""
_AGENT = """
import sys
from pathlib import Path
from agent.main import AgentSettings, run
run(AgentSettings(manager_url=sys.argv[1], token=Path(sys.argv[2]).read_text().strip(), node_id=sys.argv[3],
                  data_dir=Path(sys.argv[4]), simulate=sys.argv[5]))
"""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass(slots=True)
class Cluster:
    """A manager and its agents, each a process of its own."""

    root: Path
    policy: str = DEFAULT_POLICY
    nodes: tuple[str, ...] = NODES
    lease_s: float = LEASE_S
    fence_s: float = FENCE_S
    port: int = field(default_factory=_free_port)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    accepted: dict[str, Planned] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """Where the manager answers."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def token_file(self) -> Path:
        """The token that the manager makes for itself when it first starts.

        Raises:
            AssertionError: it does not make one in time.
        """
        path = self.root / "manager" / "token"
        wait_until(path.exists, START_TIMEOUT_S, "the manager has made its token")
        return path

    def client(self) -> Client:
        """A client of the manager."""
        return Client(self.url, self.token_file.read_text(encoding="utf-8").strip())

    def names(self) -> list[str]:
        """All processes: the manager and one agent a node."""
        return ["manager", *(f"node-{index}" for index in range(len(self.nodes)))]

    def start(self, name: str) -> None:
        """Start a process; it is not waited for."""
        if name == "manager":
            arguments = [_MANAGER, str(self.root / "manager"), f"127.0.0.1:{self.port}", self.policy]
            arguments += [str(self.lease_s), str(self.fence_s), str(SETTLED_S)]
        else:
            simulate = self.nodes[int(name.removeprefix("node-"))]
            arguments = [_AGENT, self.url, str(self.token_file), name, str(self.root / name), simulate]
        log = self.root / f"{name}.err"
        with log.open("ab") as errors:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-c", *arguments],
                cwd=Path(__file__).resolve().parent.parent,
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                start_new_session=True,
            )

    def start_all(self) -> None:
        """Start everything and wait until all nodes are there.

        Raises:
            AssertionError: they are not in time.
        """
        self.root.mkdir(parents=True, exist_ok=True)
        for name in self.names():
            self.start(name)
        self.wait_for_nodes()

    def wait_for_nodes(self) -> None:
        """Wait until the manager answers and knows all nodes."""
        with self.client() as client:
            wait_until(lambda: _nodes_up(client) == len(self.nodes), START_TIMEOUT_S, "all nodes are up")

    def kill(self, name: str) -> None:
        """End a process the hard way."""
        process = self.processes[name]
        process.kill()
        process.wait()

    def submit(self, planned: Planned, key: str) -> str:
        """Submit a job until it is accepted, however often the manager dies meanwhile.

        Raises:
            AssertionError: it is not accepted in time.
        """
        with self.client() as client:
            found: list[JobView] = []

            def accepted() -> bool:
                try:
                    found.append(client.submit(planned.spec, key))
                except (Unreachable, CotenantError):
                    return False
                return True

            wait_until(accepted, START_TIMEOUT_S, f"{planned.spec.name} is accepted")
        self.accepted[found[0].job_id] = planned
        return found[0].job_id

    def cancel(self, job_id: str) -> None:
        """Cancel a job, however often the manager dies meanwhile.

        Raises:
            AssertionError: the order is not accepted in time.
        """
        with self.client() as client:
            wait_until(
                lambda: bool(client.cancel(job_id)), START_TIMEOUT_S, f"the end of {job_id} is accepted"
            )

    def wait_for_end(self) -> list[str]:
        """Wait until every accepted job has ended; returns what is wrong with them.

        Raises:
            AssertionError: they have not in time.
        """
        with self.client() as client:

            def all_ended() -> bool:
                return all(client.job(job_id).state in ENDED for job_id in self.accepted)

            wait_until(all_ended, END_TIMEOUT_S, "all jobs have ended")
            return problems(
                client, [(client.job(job_id), planned) for job_id, planned in self.accepted.items()]
            )

    def moves(self) -> int:
        """How many times a job was moved so far."""
        with self.client() as client:
            return sum(moves(client.events(job_id)) for job_id in self.accepted)

    def stop(self) -> None:
        """End everything, the jobs first."""
        with self.client() as client:
            for job_id in self.accepted:
                try:
                    client.cancel(job_id)
                except CotenantError:
                    break
        for process in self.processes.values():
            process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def kill_round(cluster: Cluster, seed: int, kills: int) -> list[str]:
    """Keep jobs coming and kill processes at random moments; returns what was killed, in order.

    Raises:
        AssertionError: a job was not accepted in time although the manager was started again and again.
    """
    wanted = threading.Semaphore(0)
    with ThreadPoolExecutor(1) as pool:
        submitted = pool.submit(_keep_submitting, cluster, random.Random(f"{seed}/jobs"), kills, wanted)
        try:
            killed = _keep_killing(cluster, random.Random(f"{seed}/kills"), kills, wanted)
        finally:
            wanted.release(JOBS_PER_KILL * kills)  # the other thread ends whatever went wrong in this one
        submitted.result()
    return killed


def _keep_killing(
    cluster: Cluster, draw: random.Random, kills: int, wanted: threading.Semaphore
) -> list[str]:
    killed = []
    for _ in range(kills):
        wanted.release(JOBS_PER_KILL)
        time.sleep(draw.uniform(0.2, 2.2))  # the moment of the kill, not a wait for something
        victims = draw.choice((["manager"], ["node-0"], ["node-1"], ["manager", "node-0"], cluster.names()))
        for name in victims:
            cluster.kill(name)
        killed.append("+".join(victims))
        time.sleep(draw.uniform(0.0, 0.3))
        for name in victims:
            cluster.start(name)
    return killed


def _keep_submitting(cluster: Cluster, draw: random.Random, kills: int, wanted: threading.Semaphore) -> None:
    to_cancel: list[str] = []
    for number in range(JOBS_PER_KILL * kills):
        wanted.acquire()
        for job_id in to_cancel:
            cluster.cancel(job_id)
        planned = plan(cluster.root, draw, number)
        job_id = cluster.submit(planned, f"key-{number}")
        to_cancel = [job_id] if planned.status is None else []
    for job_id in to_cancel:
        cluster.cancel(job_id)


def wait_until(condition: Callable[[], bool], timeout_s: float, what: str) -> None:
    """Look again and again until something is true; a manager that is away is not yet true.

    Raises:
        AssertionError: it is not true in time.
    """
    deadline_s = time.monotonic() + timeout_s
    while True:
        try:
            if condition():
                return
        except (Unreachable, CotenantError):
            pass
        if time.monotonic() > deadline_s:
            raise AssertionError(f"not within {timeout_s:g} s: {what}")
        time.sleep(0.05)


def _nodes_up(client: Client) -> int:
    return sum(node.state == "up" for node in client.nodes())
