"""The agent's threads: sign of life, commands, reports, and looking after the workers.

Each goes on by itself when the manager is away; what there is to tell stays on disk until it can be told.
Jobs go on until their shims' fences fall, ``fence_s`` after the last contact.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable

from agent.backoff import Backoff
from agent.contact import Contact
from agent.devices import Devices, Telemetry
from agent.executor import Executor
from agent.journal import Journal
from agent.lanes import Lanes
from agent.uplink import Uplink, Way
from manager.wire.agent_models import (
    AgentCommand,
    CommandKind,
    GpuTelemetry,
    Heartbeat,
    HeldWorker,
    NodeReport,
    Welcome,
)
from manager.wire.client import Client
from placement.model import CotenantError, Node, NotFound, OperationFailed, StateError

_LOG = logging.getLogger(__name__)
POLL_WAIT_S = 20.0
TEND_EVERY_S = 0.1
IDLE_EVERY_S = 1.0
HEARTBEATS_PER_LEASE = 4
MOST_BETWEEN_HEARTBEATS_S = 5.0
STARTS_AT_ONCE = 4
"""Starting a worker mostly waits for the disk."""
STARTS_END_S = 10.0
"""How long starts are waited for at the end; the next agent does those that hang again."""


class Agent:
    """One node's agent."""

    def __init__(self, node: Node, client: Client, journal: Journal, devices: Devices) -> None:
        self._node_id = node_id = node.node_id
        self._client = client
        self._journal = journal
        self._devices = devices
        self._node = node
        self._instance = journal.instance()
        self._database_id = journal.database_id()
        self._epoch = journal.epoch()
        self._lanes = Lanes(STARTS_AT_ONCE)
        self._executor = Executor(journal, devices, self._lanes)
        models = {gpu.uuid: gpu.model for gpu in self._node.gpus}
        self._contact = Contact(journal)
        self._uplink = Uplink(Way(client, node_id, self._contact), self._executor, models)
        self._joined = threading.Event()
        self._work = threading.Event()
        """Set when there is something to look after at once."""
        self._stop = threading.Event()
        self._heartbeat_s = 1.0

    def run(self, draw: random.Random) -> None:
        """Work until :meth:`stop`; ``draw`` spreads the retries."""
        loops = {
            "heartbeat": self._beat,
            "commands": self._obey,
            "reports": self._report,
            "workers": self._tend,
        }
        threads = [
            threading.Thread(
                target=self._keep_on,
                name=name,
                args=(step, Backoff(draw)),
                daemon=True,
            )
            for name, step in loops.items()
        ]
        for thread in threads:
            thread.start()
        self._stop.wait()
        # Shims that are being started are waited for; a long poll is simply left.
        threads[-1].join(timeout=5)
        self._lanes.close(STARTS_END_S)

    def stop(self) -> None:
        """End :meth:`run`; workers go on, up to the fence time, for the next agent."""
        self._stop.set()
        self._work.set()
        self._joined.set()

    def _keep_on(self, step: Callable[[], None], backoff: Backoff) -> None:
        """Repeat a step for ever; after a failure wait, longer each time."""
        said: type[CotenantError] | None = None
        while not self._stop.is_set():
            try:
                step()
                backoff.reset()
                said = None
            except CotenantError as error:
                if said is not type(error):
                    _LOG.warning("%s: %s; trying again", threading.current_thread().name, error)
                said = type(error)
                self._stop.wait(backoff.next_s())
            except Exception:
                if not self._stop.is_set():
                    _LOG.exception("%s: unexpected", threading.current_thread().name)
                self._stop.wait(backoff.next_s())

    # Sign of life

    def _beat(self) -> None:
        try:
            if not self._joined.is_set():
                self._join()
            else:
                beat = self._sign_of_life()
                with self._contact.call():
                    self._welcomed(self._client.heartbeat(self._node_id, beat))
        except NotFound:
            self._joined.clear()  # a manager that does not know this node: join again
            return
        except StateError:
            # It does not take us for this node: do nothing for it, and let the fences fall.
            self._contact.trusted = False
            self._joined.clear()
            raise
        self._stop.wait(self._heartbeat_s)

    def _join(self) -> None:
        """Say what the node is made of, and who speaks for it.

        Raises:
            StateError: another agent does, or the manager's database is not the one of the journal.
        """
        who: dict[str, object] = {"instance": self._instance}
        if self._executor.lives():
            # Without one we may belong to any database.
            who |= {"database_id": self._database_id, "epoch": self._epoch}
        report = NodeReport.of(self._node, simulated=self._devices.simulated).model_copy(update=who)
        with self._contact.call():
            self._welcomed(self._client.register(self._node_id, report))
        self._joined.set()
        _LOG.info("joined as %s with %d GPUs", self._node_id, len(self._node.gpus))

    def _sign_of_life(self) -> Heartbeat:
        telemetry = self._telemetry()
        return Heartbeat(
            epoch=self._epoch,
            instance=self._instance,
            workers=[
                HeldWorker(job_id=w.key.job_id, attempt=w.key.attempt, worker=w.key.worker, state=w.state())
                for w in self._executor.workers()
            ],
            telemetry=[
                GpuTelemetry(gpu_uuid=t.gpu_uuid, sm_milli=t.sm_milli, memory_used_bytes=t.memory_used_bytes)
                for t in telemetry
            ],
        )

    def _telemetry(self) -> tuple[Telemetry, ...]:
        try:
            return self._devices.telemetry(self._executor.tenants())
        except Exception:
            _LOG.exception("telemetry: unexpected")  # a GPU that cannot be read is no reason to seem dead
            return ()

    def _welcomed(self, welcome: Welcome) -> None:
        self._see_database(welcome.database_id)
        self._see_epoch(welcome.epoch)
        self._executor.fence_s = welcome.fence_s
        self._executor.learn(welcome.profiles)
        self._heartbeat_s = min(MOST_BETWEEN_HEARTBEATS_S, welcome.lease_s / HEARTBEATS_PER_LEASE)

    def _see_database(self, database_id: str) -> None:
        """Belong to the database of the manager, to another one than before only if no worker lives."""
        if not database_id or database_id == self._database_id:
            return
        try:
            if self._database_id is None:
                self._journal.set_database_id(database_id)
            elif self._joined.is_set() or not self._executor.start_afresh(database_id):
                raise StateError(
                    f"the manager has database {database_id}, but the attempts in {self._journal.data_dir} "
                    f"belong to {self._database_id}"
                )
            else:
                self._epoch = 0
        except OSError as error:
            raise OperationFailed(f"the manager's database cannot be written down: {error}") from error
        self._database_id = database_id

    def _see_epoch(self, epoch: int) -> None:
        self._contact.trusted = epoch >= self._epoch
        if epoch < self._epoch:
            raise StateError(
                f"a manager of epoch {epoch} answers, but epoch {self._epoch} was seen: an old one runs, "
                f"or its database is new; if it is, stop this agent and remove {self._journal.data_dir}/epoch"
            )
        if epoch > self._epoch:
            try:
                self._journal.set_epoch(epoch)
            except OSError as error:
                _LOG.warning("epoch %d cannot be written down: %s", epoch, error)
            self._epoch = epoch

    # Commands

    def _obey(self) -> None:
        self._joined.wait()
        if self._stop.is_set():
            return
        with self._contact.call():
            commands = self._client.commands(self._node_id, 0, POLL_WAIT_S)
        if not self._joined.is_set():
            return  # refused while the poll was under way: these are another agent's
        done = 0
        try:
            for command in commands:
                self._see_epoch(command.epoch)
                self._do(command)
                done = command.sequence
        finally:
            if done:
                self._work.set()
                with self._contact.call():
                    self._client.ack(self._node_id, done)

    def _do(self, command: AgentCommand) -> None:
        if command.kind is CommandKind.STOP:
            try:
                self._executor.stop(command)
            except OSError as error:
                raise OperationFailed(f"stop of {command.job_id}: {error}") from error
            return
        try:
            self._executor.start(command)
        except Exception as error:
            # It would come again for ever, and no later command be done.
            _LOG.exception("start of %s: unexpected", command.job_id)
            self._executor.refuse(command, f"cannot start: {type(error).__name__}: {error}"[:1000])

    # Workers

    def _tend(self) -> None:
        self._executor.tend()
        self._work.wait(TEND_EVERY_S if self._executor.workers() else IDLE_EVERY_S)
        self._work.clear()

    def _report(self) -> None:
        self._joined.wait()
        if not self._uplink.send():
            self._stop.wait(TEND_EVERY_S)
