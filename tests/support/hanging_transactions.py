"""Leaves the transaction of a partition's writer hanging, as Kafka does when it omits markers (KAFKA-20734)."""

import threading
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

from confluent_kafka import TopicPartition
from msgspec.structs import replace

from cqrs_cli.core.context import Decisions, OutputRecord
from cqrs_cli.core.deferral.entry import read_deferral
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.react import call_react
from cqrs_cli.core.recorded import read_recorded_event
from cqrs_cli.deciding.deferred_commands import deferred_records
from cqrs_cli.following.processes.position import position_key
from cqrs_cli.following.processes.supervisor import create_supervisors
from cqrs_cli.kafka import clients
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.writer import FIRST_COMMAND
from tests.following.processes.process_harness import ProcessHarness, read_records
from tests.support.brokers import broker
from tests.support.commands import CommandRecord
from tests.support.harness import TopicHarness
from tests.support.raw_requests import RawClient, raw_client
from tests.support.waiting import eventually


@contextmanager
def unverifying_broker(folder: Path) -> Iterator[Connection]:
    """Run a broker that does not verify the partitions of transactions, like all brokers before Kafka 3.6."""
    with broker(folder) as old_broker:
        with raw_client(old_broker.connection) as client:
            client.configure_broker("transaction.partition.verification.enable", "false")
        yield old_broker.connection


#: A part of an owner's transaction. Each part gets its own end marker, or none.
Part = Literal["events", "outcomes", "deferred", "dead-letters", "keys", "position"]

#: A part of a transaction of the process manager between orders and payments, or of the publication of orders.
ReactionPart = Literal["payment", "order", "public", "positions", "group"]


class Output(NamedTuple):
    """The records of a transaction in one partition."""

    topic: str
    partition: int
    records: Sequence[tuple[bytes | None, bytes | None, int]]
    headers: Sequence[tuple[str, bytes]] = HEADERS


class HangingTransaction(NamedTuple):
    """A transaction: its records by part, and the offset of `group`, whose part is named `offset_part`."""

    transactional_id: str
    group: str
    outputs: Mapping[str, Output]
    offset: TopicPartition
    offset_part: str = "position"

    def write(
        self, connection: Connection, broker: RawClient, visible: Collection[str], hidden: Collection[str]
    ) -> None:
        """Write the transaction with some parts committed and others left open.

        The broker must accept records of a transaction that it does not know.
        """
        self._commit(connection, visible)
        eventually(lambda: broker.state(self.transactional_id) in ("Empty", "CompleteCommit"))
        producer = broker.writer(self.transactional_id)
        for part in self.outputs.keys() & set(hidden):
            topic, partition, records, headers = self.outputs[part]
            id = self.transactional_id
            assert broker.produce_outputs(topic, partition, records, producer, id, headers) == 0
        if self.offset_part in hidden:
            broker.commit_pending(self.group, self.offset, producer, self.transactional_id)

    def _commit(self, connection: Connection, visible: Collection[str]) -> None:
        writer = clients.producer(connection, transactional_id=self.transactional_id)
        writer.init_transactions(10)
        if not visible:
            return
        group = clients.consumer(connection, group=self.group)
        writer.begin_transaction()
        for part in self.outputs.keys() & set(visible):
            topic, partition, records, headers = self.outputs[part]
            for value, key, timestamp in records:
                writer.produce(topic, value, key, partition, timestamp=timestamp, headers=[*headers])
        if self.offset_part in visible:
            writer.send_offsets_to_transaction([self.offset], group.consumer_group_metadata())
        writer.commit_transaction(10)
        group.close()


def decide_hanging(
    harness: TopicHarness,
    broker: RawClient,
    commands: Collection[CommandRecord],
    visible: Collection[Part],
    hidden: Collection[Part],
) -> None:
    """Send commands and write their decisions, with some parts of the transaction committed and others left open."""
    harness.send(*commands)
    count, topics = len(commands), harness.topics
    topic_id = harness.plan().topics[topics.aggregate].ids["commands"]
    decided, first_command = (
        harness.expected_decisions(topic_id=topic_id),
        harness.records("commands")[-count],
    )
    outputs = {
        "events": Output(topics.events, 0, decided.events[-count:]),
        "outcomes": Output(topics.outcomes, 0, decided.outcomes[-count:]),
    }
    if decided.deferral_changes:
        records = [(value, key, 0) for value, key in deferred_records(decided.deferral_changes)]
        headers = [(FIRST_COMMAND, b"%d" % first_command.offset)]
        outputs["deferred"] = Output(topics.deferred, 0, records, headers)
    if decided.dead_letters:
        letter = decided.dead_letters[-1]
        outputs["dead-letters"] = Output(
            topics.dead_letters, 0, [letter[:3]], [(name, value or b"") for name, value in letter.headers]
        )
    if decided.data_keys:
        outputs["keys"] = _keys(harness, decided, harness.records("commands")[-count:])
    _, claim = harness.position_and_claim()
    end = harness.records("commands")[-1].offset + 1
    committed_offset = TopicPartition(topics.commands, 0, end, "" if claim is None else claim.metadata())
    hanging = HangingTransaction(topics.transactional_id(0), topics.group, outputs, committed_offset)
    hanging.write(harness.connection, broker, visible, hidden)


