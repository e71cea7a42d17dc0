"""A manager and its agents on this machine: what `up` keeps running, and what the demonstration runs on."""

from __future__ import annotations

import json
import math
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cli.failures import BAD_INPUT
from cli.supervisor import Program, Supervisor

if TYPE_CHECKING:
    from manager.wire.client import Client
    from manager.wire.discovery import Endpoint
    from manager.wire.models import NodeView

START_WAIT_S = 180.0
"""How long the manager and the agents may take to be there; a busy machine imports and compiles slowly."""
POLL_S = 0.1
WORD_STANDS_S = 1.0
"""The last word of a program that is waited for is passed on if nothing happens for so long after it."""
MANAGER = "manager"


@dataclass(frozen=True, slots=True)
class LocalNode:
    """One agent: ``simulate`` is the short form of a simulated node, None for the GPUs of this machine."""

    node_id: str
    simulate: str | None = None


@dataclass(frozen=True, slots=True)
class LocalSettings:
    """What to start, and where its files lie; the options are those of the two commands."""

    data_dir: Path
    nodes: Sequence[LocalNode]
    listen: str
    manager_options: Sequence[str] = ()
    agent_options: Sequence[str] = ()


class Interrupted(Exception):
    """The user wants it to end before it is there."""


class LocalCluster:
    """Starts a manager and agents as processes, waits until they are there, ends them in order."""

    def __init__(self, settings: LocalSettings, stop: threading.Event, tell: Callable[[str], None]) -> None:
        self._settings = settings
        self._stop = stop
        self._tell = tell
        self.supervisor = Supervisor(tell)

    @property
    def endpoint_path(self) -> Path:
        """Where the manager leaves its address and the place of its token."""
        return self._settings.data_dir / "endpoint.json"

    def start_manager(self) -> Endpoint:
        """Start the manager and wait until it answers.

        Raises:
            InvalidInput: it refused an option; the message holds its last word.
            OperationFailed: it ended otherwise, or did not answer in time.
            Interrupted: the user wants it to end.
        """
        self.endpoint_path.unlink(missing_ok=True)
        self.supervisor.start(self._manager(self._settings.listen))
        self._wait_until("the manager", MANAGER, self._manager_answers)
        endpoint = self._endpoint()
        # Started again, it must answer where the agents look for it, even if the port was any free one.
        self.supervisor.change(self._manager(endpoint.url.removeprefix("http://")))
        return endpoint

    def start_agents(self, client: Client) -> list[NodeView]:
        """Start one agent per node and wait until the manager knows them all as up.

        Raises:
            InvalidInput: one refused an option; the message holds its last word.
            OperationFailed: one ended otherwise, or did not join in time.
            Interrupted: the user wants it to end.
        """
        wanted = {node.node_id for node in self._settings.nodes}
        for node in self._settings.nodes:
            self.supervisor.start(self._agent(node))
        for node_id in sorted(wanted):
            self._wait_until(f"node {node_id}", f"agent {node_id}", lambda: wanted <= _up(client))
        joined = {node.node_id: node for node in client.nodes()}
        return [joined[node_id] for node_id in sorted(wanted)]

    def _manager(self, listen: str) -> Program:
        data_dir = self._settings.data_dir
        options = ("--listen", listen, "--data-dir", str(data_dir), *self._settings.manager_options)
        arguments = _cotenant("manager", *options)
        return Program(MANAGER, arguments, data_dir / "manager.log")

    def _agent(self, node: LocalNode) -> Program:
        data_dir = self._settings.data_dir
        endpoint = self._endpoint()
        simulate = [] if node.simulate is None else ["--simulate", node.simulate]
        arguments = _cotenant(
            "agent",
            "--manager",
            endpoint.url,
            "--node-id",
            node.node_id,
            "--data-dir",
            str(data_dir / "agents" / node.node_id),
            *simulate,
            *self._settings.agent_options,
        )
        # The token goes through the environment: an argument would show in the list of processes.
        environment = {} if endpoint.token is None else {"COTENANT_TOKEN": endpoint.token}
        return Program(
            f"agent {node.node_id}", arguments, data_dir / f"agent-{node.node_id}.log", environment
        )

    def _wait_until(self, what: str, program: str, there: Callable[[], bool]) -> None:
        from placement.model import InvalidInput, OperationFailed

        deadline_s = time.monotonic() + START_WAIT_S
        word, tell_at_s = "", math.inf
        while not there():
            death = self.supervisor.death_of(program)
            if death is not None:
                kind = InvalidInput if death.status == BAD_INPUT else OperationFailed
                raise kind(f"{what} could not start: {death.last_word}")
            latest, now_s = self.supervisor.last_word_of(program), time.monotonic()
            if latest != word:
                word, tell_at_s = latest, now_s + WORD_STANDS_S
            elif now_s > tell_at_s:
                self._tell(f"{program}: {word}")
                tell_at_s = math.inf
            if now_s > deadline_s:
                logs = self._settings.data_dir
                raise OperationFailed(
                    f"{what} did not start within {START_WAIT_S:g} s; see the logs in {logs}"
                )
            if self._stop.wait(POLL_S):
                raise Interrupted

    def _manager_answers(self) -> bool:
        from manager.wire.client import Client

        if not self.endpoint_path.exists():
            return False
        with Client(self._endpoint().url, None, timeout_s=2.0) as client:
            return client.healthy()

    def _endpoint(self) -> Endpoint:
        from manager.wire.discovery import Endpoint

        stored = json.loads(self.endpoint_path.read_text(encoding="utf-8"))
        token = Path(stored["token_file"]).read_text(encoding="utf-8").strip()
        return Endpoint(stored["url"], token)


def _cotenant(*arguments: str) -> list[str]:
    """The command line of a cotenant program in this very environment."""
    return [sys.executable, "-m", "cli", *arguments]


def _up(client: Client) -> set[str]:
    # The manager also knows the nodes of its last life, for which no agent has spoken yet.
    return {node.node_id for node in client.nodes() if node.state == "up" and node.last_seen_s is not None}
