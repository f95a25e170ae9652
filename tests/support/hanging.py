"""Leaves the transaction of a partition's writer hanging, as Kafka does when it leaves out markers (KAFKA-20734)."""

import threading
import time
from collections import defaultdict
from collections.abc import Collection
from typing import Literal

from confluent_kafka import TopicPartition
from msgspec.structs import replace

from cqrs_cli.core.context import OutputRecord
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.react import reaction
from cqrs_cli.core.recorded import record_event
from cqrs_cli.following.processes.position import position_key
from cqrs_cli.following.processes.supervisor import reacting
from cqrs_cli.kafka import clients
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.topics.topics import Kind
from tests.following.processes.stage import Stage, records
from tests.support.commands import Sent
from tests.support.harness import TopicHarness
from tests.support.raw import Raw
from tests.support.waiting import eventually

#: A part of an owner's transaction: each gets a marker of its own at the end, or none.
Part = Literal["events", "outcomes", "position"]

#: A part of a transaction of the process between orders and payments.
ReactionPart = Literal["payment", "order", "positions", "group"]


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


def react_hanging(
    stage: Stage, broker: Raw, visible: Collection[ReactionPart], hidden: Collection[ReactionPart]
) -> None:
    """Write what the process sends for the events it has not reacted to: some parts committed, others left open."""
    plan, before = stage.plan(), stage.position()
    assert before is not None
    subscription = next(one for one in plan.subscriptions if one.source.topic == stage.events)
    doing = reacting(plan, [subscription], 0, threading.Event())[0].reacting
    outputs: dict[str, list[OutputRecord]] = defaultdict(list)
    now = int(time.time() * 1000)
    for one in records(stage.connection, stage.events, 0):
        if one.offset >= before.offset:
            event = record_event(doing.loaded.sources["order"], one.value, stage.events, 0, one.offset)
            for sent in doing.composer.compose(event, reaction(doing.loaded.process, event)):
                outputs[sent.topic].append((sent.value, sent.key, now))
            end = one.offset + 1
    after = replace(before, offset=end)
    outputs[stage.topics.positions] = [(after.encode(), position_key(subscription.source), now)]
    named = {"payment": stage.topic("commands"), "order": stage.topic("commands", "order")}
    topic_of = {**named, "positions": stage.topics.positions}
    id = stage.topics.transactional_id(stage.events, 0)
    group = clients.consumer(stage.connection, group=stage.topics.group)
    place = TopicPartition(stage.events, 0, end, after.claim.metadata())
    writer = clients.producer(stage.connection, transactional_id=id)
    writer.init_transactions(10)
    if visible:
        writer.begin_transaction()
        for part in topic_of.keys() & set(visible):
            for value, key, _ in outputs[topic_of[part]]:
                headers: list[tuple[str, str | bytes | None]] = list(HEADERS)
                writer.produce(topic_of[part], value, key, 0, headers=headers)
        if "group" in visible:
            writer.send_offsets_to_transaction([place], group.consumer_group_metadata())
        writer.commit_transaction(10)
    group.close()
    with Admin(stage.connection) as admin:
        eventually(
            lambda: admin._client.describe_transactions([id])[id].state.value in ("Empty", "CompleteCommit")
        )
    hanging = broker.writer(id)
    for part in topic_of.keys() & set(hidden):
        assert broker.produce_outputs(topic_of[part], 0, outputs[topic_of[part]], hanging, id) == 0
    if "group" in hidden:
        broker.commit_pending(stage.topics.group, place, hanging, id)
