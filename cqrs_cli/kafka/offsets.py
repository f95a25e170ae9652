"""Committed offsets of a group and the text that rides with them."""

from collections.abc import Iterable
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicPartition

from cqrs_cli.kafka.clients import REQUEST_TIMEOUT, consumer
from cqrs_cli.kafka.connection import Connection
from cqrs_cli.kafka.readers import failed
from cqrs_cli.kafka.topics import Topics


class Committed(NamedTuple):
    """What a group has committed for one partition; `offset` is None where it has nothing, or it expired."""

    offset: int | None
    metadata: str


def committed(
    client: Consumer, topic: str, partitions: Iterable[int], timeout: float = REQUEST_TIMEOUT
) -> dict[int, Committed]:
    """What the client's group has committed. A read_committed client waits for pending commits, another does not.

    Raises `KafkaException`.
    """
    wanted = [TopicPartition(topic, partition) for partition in partitions]
    return {
        found.partition: Committed(found.offset if found.offset >= 0 else None, found.metadata or "")
        for found in client.committed(wanted, timeout=timeout)
    }


def standing(connection: Connection, topics: Topics, partitions: Iterable[int]) -> dict[int, Committed]:
    """What stands committed now, read without waiting for pending commits."""
    client = consumer(connection, group=topics.group, isolation="read_uncommitted")
    try:
        return committed(client, topics.commands, partitions)
    except KafkaException as error:
        raise failed(connection, error) from error
    finally:
        client.close()
