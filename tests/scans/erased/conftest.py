"""An erased customer and another customer."""

from pathlib import Path

import pytest

from cqrs_cli.kafka.connection.connection import Connection
from tests.jobs.verify.customers import customers, decide, erased, registered
from tests.scans.erased.planted import ANN
from tests.support.harness import TopicHarness


@pytest.fixture
def harness(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    """Ann was erased, and Bob was not."""
    harness = customers(connection, prefix, tmp_path)
    decide(harness, registered("ann", ANN), registered("bob", "Bob-of-Elm-Street"), erased("ann"))
    return harness
