"""Runs workers: gives each its shares, its environment, its shim and its pace, and knows how it is."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from agent import attempt, leftovers
from agent.attempt import BrokenFile, EndCause, Exit, Order, StopRequest
from agent.devices import Devices, Tenant, WorkerKey
from agent.environment import base_environment, job_environment
from agent.journal import Entry, Journal
from agent.lanes import Lanes
from agent.launch import launch
from agent.partitioner import Partitioner, gpus_to_cut
from manager.wire.agent_models import AgentCommand, WorkerState
from manager.wire.models import ProfileSpec
from placement.model import OperationFailed, Profile, Share

_LOG = logging.getLogger(__name__)
CHECK_SHIM_S = 1.0
"""How often a running worker's shim is looked for; it is rarely gone."""

FORGOTTEN = "it has run here before, and how it ended is no longer known"
"""The answer to a start command that comes again after its end; a manager that has the end keeps that."""


@dataclass(slots=True)
class Worker:
    """A worker that this node holds, from its start command until its exit report is accepted."""

    key: WorkerKey
    folder: Path
    command: AgentCommand | None
    end: Exit | None = None
    check_at_s: float = 0.0
    speed: float | None = None
    sent_bytes: int = 0
    sent_step: int = -1
    first_seen: tuple[int, float] | None = None
    """The first step that was read, and when (monotonic): for programs that report no times."""
    started_sent: bool = False
    refused_since_s: float | None = None
    """Since when its output cannot be sent, although the manager answers."""
    output_lost: str = ""
    """Why the rest of its output was given up, if it was."""
    exit_again_at_s: float = 0.0
    """Not before then (monotonic) is its refused exit report sent again; 0 if none was refused."""
    stumbled: bool = False
    """Whether it was said that nothing can be told of it."""
    shares: tuple[Share, ...] = field(default=())

    def state(self) -> WorkerState:
        """What the manager is told of it."""
        if self.end is not None:
            return WorkerState.EXITED
        if (self.folder / attempt.STOP).exists():
            return WorkerState.STOPPING
        if (self.folder / attempt.STARTED).exists():
            return WorkerState.RUNNING
        return WorkerState.STARTING


