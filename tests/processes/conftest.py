from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cqrs_cli.kafka.connection.connection import Connection
    from tests.processes.stage import Stage


@pytest.fixture
def stage(connection: "Connection", prefix: str) -> "Stage":
    """The example between orders and payments, on one partition."""
    from tests.processes.stage import Stage

    return Stage(connection, prefix)