def resubmit_hanging(
    harness: TopicHarness, broker: RawClient, visible: Collection[str], hidden: Collection[str]
) -> None:
    """Resubmit the only deferred command at once. The parts of the transaction are `commands`, `deferred` and
    `position`.
    """
    topics, (record,) = harness.topics, harness.records("deferred")
    topic_id = harness.plan().topics[topics.aggregate].ids["commands"]
    end, now = harness.stable_end("commands"), int(time.time() * 1000)
    entry = read_deferral(record.key or b"", record.value or b"")
    document = entry.resubmission_document(entry.deferredfrom(topic_id, 0))
    resubmitted = replace(entry, due=0, resubmitted_offset=end, resubmitted_topic_id=topic_id)
    outputs = {
        "commands": Output(topics.commands, 0, [(document, entry.subject.encode(), now)]),
        "deferred": Output(topics.deferred, 0, [(resubmitted.value(), entry.key.encode(), now)], []),
    }
    _, claim = harness.position_and_claim()
    committed_offset = TopicPartition(topics.commands, 0, end, "" if claim is None else claim.metadata())
    hanging = HangingTransaction(topics.transactional_id(0), topics.group, outputs, committed_offset)
    hanging.write(harness.connection, broker, visible, hidden)


def _keys(harness: TopicHarness, decided: Decisions, commands: Sequence[Record]) -> Output:
    """Return the data keys that commands to new subjects have created."""
    assert harness.connection.keys is not None
    keyring, topic = harness.connection.keys.load(), harness.topics.keys
    subjects = [(command.key or b"").decode() for command in commands]
    wrapped_keys = {
        command: key for command, key in decided.data_keys.items() if key is not None and command in subjects
    }
    records = [
        (encode_json(keyring.wrap(topic, subject, key)), subject.encode(), 0)
        for subject, key in wrapped_keys.items()
    ]
    return Output(topic, 0, records, [(FIRST_COMMAND, b"%d" % commands[0].offset)])


def react_hanging(
    harness: ProcessHarness,
    broker: RawClient,
    visible: Collection[ReactionPart],
    hidden: Collection[ReactionPart],
) -> None:
    """Write the process manager's commands for new events, with some parts committed and others left open."""
    plan, position = harness.plan(), harness.position()
    assert position is not None
    subscription = next(
        subscription for subscription in plan.subscriptions if subscription.source.topic == harness.events
    )
    context = create_supervisors(plan, [subscription], 0, threading.Event())[0].context
    outputs_by_topic: dict[str, list[OutputRecord]] = defaultdict(list)
    now = int(time.time() * 1000)
    for record in read_records(harness.connection, harness.events, 0):
        if record.offset >= position.offset:
            event = read_recorded_event(
                context.loaded.sources["order"], record.value, harness.events, 0, record.offset
            )
            for message in context.composer.compose(event, call_react(context.loaded.process, event)):
                outputs_by_topic[message.topic].append((message.value, message.key, now))
            end = record.offset + 1
    new_position = replace(position, offset=end)
    outputs_by_topic[harness.topics.positions_topic] = [
        (new_position.encode(), position_key(subscription.source), now)
    ]
    command_topics = {"payment": harness.topic("commands"), "order": harness.topic("commands", "order")}
    public_topic = {"public": f"{harness.prefix}shop.orders"}
    topic_of = {**command_topics, **public_topic, "positions": harness.topics.positions_topic}
    outputs = {part: Output(topic, 0, outputs_by_topic[topic]) for part, topic in topic_of.items()}
    committed_offset = TopicPartition(harness.events, 0, end, new_position.claim.metadata())
    id = harness.topics.transactional_id(harness.events, 0)
    hanging = HangingTransaction(id, harness.topics.group, outputs, committed_offset, "group")
    hanging.write(harness.connection, broker, visible, hidden)