class Executor:
    """All workers of this node; its methods may be called from several threads."""

    def __init__(self, journal: Journal, devices: Devices, lanes: Lanes | None = None) -> None:
        self.fence_s: float | None = None
        """How long a worker may run without contact to the manager; for those that start from now on."""
        self._lanes = lanes
        """Where workers are started, side by side; None starts each at once."""
        self._journal = journal
        self._devices = devices
        self._partitioner = Partitioner(devices, journal.data_dir)
        self._lock = threading.RLock()
        self._profiles: dict[str, Profile] = {}
        self._base = base_environment(os.environ)
        self._home = str(Path.cwd())
        self._workers = {entry.key: _adopted(entry) for entry in journal.entries()}
        self._repace = True
        """Whether somebody ended since the pace was set; who was adopted may have lost neighbours unseen."""

    # Commands

    def start(self, command: AgentCommand) -> None:
        """Do a start command; one that comes again changes nothing.  A failure becomes the worker's end.

        The command is on disk when this returns.  Cutting GPUs and starting the shim come later: a driver or
        an MPS daemon that does not answer must not hold up the commands for other GPUs.
        """
        key = WorkerKey(command.job_id, command.attempt, command.worker)
        if key in self._workers:
            return
        if self._journal.is_over(key):
            end = _ended_by(EndCause.LOST, FORGOTTEN)
            with self._lock:
                self._workers[key] = Worker(key, self._journal.folder(key), command, end)
            return
        if self._journal.knows(key):
            return
        worker = Worker(key, self._journal.folder(key), command, check_at_s=math.inf, shares=_shares(command))
        try:
            self._journal.begin(command, self._order(command, {}))
        except OSError as error:
            worker.end = _ended_by(EndCause.LAUNCH_FAILED, _no_room(error, worker.folder))
        with self._lock:
            self._workers[key] = worker
            self._pace()
        if worker.end is None:
            self._begin(worker)

    def refuse(self, command: AgentCommand, message: str) -> None:
        """A start command that cannot be done: the worker ends with that, unless it is known already."""
        key = WorkerKey(command.job_id, command.attempt, command.worker)
        with self._lock:
            if key not in self._workers and not self._journal.knows(key):
                worker = Worker(key, self._journal.folder(key), command)
                worker.end = self._never_started(command, message)
                self._workers[key] = worker

    def stop(self, command: AgentCommand) -> None:
        """Do a stop command; of a worker that never came here, remember that it must not start.

        Raises:
            OSError: no room to write the request down.
        """
        key = WorkerKey(command.job_id, command.attempt, command.worker)
        cause = "" if command.cause is None else command.cause.value
        with self._lock:
            worker = self._workers.get(key)
            if worker is None:
                if not self._journal.knows(key):
                    end = _ended_by(EndCause.STOPPED, cause)
                    folder = self._journal.entomb(command, end)
                    self._workers[key] = Worker(key, folder, command, end)
                return
            if worker.end is None:
                attempt.request_stop(worker.folder, StopRequest(command.grace_s, cause))
                # One whose GPU cannot be cut yet is not to be waited for.
                self._ended(worker, _given_up(worker.folder, _ended_by(EndCause.STOPPED, cause)))

    def _order(self, command: AgentCommand, env: Mapping[str, str]) -> Order:
        return Order(
            job_id=command.job_id,
            attempt=command.attempt,
            worker=command.worker,
            command=tuple(command.command),
            env=env,
            workdir=command.workdir or self._home,
            lease_path=None if self.fence_s is None else str(self._journal.lease_path),
            fence_s=self.fence_s,
        )

    def _never_started(self, command: AgentCommand, message: str) -> Exit:
        end = _ended_by(EndCause.LAUNCH_FAILED, message)
        with contextlib.suppress(OSError):  # a full disk: the report goes out from memory
            self._journal.entomb(command, end)
        return end

    # Starting

    def _begin(self, worker: Worker) -> None:
        """Have a worker started, after those that need the same GPUs cut."""
        worker.check_at_s = math.inf  # nobody else looks while its shim is being started
        if self._lanes is None:
            self._launch(worker)
        else:
            self._lanes.submit(gpus_to_cut(worker.shares), partial(self._launch, worker))

    def _launch(self, worker: Worker) -> None:
        if not worker.folder.is_dir():
            self._vanished(worker)
            return
        try:
            self._prepare(worker)
            if worker.end is None:  # it may have been stopped meanwhile
                launch(worker.folder)
        except OperationFailed as error:
            self._failed(worker, str(error))
        except OSError as error:
            self._failed(worker, _no_room(error, worker.folder))
        except Exception as error:
            _LOG.exception("start of %s: unexpected", worker.folder.name)
            self._failed(worker, f"cannot start: {type(error).__name__}: {error}"[:1000])
        finally:
            worker.check_at_s = time.monotonic() + CHECK_SHIM_S

    def _prepare(self, worker: Worker) -> None:
        """Complete the order with the environment, which is known when the shares are there."""
        try:
            order = attempt.read_order(worker.folder)
        except BrokenFile:
            return  # the shim says so
        if order is None or order.env:
            return
        if worker.command is None:
            raise OperationFailed("cannot start: its command cannot be read")
        prepared = self._partitioner.ensure(worker.shares)
        env = job_environment(self._base, worker.command, prepared, worker.folder)
        attempt.write_order(worker.folder, replace(order, env=env))

    def _vanished(self, worker: Worker) -> None:
        """Its folder is gone: whatever it started must be as well, before anybody starts it again.

        It counts as a failure: else a job that removes its own folder would run for ever.
        """
        leftovers.kill_marked(str(worker.folder / attempt.PROGRESS))
        message = f"{worker.folder} was removed; what was left of the job has been killed"
        self._ended(worker, _ended_by(EndCause.EXITED, message))

    def _failed(self, worker: Worker, message: str) -> None:
        if not worker.folder.is_dir():
            self._vanished(worker)
            return
        end = _given_up(worker.folder, _ended_by(EndCause.LAUNCH_FAILED, message))
        if end is None:
            _LOG.warning("%s: %s; trying again", worker.folder.name, message)
        elif worker.end is None:
            self._ended(worker, end)

    # Looking after them

    def tend(self) -> None:
        """See who has ended, give every worker a shim that looks after it, and set the pace."""
        with self._lock:
            workers = [worker for worker in self._workers.values() if worker.end is None]
        now_s = time.monotonic()
        for worker in workers:
            end = _end_of(worker.folder)
            if end is not None:
                self._ended(worker, end)
            elif worker.end is None and now_s >= worker.check_at_s:
                worker.check_at_s = now_s + CHECK_SHIM_S
                if not attempt.has_shim(worker.folder) and _end_of(worker.folder) is None:
                    self._begin(worker)
        with self._lock:
            if self._repace:
                self._repace = False
                self._pace()

    def _ended(self, worker: Worker, end: Exit | None) -> None:
        """Take note of an end, whichever thread sees it first: the neighbours are to get their speed back."""
        if end is not None:
            with self._lock:
                worker.end = end
                self._repace = True

    def learn(self, profiles: Sequence[ProfileSpec]) -> None:
        """Take over what the manager knows of profiles."""
        with self._lock:
            known = {spec.name: spec.to_profile() for spec in profiles}
            if known != self._profiles:
                self._profiles = known
                self._pace()

    def _pace(self) -> None:
        for key, speed in self._devices.speeds(self.tenants()).items():
            worker = self._workers[key]
            if worker.speed != speed:
                try:
                    attempt.write_speed(worker.folder, speed)
                    worker.speed = speed
                except OSError as error:
                    _LOG.warning("%s: its pace cannot be set: %s", worker.folder.name, error)

    def lives(self) -> bool:
        """Whether any worker has not ended."""
        with self._lock:
            return any(worker.end is None for worker in self._workers.values())

    def start_afresh(self, database_id: str) -> bool:
        """Belong to another database and forget all workers; False, and nothing is done, if one lives.

        Raises:
            OSError: no room.
        """
        with self._lock:
            if self.lives():
                return False
            old = self._journal.put_away(database_id)
            self._workers.clear()
        _LOG.warning("the manager has a new database; attempts of the former one are now in %s", old)
        return True

    # Views

    def workers(self) -> list[Worker]:
        """All workers held."""
        with self._lock:
            return list(self._workers.values())

    def tenants(self) -> list[Tenant]:
        """Who uses GPUs now."""
        with self._lock:
            return [
                Tenant(worker.key, worker.shares, self.profile(worker))
                for worker in self._workers.values()
                if worker.end is None and worker.shares
            ]

    def profile(self, worker: Worker) -> Profile | None:
        """The worker's profile: the manager's newest, else the one that came with its command."""
        if worker.command is None or worker.command.profile is None:
            return None
        known = self._profiles.get(worker.command.profile.name)
        return worker.command.profile.to_profile() if known is None else known

    def finish(self, worker: Worker) -> None:
        """The manager has the worker's exit report: forget it."""
        if self._workers.get(worker.key) is not worker:
            return  # of a former database
        try:
            self._journal.finish(worker.key)
        except OSError as error:
            # Its folder stays: the next agent sends the report again, which changes nothing.
            _LOG.warning("%s: cannot be tidied away: %s", worker.folder.name, error)
        with self._lock:
            self._workers.pop(worker.key, None)


