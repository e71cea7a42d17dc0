"""The node's contact with the manager: each successful call renews the lease that the shims' fences watch."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator

from agent.journal import Journal
from placement.model import OperationFailed

_LOG = logging.getLogger(__name__)


class Contact:
    """Knows when the manager was last reached; may be used by several threads.

    The manager renews the node's lease with every call that reaches it, so the agent does as well: were only
    heartbeats to count here, jobs would be killed on a node that the manager takes for well.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._lock = threading.Lock()
        self._latest_s = float("-inf")
        self._silent = False
        self.trusted = True
        """Whether it is the right manager that answers; calls that reach another one do not count."""

    @contextlib.contextmanager
    def call(self) -> Iterator[None]:
        """Around a call to the manager: if it succeeds, the contact counts from when the call began.

        The manager saw it later than that, never earlier; so a fence falls before the node is given up.
        """
        begun_s, begun_at_s = time.monotonic(), time.time()
        yield
        with self._lock:
            # By the clock that is never set: a long poll that began before a heartbeat takes nothing back.
            if not self.trusted or begun_s <= self._latest_s:
                return
            self._latest_s = begun_s
            try:
                self._journal.touch_lease(begun_at_s)
                self._silent = False
            except OperationFailed as error:
                if not self._silent:
                    _LOG.warning("%s; jobs will be fenced", error)
                self._silent = True
