"""Committed offsets of a group, and the metadata that is committed with them."""

from collections.abc import Iterable
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from cqrs_cli.kafka.clients import REQUEST_TIMEOUT, consumer, kafka_error, retry_while, to_error
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.consumer_pool import ConsumerPool, pooled_consumer
from cqrs_cli.kafka.error_kinds import ErrorKind
from cqrs_cli.kafka.topics.acls import RequiredAcl
from cqrs_cli.kafka.topics.topics import Topics

#: Timeout in seconds for the first group of a cluster: the broker first creates all partitions of the offsets topic.
FIRST_GROUP_TIMEOUT = 30.0

#: Seconds after a fence during which the commit of the previous transaction may still be pending.
PENDING_COMMIT_TIMEOUT = 2.0


class GroupCommit(NamedTuple):
    """The committed offset of a group in one partition, and its metadata."""

    offset: int | None  # None if the group has no committed offset, or if it has expired
    metadata: str


def committed_offsets(
    client: Consumer, topic: str, partitions: Iterable[int], timeout: float = REQUEST_TIMEOUT
) -> dict[int, GroupCommit]:
    """Return partition → commit of the client's group. Only a read_committed client waits for pending commits.

    Waits for a coordinator that is starting. Raises `KafkaException`.
    """
    topic_partitions = [TopicPartition(topic, partition) for partition in partitions]
    positions = retry_while(
        lambda: client.committed(topic_partitions, timeout=timeout), {ErrorKind.NO_COORDINATOR}, timeout
    )
    return {
        position.partition: GroupCommit(
            position.offset if position.offset >= 0 else None, _metadata(position)
        )
        for position in positions
    }


def _metadata(position: TopicPartition) -> str:
    """Return the metadata of an offset; empty if another client wrote bytes that are not text.

    confluent-kafka (2.16) ends its own metadata with a NUL. It also reads the metadata of other clients up to the next
    NUL, which may be beyond the end of the metadata.
    """
    try:
        return position.metadata or ""
    except (UnicodeDecodeError, SystemError):
        return ""


def committed_offsets_now(
    connection: Cluster, topics: Topics, partitions: Iterable[int], pool: ConsumerPool | None = None
) -> dict[int, GroupCommit]:
    """Return partition → commit of the owners' group, without waiting for pending commits. `pool`: a pool of that
    group.
    """
    try:
        with pooled_consumer(connection, pool, "read_uncommitted", topics.group) as client:
            return committed_offsets(client, topics.commands, partitions, FIRST_GROUP_TIMEOUT)
    except KafkaException as error:
        raise to_error(connection, error, RequiredAcl("Describe", "group", topics.group)) from error


def has_pending_commit(connection: Cluster, group: str, topic: str, partition: int) -> bool:
    """Return True if the broker does not return the group's offset within `PENDING_COMMIT_TIMEOUT`. The usual cause is
    that the transaction that commits the offset is still open.
    """
    client = consumer(connection, group=group)
    try:
        committed_offsets(client, topic, [partition], PENDING_COMMIT_TIMEOUT)
    except KafkaException as error:
        return kafka_error(error).code() == KafkaError._TIMED_OUT
    finally:
        client.close()
    return False
