"""Three sites with ledgers on disk, for every test of a session."""

from pathlib import Path

import pytest

from unit.session.federations import Federation


@pytest.fixture
def federation(tmp_path: Path) -> Federation:
    return Federation(tmp_path)
