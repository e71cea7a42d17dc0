"""The connection to the database: transactions, errors of our own tree, and what SQLite needs said."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection, create_engine, event, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry

from placement.model import InvalidInput, OperationFailed

BUSY_TIMEOUT_S = 10
"""How long a transaction waits for another process that writes to the same SQLite file."""


class StoreFailed(OperationFailed):
    """The database refused: full disk, locked, connection lost.  Nothing of the transaction has happened."""


class StaleWrite(OperationFailed):
    """The row changed since it was read; the caller must load it again."""


class Superseded(OperationFailed):
    """Another manager has taken over this database; this one must stop."""


def sqlite_url(path: Path) -> str:
    """The URL of an embedded database in that file."""
    return f"sqlite:///{path}"


class Database:
    """One database; its write transactions follow each other, so that row numbers come in commit order."""

    def __init__(self, url: str, *, durable: bool = True) -> None:
        """``durable`` False gives up power-loss safety of SQLite for speed, for tests.

        Raises:
            InvalidInput: the URL is not one, or its driver is not installed.
        """
        try:
            parsed = make_url(url)
            if parsed.get_backend_name() == "sqlite":
                self.engine = create_engine(parsed, pool_size=8, max_overflow=40)
                self._reader = self.engine.execution_options(cotenant_reads=True)
                _prepare_sqlite(self, durable)
            else:
                self.engine = create_engine(parsed, pool_size=8, max_overflow=40, pool_pre_ping=True)
                self._reader = self.engine.execution_options(isolation_level="REPEATABLE READ")
        except (ArgumentError, NoSuchModuleError, ImportError) as error:
            raise InvalidInput(f"database URL: {_one_line(error)}") from None
        self._writing = threading.Lock()
        self._refused = False

    @property
    def dialect(self) -> str:
        """The kind of database: ``sqlite``, ``postgresql``, ..."""
        return self.engine.dialect.name

    @property
    def refuses(self) -> bool:
        """Whether the last write was refused; of whoever wrote, and until the next one succeeds."""
        return self._refused

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """One write transaction: all of it happens, or nothing.

        Raises:
            StoreFailed: the database refused.
        """
        with self._writing:
            try:
                with _translated(), self.engine.connect() as connection, connection.begin():
                    yield connection
            except StoreFailed:
                self._refused = True
                raise
            self._refused = False

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """One consistent view for reading.

        Raises:
            StoreFailed: the database refused.
        """
        with _translated(), self._reader.connect() as connection, connection.begin():
            yield connection

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except DBAPIError as error:
        raise StoreFailed(
            f"the database refused: {_one_line(error.orig or error)}; check its disk"
        ) from error
    except SQLAlchemyError as error:
        raise StoreFailed(f"the database failed: {_one_line(error)}") from error


def _one_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


def _prepare_sqlite(database: Database, durable: bool) -> None:
    @event.listens_for(database.engine, "connect")
    def connected(connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
        assert isinstance(connection, sqlite3.Connection)  # noqa: S101 - the type checker's only hint
        connection.isolation_level = None  # the driver must not begin transactions by itself: see begun
        connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_S * 1000}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'OFF'}")
        connection.execute("PRAGMA foreign_keys = ON")

    @event.listens_for(database.engine, "begin")
    def begun(connection: Connection) -> None:
        # A writer takes the lock at once: one that read first and then finds another writer would fail.
        reads = connection.get_execution_options().get("cotenant_reads", False)
        connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")
