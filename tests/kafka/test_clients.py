"""The settings of clients, where a user's meet ours."""

import pytest

from cqrs_cli.kafka.clients import consumer, producer
from cqrs_cli.kafka.connection.connection import Connection


@pytest.mark.parametrize(
    ("name", "value"), [("reconnect.backoff.ms", "5000"), ("reconnect.backoff.max.ms", "200")]
)
def test_any_reconnect_pause_will_do(name: str, value: str) -> None:
    """The one must not be above the other, as librdkafka says: ours is below both of its own."""
    connection = Connection("127.0.0.1:1", {name: value})
    consumer(connection).close()
    producer(connection)
