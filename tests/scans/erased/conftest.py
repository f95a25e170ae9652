"""An erased customer and another customer."""

from pathlib import Path

import pytest

from cqrs_cli.kafka.connection.connection import Connection
from tests.jobs.verify.customers import customer_harness, decide, erase_command, register_command
from tests.scans.erased.planted import ANN
from tests.support.harness import TopicHarness


@pytest.fixture
def harness(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    """Ann was erased, and Bob was not."""
    harness = customer_harness(connection, prefix, tmp_path)
    decide(
        harness,
        register_command("ann", ANN),
        register_command("bob", "Bob-of-Elm-Street"),
        erase_command("ann"),
    )
    return harness
