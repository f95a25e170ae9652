"""A folder or a bucket as a payload store, and a bank that uses it."""

from pathlib import Path

import pytest

from tests.payloads.bank import Bank
from tests.payloads.stores import FolderStore, new_store
from tests.support.harness import TopicHarness


@pytest.fixture
def kind() -> str:
    """The kind of store. A test marked with `EACH_STORE` runs with each kind."""
    return "folder"


@pytest.fixture
def store(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> FolderStore:
    return new_store(kind, request, tmp_path)


@pytest.fixture
def bank(single_bank: TopicHarness, store: FolderStore) -> Bank:
    return Bank(single_bank, store)
