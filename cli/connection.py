"""How a command reaches the manager."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from manager.wire.client import Client

Command = TypeVar("Command", bound=Callable[..., Any])


def manager_option(command: Command) -> Command:
    """Add ``--manager URL`` as the argument ``manager_url``."""
    return click.option(
        "--manager",
        "manager_url",
        metavar="URL",
        help="Where the manager answers.  [default: COTENANT_MANAGER, what 'cotenant up' left, "
        "http://127.0.0.1:7077]",
    )(command)


@contextmanager
def connect(manager_url: str | None) -> Iterator[Client]:
    """A client of the manager that the user means.

    Raises:
        InvalidInput: the address is no address.  The client's calls raise what
            :class:`manager.wire.client.Client` says.
    """
    from manager.wire.client import Client
    from manager.wire.discovery import find_manager

    endpoint = find_manager(manager_url)
    with Client(endpoint.url, endpoint.token) as client:
        yield client
