from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from manager.settings import DATABASE_URL_VARIABLE
from tests.contract.served import Running, serving


@pytest.fixture(scope="session", autouse=True)
def no_database_of_somebody() -> Iterator[None]:
    """The tests write to databases of their own, whatever the environment names."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(DATABASE_URL_VARIABLE, raising=False)
        yield


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Running]:
    with serving(tmp_path) as running:
        yield running


@pytest.fixture(scope="module")
def idle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One manager for all tests that must not change anything in it."""
    with serving(tmp_path_factory.mktemp("idle")) as running:
        yield running
