"""What each worker has served, so that attempts that were tried again count too."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("progress", sa.Column("served_s", sa.Double(), nullable=True))
