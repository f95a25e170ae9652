"""Leaves the transaction of a partition's writer hanging, as Kafka does when it leaves out markers (KAFKA-20734)."""

from collections.abc import Collection
from typing import Literal

from confluent_kafka import TopicPartition

from cqrs_cli.core.context import OutputRecord
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.kafka import clients
from cqrs_cli.kafka.topics.topics import Kind
from tests.support.commands import Sent
from tests.support.harness import TopicHarness
from tests.support.raw import Raw
from tests.support.waiting import eventually

#: A part of an owner's transaction: each gets a marker of its own at the end, or none.
Part = Literal["events", "outcomes", "position"]


def decide_hanging(
    harness: TopicHarness,
    broker: Raw,
    commands: Collection[Sent],
    visible: Collection[Part],
    hidden: Collection[Part],
) -> None:
    """Send commands and write their decisions: some parts of the transaction committed, others left open.

    The broker must take records whose transaction it does not know.
    """
    harness.send(*commands)
    count, decided = len(commands), harness.decided_in_one_go()
    outputs: dict[Kind, list[OutputRecord]] = {
        "events": decided.events[-count:],
        "outcomes": decided.outcomes[-count:],
    }
    topics, id = harness.topics, harness.topics.transactional_id(0)
    group = clients.consumer(harness.connection, group=topics.group)
    (before,) = group.committed([TopicPartition(topics.commands, 0)], timeout=10)
    end = harness.records("commands")[-1].offset + 1
    place = TopicPartition(topics.commands, 0, end, before.metadata or "")
    writer = clients.producer(harness.connection, transactional_id=id)
    writer.init_transactions(10)
    if visible:
        writer.begin_transaction()
        for kind in outputs.keys() & set(visible):
            for value, key, timestamp in outputs[kind]:
                headers: list[tuple[str, str | bytes | None]] = list(HEADERS)
                writer.produce(topics.name(kind), value, key, 0, timestamp=timestamp, headers=headers)
        if "position" in visible:
            writer.send_offsets_to_transaction([place], group.consumer_group_metadata())
        writer.commit_transaction(10)
    group.close()
    eventually(lambda: harness.transaction() in ("Empty", "CompleteCommit"))
    hanging = broker.writer(id)
    for kind in outputs.keys() & set(hidden):
        name = topics.name(kind)
        assert broker.produce_outputs(name, 0, outputs[kind], hanging, id) == 0
    if "position" in hidden:
        broker.commit_pending(topics.group, place, hanging, id)
