"""A folder as a payload store, and a bank that has one."""

from pathlib import Path

import pytest

from tests.payloads.bank import Bank
from tests.payloads.stores import FolderStore
from tests.support.harness import TopicHarness


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path / "pay loads")


@pytest.fixture
def bank(single_bank: TopicHarness, tmp_path: Path) -> Bank:
    return Bank(single_bank, FolderStore(tmp_path / "payloads"))
