"""The levels of the core's prices."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("manager_state", sa.Column("price_levels", sa.Text(), nullable=False, server_default="[]"))
