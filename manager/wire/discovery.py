"""How the manager and its token are found: given, environment, the endpoint file, the default address."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from placement.model.errors import InvalidInput

DEFAULT_URL = "http://127.0.0.1:7077"
_LOOPBACK = {"localhost": "127.0.0.1", "::1": "127.0.0.1"}


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the manager answers; the token never shows in a repr."""

    url: str
    token: str | None = field(default=None, repr=False)


def endpoint_file() -> Path:
    """The user's endpoint file: ``COTENANT_ENDPOINT_FILE``, else under the XDG state folder."""
    explicit = os.environ.get("COTENANT_ENDPOINT_FILE")
    if explicit:
        return Path(explicit)
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "cotenant" / "endpoint.json"


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner reads, whole or not at all.

    Raises:
        OSError: the folder cannot be made or written.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mkstemp makes it 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_endpoint(path: Path, url: str, token_file: Path) -> None:
    """Leave the address and the place of the token for :func:`find_manager`.

    Raises:
        OSError: the folder cannot be made or written.
    """
    write_private(path, json.dumps({"url": url, "token_file": str(token_file)}) + "\n")


def find_manager(explicit_url: str | None = None) -> Endpoint:
    """The manager to talk to.

    The address is ``explicit_url``, ``COTENANT_MANAGER``, the endpoint file's, or the default.  The token is
    ``COTENANT_TOKEN``, or the endpoint file's if that file speaks of the same address: a token is not shown
    to another manager than its own.

    Raises:
        InvalidInput: the address is not an http(s) URL, or the endpoint file cannot be understood.
    """
    stored_url, token_file = _stored()
    url = explicit_url or os.environ.get("COTENANT_MANAGER") or stored_url or DEFAULT_URL
    origin = _origin(url)
    token = os.environ.get("COTENANT_TOKEN") or None
    if token is None and stored_url is not None and token_file and origin == _origin(stored_url):
        token = _read_token(Path(token_file))
    return Endpoint(url.rstrip("/"), token)


def _stored() -> tuple[str | None, str | None]:
    path = endpoint_file()
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        url, token_file = stored["url"], stored.get("token_file")
    except (FileNotFoundError, NotADirectoryError):
        return None, None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidInput(
            f"{path}: not an endpoint file ({error}); remove it or start the manager again"
        ) from error
    if not isinstance(url, str) or not isinstance(token_file, str | None):
        raise InvalidInput(f"{path}: not an endpoint file; remove it or start the manager again")
    return url, token_file


def _read_token(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip() or None
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path}: the token cannot be read ({error}); set COTENANT_TOKEN") from error


def _origin(url: str) -> tuple[str, str, int]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise InvalidInput(f"manager address {url!r}: {error}") from error
    if parts.scheme not in ("http", "https") or not host:
        raise InvalidInput(f"manager address {url!r}: write it as http://HOST:PORT")
    return parts.scheme, _LOOPBACK.get(host, host), port or (443 if parts.scheme == "https" else 80)
