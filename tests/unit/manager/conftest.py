from pathlib import Path

import pytest

from tests.unit.manager.parts import Parts


@pytest.fixture
def parts(tmp_path: Path) -> Parts:
    return Parts(tmp_path)
