"""Events that a test writes into a topic directly, inconsistent events included."""

from collections.abc import Iterable

import msgspec

from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.kafka import clients
from cqrs_cli.kafka.admin.topics import Admin, ensure_topics
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import TopicPlan, Topics

NOON = "2026-11-21T12:00:00.000Z"


def counter_event(
    subject: str, version: int, by: int = 1, *, time: str = NOON, id: str = "", type: str = "Incremented"
) -> bytes:
    """Return an event of the aggregate `counter`, as serialized in the log."""
    return encode_json(
        {
            "specversion": "1.0",
            "id": id or f"0/{version}/0",
            "source": "/cqrs/counter",
            "type": f"counter.{type}",
            "subject": subject,
            "time": time,
            "causationid": "c",
            "correlationid": "c",
            "aggregateversion": version,
            "eventindex": 0,
            "eventcount": 1,
            "data": {"by": by},
        }
    )


def create_topics(connection: Connection, topics: Topics, partitions: int) -> None:
    """Create the topics of an aggregate."""
    with Admin(connection) as admin:
        ensure_topics(admin, topics, TopicPlan(partitions=partitions))


def append_records(connection: Connection, topic: str, partition: int, values: Iterable[bytes]) -> None:
    """Write records to one partition and wait until they are acknowledged."""
    producer = clients.producer(connection)
    for value in values:
        producer.produce(topic, value, _key(value), partition, headers=HEADERS)  # type: ignore[arg-type]
    assert producer.flush(30) == 0


def _key(value: bytes) -> bytes:
    """Return the key of an event: its subject, as owners write it."""
    try:
        return str(msgspec.json.decode(value)["subject"]).encode()
    except (ValueError, LookupError, TypeError):
        return b"k"
