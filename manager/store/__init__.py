"""The store: the only place with SQL, and the truth about everything that was ever accepted.

Three sides, each used by one kind of caller: :class:`Intake` (HTTP handlers that accept something),
:class:`Steps` (the loop) and :class:`Queries` (whoever reads).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from manager.store.database import Database, StaleWrite, StoreFailed, Superseded, sqlite_url
from manager.store.intake import Intake
from manager.store.migrate import migrate
from manager.store.queries import JobFilter, PendingCommand, Queries, assignment_of
from manager.store.rows import (
    InboxRow,
    NodeState,
    OutboxEntry,
    Progress,
    Quarantined,
    Receipt,
    StepWrite,
    StoredEvent,
    StoredJob,
    StoredNode,
    Submission,
)
from manager.store.steps import CoreImage, Steps


@dataclass(frozen=True, slots=True)
class Store:
    """One open database and its three sides."""

    database: Database
    intake: Intake
    steps: Steps
    queries: Queries

    @classmethod
    def open(cls, url: str, *, durable: bool = True) -> Self:
        """Connect, and bring the tables to this version.

        Raises:
            InvalidInput: the URL cannot be used.
            OperationFailed: the database refused or belongs to a newer version.
        """
        database = Database(url, durable=durable)
        migrate(database)
        return cls(database, Intake(database), Steps(database), Queries(database))

    def close(self) -> None:
        """Close all connections."""
        self.database.close()


__all__ = [
    "CoreImage",
    "Database",
    "InboxRow",
    "Intake",
    "JobFilter",
    "NodeState",
    "OutboxEntry",
    "PendingCommand",
    "Progress",
    "Quarantined",
    "Queries",
    "Receipt",
    "StaleWrite",
    "StepWrite",
    "Steps",
    "Store",
    "StoreFailed",
    "StoredEvent",
    "StoredJob",
    "StoredNode",
    "Submission",
    "Superseded",
    "assignment_of",
    "migrate",
    "sqlite_url",
]
