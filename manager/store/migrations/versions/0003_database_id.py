"""A random id of the database."""

import uuid

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("manager_state", sa.Column("database_id", sa.String(length=63), nullable=True))
    state = sa.table("manager_state", sa.column("database_id", sa.String()))
    op.execute(state.update().values(database_id=uuid.uuid4().hex))
    with op.batch_alter_table("manager_state") as batch:
        batch.alter_column("database_id", existing_type=sa.String(length=63), nullable=False)
