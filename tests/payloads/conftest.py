"""A folder as a payload store."""

from pathlib import Path

import pytest

from tests.payloads.stores import FolderStore


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path / "pay loads")