def _adopted(entry: Entry) -> Worker:
    shares = () if entry.command is None else _shares(entry.command)
    return Worker(entry.key, entry.folder, entry.command, _end_of(entry.folder), shares=shares)


def _shares(command: AgentCommand) -> tuple[Share, ...]:
    if command.assignment is None:
        return ()
    return tuple(share.to_share() for share in command.assignment.shares)


def _end_of(folder: Path) -> Exit | None:
    """How it ended; None while a shim is there, whose last word is its last act."""
    if not (folder / attempt.EXIT).exists() or attempt.has_shim(folder):
        return None
    return _last_word(folder)


def _last_word(folder: Path) -> Exit | None:
    try:
        return attempt.read_exit(folder)
    except BrokenFile as error:
        return _ended_by(EndCause.LOST, f"its exit status cannot be read: {error}")


def _given_up(folder: Path, end: Exit) -> Exit | None:
    """Make sure that no shim starts this job any more; None if one has, or may still do so."""
    try:
        lock = attempt.take_lock(folder)
    except OSError:
        # Where the lock cannot even be made, no shim can be; else it may be there and out of sight.
        return None if (folder / attempt.LOCK).exists() else end
    if lock is None:
        return None
    try:
        if (folder / attempt.STARTING).exists() or (folder / attempt.EXIT).exists():
            return _last_word(folder)
        with contextlib.suppress(OSError):
            attempt.write_exit(folder, end)
    finally:
        os.close(lock)
    return end


def _ended_by(cause: EndCause, message: str) -> Exit:
    return Exit(cause, None, message, time.time())


def _no_room(error: OSError, folder: Path) -> str:
    return f"no room for logs: {error.strerror} in {folder.parent}"
