"""Alembic's entry: runs in the connection that manager.store.migrate hands over."""

from alembic import context

from manager.store.tables import metadata

context.configure(
    connection=context.config.attributes["connection"], target_metadata=metadata, render_as_batch=True
)
context.run_migrations()
