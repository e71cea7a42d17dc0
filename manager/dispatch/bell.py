"""Wakes the long polls of a node when a command for it is in the outbox."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager


class Bell:
    """Rung by the loop's thread, heard in the event loop of the server.

    A poll listens before it looks into the outbox, so a command that is written in between is not missed.
    """

    def __init__(self) -> None:
        # Reentrant: the signal that ends the manager is handled in the event loop's thread, maybe in here.
        self._lock = threading.RLock()
        self._listeners: dict[str, set[tuple[asyncio.AbstractEventLoop, asyncio.Event]]] = defaultdict(set)
        self._closed = False

    @contextmanager
    def listen(self, node_id: str) -> Iterator[asyncio.Event]:
        """An event that is set when the node has new commands, or the manager shuts down."""
        listener = (asyncio.get_running_loop(), asyncio.Event())
        with self._lock:
            if self._closed:
                listener[1].set()
            self._listeners[node_id].add(listener)
        try:
            yield listener[1]
        finally:
            with self._lock:
                self._listeners[node_id].discard(listener)
                if not self._listeners[node_id]:
                    del self._listeners[node_id]

    @property
    def closed(self) -> bool:
        """Whether the manager shuts down."""
        return self._closed

    def ring(self, node_ids: Iterable[str]) -> None:
        """Wake the polls of these nodes."""
        with self._lock:
            listeners = [listener for node_id in node_ids for listener in self._listeners.get(node_id, ())]
        _wake(listeners)

    def close(self) -> None:
        """Wake all polls, now and from now on: they answer at once."""
        with self._lock:
            self._closed = True
            listeners = [listener for some in self._listeners.values() for listener in some]
        _wake(listeners)


def _wake(listeners: Iterable[tuple[asyncio.AbstractEventLoop, asyncio.Event]]) -> None:
    for loop, event in listeners:
        try:
            loop.call_soon_threadsafe(event.set)
        except RuntimeError:
            continue  # that server's loop has ended, and its polls with it
