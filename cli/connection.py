"""How a command reaches the manager."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from manager.wire.client import Client
    from manager.wire.discovery import Endpoint

MANAGER_URL = "manager_url"
"""The argument of every command that asks a manager."""

AGAIN_S = 0.3
"""Between two tries to reach a manager that does not answer yet."""

_TOKEN = re.compile(r"[!-~]+")

Command = TypeVar("Command", bound=Callable[..., Any])


def manager_option(command: Command) -> Command:
    """Add ``--manager URL`` as the argument ``manager_url``; before the command's name it means the same."""
    return click.option(
        "--manager",
        MANAGER_URL,
        metavar="URL",
        callback=_or_the_groups,
        help="Where the manager answers.  [default: COTENANT_MANAGER, what 'cotenant up' left, "
        "http://127.0.0.1:7077]",
    )(command)


def _or_the_groups(ctx: click.Context, _parameter: click.Parameter, url: str | None) -> str | None:
    root = ctx.find_root()
    # While the group's own option is read, it has no value yet.
    return url if url is not None or root is ctx else root.params.get(MANAGER_URL)


def endpoint_of(manager_url: str | None) -> Endpoint:
    """Where the manager that the user means answers, with a token that can be sent.

    Raises:
        InvalidInput: the address is no address, or the token cannot be one.
    """
    from manager.wire.discovery import find_manager
    from placement.model import InvalidInput

    endpoint = find_manager(manager_url)
    if endpoint.token is not None and not _TOKEN.fullmatch(endpoint.token):
        raise InvalidInput(
            "the token (COTENANT_TOKEN, else the file that 'cotenant up' names) must be one line of "
            "printable ASCII characters without blanks"
        )
    return endpoint


@contextmanager
def connect(manager_url: str | None) -> Iterator[Client]:
    """A client of the manager that the user means.

    Raises:
        InvalidInput: the address is no address, or the token cannot be one.  The client's calls raise what
            :class:`manager.wire.client.Client` says.
    """
    from manager.wire.client import Client

    endpoint = endpoint_of(manager_url)
    with Client(endpoint.url, endpoint.token) as client:
        yield client


@contextmanager
def connect_in_time(manager_url: str | None, patience_s: float) -> Iterator[Client]:
    """The same for a manager that may just be starting: a client that it has answered.

    Each try looks anew where it is and for its token.

    Raises:
        Unreachable, Denied: it did not answer in ``patience_s``, or refused the token.
    """
    from manager.wire.client import Client
    from placement.model import Denied, Unreachable

    begun_s = time.monotonic()
    while True:
        endpoint = endpoint_of(manager_url)
        with Client(endpoint.url, endpoint.token) as client:
            try:
                client.info()
            except Unreachable:
                if time.monotonic() >= begun_s + patience_s:
                    raise
            except Denied:
                # A manager answers a moment before 'cotenant up' has told where its token is.
                if endpoint.token is not None or time.monotonic() >= begun_s + patience_s:
                    raise
            else:
                yield client
                return
        time.sleep(AGAIN_S)
