"""The composition root: puts a manager together and serves it until it is told to end."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import uvicorn

from manager.clock import SteadyClock
from manager.dispatch import Bell
from manager.http.app import create_app
from manager.leases import Leases
from manager.logs import LogStore
from manager.loop import Loop
from manager.reconcile import Reconciler
from manager.services import Services
from manager.settings import ManagerSettings, load_token, prepare_data_dir
from manager.speeds import Speeds
from manager.store import Store
from manager.wire.discovery import write_endpoint
from placement.engine import compile_kernels
from placement.model import CotenantError, OperationFailed
from placement.policies import policy_named

__all__ = ["ManagerSettings", "assemble", "serve"]

log = logging.getLogger("manager")

_DRAIN_S = 5
"""How long requests that are being answered may take after the order to end."""


def serve(settings: ManagerSettings) -> None:
    """Run a manager until SIGTERM or SIGINT; agents keep running without it, and jobs for ``fence_s``.

    A killed manager leaves nothing half done: the next one on the same data folder goes on where it was.

    Raises:
        InvalidInput: a setting is wrong.
        OperationFailed: the address is taken, the data folder is in use, or another manager took over.
    """
    settings.check()
    os.umask(0o077)  # the database holds the environment of jobs, and with it their secrets
    prepare_data_dir(settings.data_dir)
    _log_to_stderr()
    with _sole_owner(settings.data_dir), _listening(settings) as (listener, url):
        # Before it leads: no decision, and no lease, waits for a compiler.
        compile_kernels(policy_named(settings.policy).placement, log.info)
        services = assemble(settings)
        try:
            if settings.token is None:
                write_endpoint(settings.data_dir / "endpoint.json", url, settings.token_path)
            log.info("manager epoch %d answers at %s", services.epoch, url)
            _run(services, listener)
        finally:
            services.loop.stop()
            services.store.close()
    log.info(
        "manager ended; running jobs go on for up to %g s without a manager, start one before that",
        settings.fence_s,
    )


def assemble(settings: ManagerSettings) -> Services:
    """Open the store and take the leadership; who serves it sets ``listeners.fatal``, then starts the loop.

    Raises:
        InvalidInput, OperationFailed: the token or the database cannot be used.
    """
    token = load_token(settings)
    store = Store.open(settings.url)
    store.steps.begin_epoch()
    clock = SteadyClock(store.steps.load().now_s)
    leases, bell = Leases(settings.lease_times), Bell()
    loop = Loop(store, settings.core, clock, leases)
    loop.listeners.commands = bell.ring
    services = Services(
        store=store,
        loop=loop,
        leases=leases,
        clock=clock,
        logs=LogStore(settings.data_dir / "logs"),
        bell=bell,
        reconciler=Reconciler(store, loop, clock, settings.lease_times),
        core=settings.core,
        started_s=clock.now_s(),
        token=token,
        speeds=Speeds(wanted=policy_named(settings.policy).placement.trials),
    )
    store.intake.forget_reports(clock.now_s())
    return services


@dataclass(slots=True)
class _End:
    """Why the manager ended, if not because it was told to."""

    error: CotenantError | None = field(default=None)


def _run(services: Services, listener: socket.socket) -> None:
    config = uvicorn.Config(
        create_app(services),
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=_DRAIN_S,
        server_header=False,
    )
    server = Server(config, services.bell)
    end = _End()

    def ended(error: CotenantError) -> None:
        end.error = error
        server.end()

    # In this order: a loop that ends at once must end the server, which would serve on without it.
    services.loop.listeners.fatal = ended
    services.loop.start()
    server.run(sockets=[listener])
    if end.error is not None:
        raise end.error


class Server(uvicorn.Server):
    """A server whose end wakes the long polls first, and is no failure of the process."""

    def __init__(self, config: uvicorn.Config, bell: Bell) -> None:
        super().__init__(config)
        self._bell = bell

    def end(self) -> None:
        """End gracefully; may be called from any thread."""
        self.should_exit = True
        self._bell.close()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal ends gracefully, a second at once."""
        if self.should_exit:
            self.force_exit = True
        self.end()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take the signals, and do not raise them again at the end as the base class does."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {sig: signal.signal(sig, self.handle_exit) for sig in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for sig, handler in before.items():
                signal.signal(sig, handler)


@contextlib.contextmanager
def _sole_owner(data_dir: Path) -> Iterator[None]:
    """Hold the data folder; the kernel lets go of it when the process dies, however it dies.

    The lock's file says which process it is, for whoever finds it held.
    """
    descriptor = os.open(data_dir / "manager.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
        os.close(descriptor)
        process = f" (process {owner})" if owner.isdigit() else ""
        raise OperationFailed(
            f"another manager{process} is running on {data_dir}; stop that one first"
        ) from None
    try:
        with contextlib.suppress(OSError):  # a full disk: the lock holds all the same
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _listening(settings: ManagerSettings) -> Iterator[tuple[socket.socket, str]]:
    """The listening socket and the address under which it is reached from this machine."""
    host, port = settings.address()
    load_token(settings)  # before anybody can connect
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=512)
    except OSError as error:
        reason = error.strerror or error
        raise OperationFailed(
            f"cannot listen on {settings.listen}: {reason}; choose another --listen"
        ) from error
    with listener:
        # Head and body of an answer go out in two pieces: the second must not wait for the first to be
        # confirmed.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        bound = listener.getsockname()[1]
        local = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - recognised, not listened on
        yield listener, f"http://{f'[{local}]' if ':' in local else local}:{bound}"


def _log_to_stderr() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for noisy in ("alembic", "uvicorn", "httpx"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
