from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cqrs_cli.kafka.connection.connection import Connection
    from tests.processes.stage import Stage

# What its checks compare is told when they fail.
pytest.register_assert_rewrite("tests.processes.stage")


@pytest.fixture
def stage(connection: "Connection", prefix: str) -> "Stage":
    """The example between orders and payments, on one partition."""
    from tests.processes.stage import Stage

    return Stage(connection, prefix)
