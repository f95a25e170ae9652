from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cqrs_cli.kafka.connection.connection import Connection
    from tests.following.processes.process_harness import ProcessHarness


@pytest.fixture
def harness(connection: "Connection", prefix: str, tmp_path: Path) -> "ProcessHarness":
    """The example process manager between orders and payments, on one partition."""
    from tests.following.processes.process_harness import ProcessHarness

    return ProcessHarness(connection, prefix, state_dir=tmp_path / "state")
