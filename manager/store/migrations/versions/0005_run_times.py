"""How long the latest jobs of each tenant ran."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "run_times",
        sa.Column("tenant", sa.String(63), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("lifetimes", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "kind", name=op.f("pk_run_times")),
    )
