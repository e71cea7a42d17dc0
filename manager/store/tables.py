"""The tables; see docs/decisions/0002-crash-safety.md for which of them is written when."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

NAME = String(63)
# SQLite numbers rows by itself only for a plain INTEGER.
ROW_NUMBER = BigInteger().with_variant(Integer, "sqlite")
# sqlite_autoincrement below: a number that was given away is never given again, not even when the row with
# the highest one is deleted; agents remember the last command that they have seen by its number.

manager_state = Table(
    "manager_state",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("epoch", BigInteger, nullable=False),
    Column("job_sequence", BigInteger, nullable=False),
    Column("core_events", BigInteger, nullable=False),
    Column("core_decisions", BigInteger, nullable=False),
    Column("now_s", Double, nullable=False),
    Column("database_id", NAME, nullable=False),
    Column("price_levels", Text, nullable=False),
)
"""One row: the fencing number, the last job number, the core's counters, its latest time and the levels of
its prices (JSON); and a random id of the database, so that an agent notices when its journal belongs to
another one."""

run_times = Table(
    "run_times",
    metadata,
    Column("tenant", NAME, primary_key=True),
    Column("kind", String(16), primary_key=True),
    Column("lifetimes", Text, nullable=False),
)
"""What the core has learnt of how long jobs last: one digit per ended job, the latest last."""

jobs = Table(
    "jobs",
    metadata,
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("job_id", NAME, nullable=False, unique=True),
    Column("name", Text, nullable=False),
    Column("tenant", NAME, nullable=False, index=True),
    Column("state", String(16), nullable=False, index=True),
    Column("attempt", Integer, nullable=False),
    Column("submit_s", Double, nullable=False),
    Column("ended_s", Double),
    # False until the core has taken the submission from the inbox.
    Column("admitted", Boolean, nullable=False),
    Column("version", Integer, nullable=False),
    Column("spec", Text, nullable=False),
    Column("record", Text, nullable=False),
    # The shares of the latest attempt; the record drops them when the job ends.
    Column("placed", Text, nullable=False),
)

neighbours = Table(
    "neighbours",
    metadata,
    Column("job_id", NAME, ForeignKey(jobs.c.job_id), primary_key=True),
    Column("neighbour_id", NAME, primary_key=True),
)

progress = Table(
    "progress",
    metadata,
    Column("job_id", NAME, ForeignKey(jobs.c.job_id), primary_key=True),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column("worker", Integer, primary_key=True, autoincrement=False),
    Column("step", BigInteger),
    Column("steps_per_s", Double),
    Column("observed_slowdown", Double),
    # Of the whole attempt, reported with its end.
    Column("served_s", Double),
)

job_events = Table(
    "job_events",
    metadata,
    Column("sequence", ROW_NUMBER, primary_key=True),
    Column("job_id", NAME, ForeignKey(jobs.c.job_id), nullable=False, index=True),
    Column("attempt", Integer, nullable=False),
    Column("before_state", String(16)),
    Column("after_state", String(16), nullable=False),
    Column("at_s", Double, nullable=False),
    Column("note", Text, nullable=False),
    sqlite_autoincrement=True,
)

inbox = Table(
    "inbox",
    metadata,
    Column("sequence", ROW_NUMBER, primary_key=True),
    Column("kind", String(32), nullable=False),
    Column("body", Text, nullable=False),
    sqlite_autoincrement=True,
)
"""Accepted events that the core has not yet taken."""

quarantine = Table(
    "quarantine",
    metadata,
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("kind", String(32), nullable=False),
    Column("body", Text, nullable=False),
    Column("error", Text, nullable=False),
    Column("at_s", Double, nullable=False),
)
"""Events that made the core fail, for whoever looks into it."""

outbox = Table(
    "outbox",
    metadata,
    Column("sequence", ROW_NUMBER, primary_key=True),
    Column("node_id", NAME, nullable=False, index=True),
    Column("kind", String(8), nullable=False),
    # No foreign key: a node may hold a worker of a job that this database has never known.
    Column("job_id", NAME, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("worker", Integer, nullable=False),
    Column("body", Text, nullable=False),
    sqlite_autoincrement=True,
)
"""Commands that their agent has not yet acknowledged."""

reports = Table(
    "reports",
    metadata,
    Column("node_id", NAME, primary_key=True),
    Column("report_id", String(200), primary_key=True),
    Column("received_s", Double, nullable=False, index=True),
)
"""Reports that were taken, so that a repeated one changes nothing."""

idempotency = Table(
    "idempotency",
    metadata,
    Column("key", String(200), primary_key=True),
    Column("fingerprint", String(64), nullable=False),
    Column("job_id", NAME, ForeignKey(jobs.c.job_id), nullable=False),
)

nodes = Table(
    "nodes",
    metadata,
    Column("node_id", NAME, primary_key=True),
    Column("position", BigInteger, nullable=False),
    Column("state", String(16), nullable=False),
    Column("simulated", Boolean, nullable=False),
    # What the core knows of the node; while it is joining, what its agent said.
    Column("body", Text, nullable=False),
)

profiles = Table(
    "profiles",
    metadata,
    Column("name", NAME, primary_key=True),
    Column("body", Text, nullable=False),
)

Index("ix_outbox_worker", outbox.c.job_id, outbox.c.attempt, outbox.c.worker)
