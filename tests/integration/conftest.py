"""What several of these modules begin with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.shim_job import Job, end_all, made


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    """A job of the runner shim; all that it leaves is ended."""
    job = made(tmp_path / "attempt")
    yield job
    end_all(job)
