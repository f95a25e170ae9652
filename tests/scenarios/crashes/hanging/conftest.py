"""The broker of these tests, and a client that speaks its protocol."""

from collections.abc import Iterator

import pytest

from cqrs_cli.kafka.connection.connection import Connection
from tests.support.hanging_transactions import credulous_broker
from tests.support.raw_requests import Raw, raw


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    """A connection to a broker that does not verify the partitions of a transaction."""
    with credulous_broker(tmp_path_factory.mktemp("credulous")) as connection:
        yield connection


@pytest.fixture
def broker(connection: Connection) -> Iterator[Raw]:
    with raw(connection) as broker:
        yield broker
