"""Reads the positions of processes from their topics, and what else stands about the partitions they hear."""

from collections.abc import Iterable, Mapping

from confluent_kafka import Consumer, KafkaException

from cqrs_cli.core.messages.record import Record
from cqrs_cli.errors import ContradictionError
from cqrs_cli.following.processes.plan import ProcessPlan, Subscription
from cqrs_cli.following.processes.position import ProcessPosition, SourceState, position_key, read_position
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.clients import Isolation, consumer, failed
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.offsets import Committed, committed
from cqrs_cli.kafka.topics.acls import RequiredAcl
from cqrs_cli.kafka.topics.process_topics import ProcessTopics

#: The one partition of a positions topic that is written to, however many it has.
POSITIONS_PARTITION = 0


def recorded_positions(
    connection: Connection, topics: ProcessTopics, isolation: Isolation = "read_uncommitted"
) -> dict[bytes, ProcessPosition]:
    """The last committed position of each partition of events, by key.

    Up to the end as `isolation` sees it: by default transactions that are open are waited for, as an owner must who has
    just fenced its own. Raises `StalledError` where one stays open, `ContradictionError` for a record that is not a
    position.
    """
    topic, found = topics.positions, dict[bytes, ProcessPosition]()
    start, end = readers.bounds(connection, topic, [POSITIONS_PARTITION], isolation)[POSITIONS_PARTITION]
    for records in readers.read(connection, topic, POSITIONS_PARTITION, start, end):
        found |= positions_in(topic, records)
    return found


def positions_in(topic: str, records: Iterable[Record]) -> dict[bytes, ProcessPosition]:
    """The last position of each partition of events in these records; raises `ContradictionError`."""
    found = dict[bytes, ProcessPosition]()
    for record in records:
        try:
            found[record.key or b""] = read_position(record.value)
        except ValueError as error:
            raise ContradictionError(
                f"{topic}:{POSITIONS_PARTITION}@{record.offset} is not a position: {error}",
                "somebody else wrote to this topic: find out who, and delete that record",
            ) from error
    return found


def source_state(
    plan: ProcessPlan, subscription: Subscription, group: Consumer, positions: Mapping[bytes, ProcessPosition]
) -> SourceState:
    """The state of a partition: its bounds, its recorded and its committed position.

    `group`: a client of the process's group. Raises `KafkaException`.
    """
    source, described = subscription.source, plan.events[subscription.source.topic]
    bounds = {
        isolation: readers.bounds(plan.connection, source.topic, [source.partition], isolation)[
            source.partition
        ]
        for isolation in ("read_committed", "read_uncommitted")
    }
    return SourceState(
        subscription.process,
        source,
        described.topic_id,
        described.partitions,
        bounds["read_committed"][0],
        bounds["read_committed"][1],
        bounds["read_uncommitted"][1],
        positions.get(position_key(source)),
        committed_of(group, subscription).offset,
        described.has_grown,
    )


def committed_of(group: Consumer, subscription: Subscription) -> Committed:
    """The group's offset of a partition, and the claim that rides with it; raises `KafkaException`."""
    source = subscription.source
    return committed(group, source.topic, [source.partition])[source.partition]


def source_states(plan: ProcessPlan) -> dict[Subscription, SourceState]:
    """The same of each partition now, before anybody is fenced: pending commits are not waited for."""
    states: dict[Subscription, SourceState] = {}
    for process in dict.fromkeys(subscription.process for subscription in plan.subscriptions):
        topics = ProcessTopics(process, plan.prefix)
        positions = recorded_positions(plan.connection, topics, "read_committed")
        group = consumer(plan.connection, group=topics.group, isolation="read_uncommitted")
        try:
            for subscription in reversed(
                plan.subscriptions
            ):  # what a partition has been given is seen in its parent
                if subscription.process == process:
                    states[subscription] = source_state(plan, subscription, group, positions)
        except KafkaException as error:
            raise failed(plan.connection, error, RequiredAcl("Read", "group", topics.group)) from error
        finally:
            group.close()
    return {subscription: states[subscription] for subscription in plan.subscriptions}
