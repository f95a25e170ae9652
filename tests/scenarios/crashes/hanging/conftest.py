"""The broker of these tests, and a client that sends single requests of Kafka's protocol."""

from collections.abc import Iterator

import pytest

from cqrs_cli.kafka.connection.connection import Connection
from tests.support.hanging_transactions import unverifying_broker
from tests.support.raw_requests import RawClient, raw_client


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    """A connection to a broker that does not verify the partitions of a transaction."""
    with unverifying_broker(tmp_path_factory.mktemp("unverifying")) as connection:
        yield connection


@pytest.fixture
def client(connection: Connection) -> Iterator[RawClient]:
    with raw_client(connection) as client:
        yield client
