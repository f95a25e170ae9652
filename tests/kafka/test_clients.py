"""The settings of Kafka clients: the user's settings together with the defaults of cqrs."""

import pytest

from cqrs_cli.kafka.clients import consumer, producer
from cqrs_cli.kafka.connection.connection import Connection


@pytest.mark.parametrize(
    ("name", "value"), [("reconnect.backoff.ms", "5000"), ("reconnect.backoff.max.ms", "200")]
)
def test_any_reconnect_pause_is_accepted(name: str, value: str) -> None:
    """librdkafka requires that the first pause is not longer than the second.

    The default of cqrs is below both defaults of librdkafka.
    """
    connection = Connection("127.0.0.1:1", {name: value})
    consumer(connection).close()
    producer(connection)
