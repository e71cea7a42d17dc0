"""Which nodes answer: each contact renews a node's lease; one that runs out makes it lost, then fenced."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass

from manager.store import NodeState
from placement.model import NodeFenced, NodeLost


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """After ``lease_s`` without contact a node is lost; ``fence_s`` later its jobs have ended themselves."""

    lease_s: float = 15.0
    fence_s: float = 120.0


class Leases:
    """The leases of all nodes, in memory: a new manager gives every node a fresh one."""

    def __init__(self, times: LeaseTimes) -> None:
        self.times = times
        self._states: dict[str, NodeState] = {}
        self._seen_s: dict[str, float] = {}
        self._agents: dict[str, str] = {}
        self._heard: set[str] = set()
        self._lock = threading.Lock()

    def load(self, nodes: Iterable[tuple[str, NodeState]], now_s: float) -> None:
        """Take over what the store says of nodes; those not heard of yet get a fresh lease."""
        with self._lock:
            for node_id, state in nodes:
                self._states[node_id] = state
                self._seen_s.setdefault(node_id, now_s)

    def touch(self, node_id: str, now_s: float) -> None:
        """The node's agent is in contact, and what it said of the node is known."""
        with self._lock:
            self._heard.add(node_id)
            self._seen_s[node_id] = max(now_s, self._seen_s.get(node_id, now_s))

    def claim(self, node_id: str, agent: str, now_s: float) -> bool:
        """An agent speaks for the node: renews its lease, unless another one was in contact within it."""
        with self._lock:
            seen_s = self._seen_s.get(node_id, now_s)
            foreign = self._agents.get(node_id, agent) != agent
            if foreign and now_s < seen_s + self.times.lease_s:
                return False
            self._agents[node_id] = agent
            self._seen_s[node_id] = max(now_s, seen_s)
            return True

    def settle(self, node_id: str, state: NodeState, now_s: float) -> None:
        """The core has taken this state; a node not heard of yet gets a fresh lease."""
        with self._lock:
            self._states[node_id] = state
            self._seen_s.setdefault(node_id, now_s)

    def state(self, node_id: str) -> NodeState | None:
        """The state that the core has taken last, None for a node that it does not know."""
        with self._lock:
            return self._states.get(node_id)

    def last_seen_s(self, node_id: str) -> float | None:
        """When the node's agent was last in contact, None if never since this manager started."""
        with self._lock:
            return self._seen_s[node_id] if node_id in self._heard else None

    def due(self, now_s: float) -> list[NodeLost | NodeFenced]:
        """What the core has to be told now, by node id."""
        with self._lock:
            events: list[NodeLost | NodeFenced] = []
            for node_id in sorted(self._states):
                if now_s < self._ends_s(node_id):
                    continue
                state = self._states[node_id]
                if state is NodeState.UP:
                    events.append(NodeLost(node_id))
                elif state is NodeState.LOST:
                    events.append(NodeFenced(node_id))
            return events

    def next_due_s(self) -> float | None:
        """When the next lease runs out, None if none can."""
        with self._lock:
            waiting = [n for n, state in self._states.items() if state in (NodeState.UP, NodeState.LOST)]
            return min(map(self._ends_s, waiting), default=None)

    def _ends_s(self, node_id: str) -> float:
        fence_s = self.times.fence_s if self._states[node_id] is NodeState.LOST else 0.0
        return self._seen_s[node_id] + self.times.lease_s + fence_s
