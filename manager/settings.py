"""What can be set, and the secrets and places that follow from it."""

from __future__ import annotations

import ipaddress
import os
import secrets
import stat
from dataclasses import dataclass, field
from pathlib import Path

from manager.leases import LeaseTimes
from manager.loop import CoreSettings
from manager.store import sqlite_url
from manager.wire.discovery import write_private
from placement.interference import model_named
from placement.model import InvalidAmount, InvalidInput
from placement.policies import DEFAULT_POLICY, policy_named

MIN_TOKEN_CHARS = 16
DATABASE_URL_VARIABLE = "COTENANT_DATABASE_URL"
_OURS = ("manager.lock", "cotenant.db", "token")
"""Any of these in a folder says that it is a manager's."""


@dataclass(frozen=True, slots=True)
class ManagerSettings:
    """How a manager runs.

    ``database_url`` None takes the variable COTENANT_DATABASE_URL, which other users of the machine cannot
    read as they can a command line, and SQLite in the data folder if that is not set either.  Without
    ``token`` and ``token_file`` the token is in the file ``token`` of the data folder, made on the first
    start.  ``seed`` is for policies that draw.
    """

    data_dir: Path
    listen: str = "127.0.0.1:7077"
    database_url: str | None = field(default=None, repr=False)
    policy: str = DEFAULT_POLICY
    belief: str = "additive"
    lease_s: float = 15.0
    fence_s: float = 120.0
    seed: int = 0
    token: str | None = field(default=None, repr=False)
    token_file: Path | None = None

    def check(self) -> None:
        """Refuse what cannot work before anything is touched.

        Raises:
            InvalidInput: an address, a name or an amount is wrong.
        """
        self.address()
        policy_named(self.policy)
        model_named(self.belief)
        for name in ("lease_s", "fence_s"):
            value = getattr(self, name)
            if not 0 < value < 1e9:
                raise InvalidAmount(f"{name}: {value} must be above 0 and finite")

    def address(self) -> tuple[str, int]:
        """Host and port to listen on; port 0 takes a free one.

        Raises:
            InvalidInput: it is not HOST:PORT.
        """
        host, separator, port = self.listen.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not separator or not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
            raise InvalidInput(f"listen: {self.listen!r} must be HOST:PORT, such as 127.0.0.1:7077")
        return host, int(port)

    @property
    def url(self) -> str:
        """The database's URL."""
        given = self.database_url or os.environ.get(DATABASE_URL_VARIABLE)
        return given or sqlite_url(self.data_dir / "cotenant.db")

    @property
    def core(self) -> CoreSettings:
        """Which brain decides."""
        return CoreSettings(self.policy, self.belief, self.seed)

    @property
    def lease_times(self) -> LeaseTimes:
        """When a silent node is lost, and fenced."""
        return LeaseTimes(self.lease_s, self.fence_s)

    @property
    def token_path(self) -> Path:
        """Where the token lies, unless it is given outright."""
        return self.token_file or self.data_dir / "token"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach that address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def load_token(settings: ManagerSettings) -> str:
    """The bearer token; on loopback one is made if there is none.

    Raises:
        InvalidInput: it is too short, others can read its file, or there is none although others can connect.
        OSError: the file cannot be read or written.
    """
    if settings.token is not None:
        return _checked(settings.token, "token")
    path = settings.token_path
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return _new_token(settings)
    if stat.S_IMODE(mode) & 0o077:
        raise InvalidInput(f"{path}: others can read the token; run: chmod 600 {path}")
    try:
        text = path.read_text(encoding="utf-8").strip()
    except UnicodeDecodeError:
        raise InvalidInput(
            f"{path}: holds no text; a token is {MIN_TOKEN_CHARS} or more characters"
        ) from None
    return _checked(text, str(path))


def _new_token(settings: ManagerSettings) -> str:
    path, (host, _port) = settings.token_path, settings.address()
    if not is_loopback(host):
        raise InvalidInput(
            f"listen: {host} is open to other machines, but no token has been set; write one of at least "
            f"{MIN_TOKEN_CHARS} characters to {path} (mode 600), or listen on 127.0.0.1"
        )
    if settings.token_file is not None:
        raise InvalidInput(f"{path}: there is no such token file")
    token = secrets.token_urlsafe(32)
    write_private(path, token + "\n")
    return token


def _checked(token: str, where: str) -> str:
    if len(token) < MIN_TOKEN_CHARS or not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidInput(
            f"{where}: a token needs {MIN_TOKEN_CHARS} or more printable characters without blanks"
        )
    return token


def prepare_data_dir(path: Path) -> None:
    """Make the data folder, for its owner alone; one that is ours already is closed to others.

    A folder of somebody else, or one in which other things lie, keeps its mode: our files in it are private
    one by one.

    Raises:
        InvalidInput: it cannot be made or written.
    """
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        if _is_ours(path):
            path.chmod(0o700)
    except OSError as error:
        raise InvalidInput(f"data folder {path}: cannot be made ({error.strerror})") from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise InvalidInput(f"data folder {path}: cannot be written to")


def _is_ours(path: Path) -> bool:
    found = path.stat()
    if found.st_uid != os.geteuid() or not stat.S_IMODE(found.st_mode) & 0o077:
        return False
    return any((path / name).exists() for name in _OURS) or not any(path.iterdir())
