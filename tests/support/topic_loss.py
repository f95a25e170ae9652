"""Losses that operators, retention and brokers cause: topics deleted, recreated or shortened, offsets deleted."""

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]  # its public names

from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Kind
from tests.support.harness import TopicHarness
from tests.support.waiting import eventually


def delete_kinds(harness: TopicHarness, *kinds: Kind) -> None:
    """Delete topics and wait until the broker has deleted them."""
    delete_topics(harness.connection, *map(harness.topics.name, kinds))


def delete_topics(connection: Connection, *names: str) -> None:
    """Delete topics of any kind and wait until the broker no longer lists them: it responds before they are gone."""
    admin = AdminClient(connection.librdkafka())
    for future in admin.delete_topics(list(names), operation_timeout=10).values():
        future.result(10)
    with Admin(connection) as admin_client:
        eventually(lambda: not admin_client.describe(names))


def add_partitions(harness: TopicHarness, *kinds: Kind, partitions: int) -> None:
    """Add partitions to topics, and wait until the broker shows them."""
    names = list(map(harness.topics.name, kinds))
    with _admin(harness) as admin:
        for future in admin.create_partitions([NewPartitions(name, partitions) for name in names]).values():
            future.result(10)
    with Admin(harness.connection) as topic_admin:
        eventually(
            lambda: (
                {description.partitions for description in topic_admin.describe(names).values()}
                == {partitions}
            )
        )


def recreate_topics(harness: TopicHarness, *kinds: Kind) -> None:
    """Delete topics and create them again: empty, with other ids."""
    delete_kinds(harness, *kinds)
    harness.make_topics()


def delete_records_before(harness: TopicHarness, kind: Kind, offset: int) -> None:
    """Delete the records of partition 0 before an offset, as retention does."""
    topic_partition = TopicPartition(harness.topics.name(kind), 0, offset)
    with _admin(harness) as admin:
        for future in admin.delete_records([topic_partition]).values():
            future.result(10)


def delete_group(harness: TopicHarness) -> None:
    """Delete the committed offsets, as a broker does for a group that was unused for a week."""
    with _admin(harness) as admin:
        for future in admin.delete_consumer_groups([harness.topics.group]).values():
            future.result(10)


def set_group_offset(harness: TopicHarness, offset: int) -> None:
    """Commit another offset for partition 0, as `kafka-consumer-groups --reset-offsets` does."""
    topic_partition = TopicPartition(harness.topics.commands, 0, offset)
    group_offset = ConsumerGroupTopicPartitions(harness.topics.group, [topic_partition])
    with _admin(harness) as admin:
        for future in admin.alter_consumer_group_offsets([group_offset]).values():
            future.result(10)


@contextmanager
def _admin(harness: TopicHarness) -> Iterator[AdminClient]:
    """Yield a client for a block: a client that is garbage-collected never completes its requests."""
    yield AdminClient(harness.connection.librdkafka())
