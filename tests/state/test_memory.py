import pytest

from cqrs_cli.state.memory import MemoryStore
from cqrs_cli.state.store import Store
from tests.state.contract import StoreContract
from tests.state.values import WINDOW


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self) -> Store:
        return MemoryStore(WINDOW)
