"""`cotenant manager`: the manager alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from cli.names import NamingGroup, one_policy


@click.group(cls=NamingGroup, invoke_without_command=True, short_help="Run the manager alone.")
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default="127.0.0.1:7077",
    show_default=True,
    help="Where to answer; port 0 takes a free one.",
)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the token, the database and the logs lie.  [default: the user's state folder]",
)
@click.option(
    "--database",
    "database_url",
    metavar="URL",
    help="An SQLAlchemy address; one with a password belongs into COTENANT_DATABASE_URL, which no list of "
    "processes shows.  [default: that variable, or SQLite in the data folder]",
)
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Holds the token.  [default: 'token' in the data folder, made at the first start]",
)
@click.option(
    "--policy",
    metavar="NAME",
    multiple=True,
    callback=one_policy,
    default=("cotenant",),
    show_default=True,
    help="Who goes first and where.",
)
@click.option(
    "--belief",
    metavar="MODEL",
    default="additive",
    show_default=True,
    help="The interference model that decisions use.",
)
@click.option(
    "--lease", metavar="TIME", default="15s", show_default=True, help="A silent node counts as lost after it."
)
@click.option(
    "--fence",
    metavar="TIME",
    default="120s",
    show_default=True,
    help="Jobs without contact to the manager are ended after it, and start elsewhere; such as 1d.",
)
@click.pass_context
def manager(ctx: click.Context, /, *, data_dir: Path | None, lease: str, fence: str, **said: Any) -> None:
    """Run the manager until it is told to end.

    Every request needs the token, which lies in the data folder where its owner alone can read it.  Jobs go
    on without a manager for the time of --fence: a manager that is away for longer finds them ended.

    \b
    Examples:
      cotenant manager
      cotenant manager --listen 0.0.0.0:7077 --data-dir /var/lib/cotenant
      cotenant manager --policy srtf+spread

    Another database than SQLite needs a driver of your own beside Cotenant, such as psycopg.
    """  # noqa: D301 - click reads the backspace character
    if ctx.invoked_subcommand is not None:
        return
    from cli.up import default_data_dir
    from manager.main import ManagerSettings, serve
    from placement.model import parse_seconds

    serve(
        ManagerSettings(
            data_dir=(data_dir or default_data_dir()).absolute(),
            lease_s=parse_seconds(lease, "lease"),
            fence_s=parse_seconds(fence, "fence"),
            **said,
        )
    )
