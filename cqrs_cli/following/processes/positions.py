"""Reads the positions of process managers, and the state of their events partitions."""

from collections.abc import Iterable, Mapping

from confluent_kafka import Consumer, KafkaException

from cqrs_cli.core.messages.record import Record
from cqrs_cli.errors import ContradictionError
from cqrs_cli.following.processes.plan import ProcessPlan, Subscription
from cqrs_cli.following.processes.position import ProcessPosition, SourceState, position_key, read_position
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.clients import Isolation, consumer, to_error
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.offsets import GroupCommit, committed_offsets
from cqrs_cli.kafka.topics.acls import RequiredAcl
from cqrs_cli.kafka.topics.process_topics import ProcessTopics

#: The partition of a positions topic that has all records, even if the topic has more partitions.
POSITIONS_PARTITION = 0


def read_positions(
    connection: Connection, topics: ProcessTopics, isolation: Isolation = "read_uncommitted"
) -> dict[bytes, ProcessPosition]:
    """Return `position_key` of each events partition → last committed position.

    With the default isolation level, the end of the read is the high watermark, and the read waits for open
    transactions. An owner must wait for them after it has fenced its predecessor.
    Raises `StalledError` if a transaction stays open, `ContradictionError` for a record that is not a position.
    """
    topic, positions = topics.positions_topic, dict[bytes, ProcessPosition]()
    start, end = readers.bounds(connection, topic, [POSITIONS_PARTITION], isolation)[POSITIONS_PARTITION]
    for records in readers.read(connection, topic, POSITIONS_PARTITION, start, end):
        positions |= decode_positions(topic, records)
    return positions


def decode_positions(topic: str, records: Iterable[Record]) -> dict[bytes, ProcessPosition]:
    """Return the last position of each events partition in these records; raises `ContradictionError`."""
    positions = dict[bytes, ProcessPosition]()
    for record in records:
        try:
            positions[record.key or b""] = read_position(record.value)
        except ValueError as error:
            raise ContradictionError(
                f"{topic}:{POSITIONS_PARTITION}@{record.offset} is not a position: {error}",
                "another program wrote to this topic: find it, and delete that record",
            ) from error
    return positions


def read_source_state(
    plan: ProcessPlan,
    subscription: Subscription,
    group_consumer: Consumer,
    positions: Mapping[bytes, ProcessPosition],
) -> SourceState:
    """Return the state of a partition: its bounds, its recorded position, and the group's offset.

    `group_consumer`: a consumer of the process manager's group. Raises `KafkaException`.
    """
    source, events_topic = subscription.source, plan.events_topics[subscription.source.topic]
    bounds = {
        isolation: readers.bounds(plan.connection, source.topic, [source.partition], isolation)[
            source.partition
        ]
        for isolation in ("read_committed", "read_uncommitted")
    }
    return SourceState(
        subscription.process,
        source,
        events_topic.topic_id,
        events_topic.partitions,
        bounds["read_committed"][0],
        bounds["read_committed"][1],
        bounds["read_uncommitted"][1],
        positions.get(position_key(source)),
        read_group_commit(group_consumer, subscription).offset,
        events_topic.key_space.was_repartitioned,
    )


def read_group_commit(group_consumer: Consumer, subscription: Subscription) -> GroupCommit:
    """Return the group's committed offset of a partition, and its metadata, which contain the claim.

    Raises `KafkaException`.
    """
    source = subscription.source
    return committed_offsets(group_consumer, source.topic, [source.partition])[source.partition]


def read_source_states(plan: ProcessPlan) -> dict[Subscription, SourceState]:
    """Return the current state of each partition, before any fence. It does not wait for open transactions."""
    states: dict[Subscription, SourceState] = {}
    for process in dict.fromkeys(subscription.process for subscription in plan.subscriptions):
        topics = ProcessTopics(process, plan.prefix)
        positions = read_positions(plan.connection, topics, "read_committed")
        group_consumer = consumer(plan.connection, group=topics.group, isolation="read_uncommitted")
        try:
            # Child partitions come first: the ends of their parents, read later, include all earlier events.
            for subscription in reversed(plan.subscriptions):
                if subscription.process == process:
                    states[subscription] = read_source_state(plan, subscription, group_consumer, positions)
        except KafkaException as error:
            raise to_error(plan.connection, error, RequiredAcl("Read", "group", topics.group)) from error
        finally:
            group_consumer.close()
    return {subscription: states[subscription] for subscription in plan.subscriptions}
