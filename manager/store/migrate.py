"""Brings a database to the tables of this version."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError

from manager.store.database import Database
from placement.model import OperationFailed


def migrate(database: Database) -> None:
    """Run the migrations that this database has not seen; each runs whole or not at all.

    Raises:
        OperationFailed: the database belongs to a newer version, or it refused.
    """
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")).replace("%", "%%"))
    script = ScriptDirectory.from_config(config)
    with database.write() as connection:
        current = MigrationContext.configure(connection).get_current_revision()
        if current == script.get_current_head():
            return
        config.attributes["connection"] = connection
        try:
            command.upgrade(config, "head")
        except CommandError as error:
            raise OperationFailed(
                f"the database has revision {current}, which this version does not know ({error}); "
                "install the version that wrote it"
            ) from error
