"""Composition root of the agent: one process per node."""

from __future__ import annotations

import contextlib
import logging
import os
import random
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType

from agent.devices import Devices
from agent.journal import Journal
from agent.loop import Agent
from agent.simulated import SimulatedDevices
from manager.wire.client import Client

REQUEST_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """How an agent runs.

    ``simulate`` is a short form such as ``4xA100-SXM4-80GB``; None uses the GPUs that NVML shows.  ``truth``
    names the interference model that slows jobs on simulated GPUs.  ``rack`` and ``nvlink_domain`` say which
    nodes are near; None is unknown.
    """

    manager_url: str
    token: str | None = field(repr=False)
    node_id: str
    data_dir: Path
    simulate: str | None = None
    truth: str = "additive"
    rack: str | None = None
    nvlink_domain: str | None = None


def run(settings: AgentSettings) -> None:
    """Run the agent of this node until SIGTERM or SIGINT.

    Its jobs go on without it, and the next agent takes them up if it reaches the manager before the fence
    time is over (``fence_s`` of the manager, by default 120 s): then they end, as they may run elsewhere.

    Raises:
        InvalidInput: the settings cannot work, or another agent uses the data folder.
    """
    if not logging.getLogger().handlers:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s agent: %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    devices = devices_of(settings)
    journal = Journal(settings.data_dir.absolute())
    with (
        contextlib.closing(journal),
        Client(settings.manager_url, settings.token, REQUEST_TIMEOUT_S) as client,
    ):
        made_of = devices.node(settings.node_id)
        node = replace(made_of, rack=settings.rack, nvlink_domain=settings.nvlink_domain)
        agent = Agent(node, client, journal, devices)
        if threading.current_thread() is threading.main_thread():
            end_on_signals(agent.stop)
        agent.run(random.Random(f"{settings.node_id}/{os.getpid()}"))  # noqa: S311 - spreads retries


def devices_of(settings: AgentSettings) -> Devices:
    """The GPUs of this node.

    Raises:
        InvalidInput: the simulated node or the truth model is not known.
    """
    if settings.simulate is not None:
        return SimulatedDevices.named(settings.simulate, settings.node_id, settings.truth)
    from agent.nvml import NvmlDevices

    return NvmlDevices()


def end_on_signals(stop: Callable[[], None]) -> None:
    """Have ``stop`` called, by a thread of its own, at SIGTERM or SIGINT.

    A handler runs wherever the main thread happens to be, perhaps inside a lock that ``stop`` needs as well.
    So it only writes into a pipe, and a thread that holds nothing does the rest.
    """
    reader, writer = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(writer, False)

    def tell(number: int, frame: FrameType | None) -> None:
        with contextlib.suppress(BlockingIOError):  # it is full of signals: the first one is enough
            os.write(writer, b"!")

    def wait() -> None:
        os.read(reader, 1)
        stop()

    threading.Thread(target=wait, name="signals", daemon=True).start()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, tell)
