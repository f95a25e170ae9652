"""The settings of clients, where a user's settings meet ours."""

import pytest

from cqrs_cli.kafka.clients import consumer, producer
from cqrs_cli.kafka.connection.connection import Connection


@pytest.mark.parametrize(
    ("name", "value"), [("reconnect.backoff.ms", "5000"), ("reconnect.backoff.max.ms", "200")]
)
def test_any_reconnect_pause_will_do(name: str, value: str) -> None:
    """librdkafka requires that the first pause is not longer than the second.

    Our default is below both of its defaults.
    """
    connection = Connection("127.0.0.1:1", {name: value})
    consumer(connection).close()
    producer(connection)
