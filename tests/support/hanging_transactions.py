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
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.react import call_react
from cqrs_cli.core.recorded import read_recorded_event
from cqrs_cli.following.processes.position import position_key
from cqrs_cli.following.processes.supervisor import create_supervisors
from cqrs_cli.kafka import clients
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.writer import KEY_CAUSE
from cqrs_cli.keys.address import keyring_at
from tests.following.processes.process_harness import ProcessHarness, read_records
from tests.support.brokers import broker
from tests.support.commands import Sent
from tests.support.harness import TopicHarness
from tests.support.raw_requests import Raw, raw
from tests.support.waiting import eventually


@contextmanager
def credulous_broker(folder: Path) -> Iterator[Connection]:
    """Run a broker that does not verify the partitions of transactions, like all brokers before Kafka 3.6."""
    with broker(folder) as credulous:
        with raw(credulous.connection) as its:
            its.configure_broker("transaction.partition.verification.enable", "false")
        yield credulous.connection


#: A part of an owner's transaction. Each part gets its own end marker, or none.
Part = Literal["events", "outcomes", "keys", "position"]

#: A part of a transaction of the process manager between orders and payments.
ReactionPart = Literal["payment", "order", "positions", "group"]


class Output(NamedTuple):
    """The records of a transaction in one partition."""

    topic: str
    partition: int
    read_records: Sequence[OutputRecord]
    headers: Sequence[tuple[str, bytes]] = HEADERS


class Hanging(NamedTuple):
    """A transaction: its records by part, and the offset of `group`, whose part is named by `repeated`."""

    transactional_id: str
    group: str
    outputs: Mapping[str, Output]
    place: TopicPartition
    repeated: str = "position"

    def leave(
        self, connection: Connection, broker: Raw, visible: Collection[str], hidden: Collection[str]
    ) -> None:
        """Write the transaction with some parts committed and others left open.

        The broker must accept records of a transaction that it does not know.
        """
        self._commit(connection, visible)
        eventually(lambda: broker.state(self.transactional_id) in ("Empty", "CompleteCommit"))
        hanging = broker.writer(self.transactional_id)
        for part in self.outputs.keys() & set(hidden):
            topic, partition, records, headers = self.outputs[part]
            id = self.transactional_id
            assert broker.produce_outputs(topic, partition, records, hanging, id, headers) == 0
        if self.repeated in hidden:
            broker.commit_pending(self.group, self.place, hanging, self.transactional_id)

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
        if self.repeated in visible:
            writer.send_offsets_to_transaction([self.place], group.consumer_group_metadata())
        writer.commit_transaction(10)
        group.close()


def decide_hanging(
    harness: TopicHarness,
    broker: Raw,
    commands: Collection[Sent],
    visible: Collection[Part],
    hidden: Collection[Part],
) -> None:
    """Send commands and write their decisions, with some parts of the transaction committed and others left open."""
    harness.send(*commands)
    count, decided, topics = len(commands), harness.decided_in_one_go(), harness.topics
    outputs = {
        "events": Output(topics.events, 0, decided.events[-count:]),
        "outcomes": Output(topics.outcomes, 0, decided.outcomes[-count:]),
    }
    if decided.data_keys:
        outputs["keys"] = _keys(harness, decided, harness.records("commands")[-count:])
    _, claim = harness.standing()
    end = harness.records("commands")[-1].offset + 1
    place = TopicPartition(topics.commands, 0, end, "" if claim is None else claim.metadata())
    hanging = Hanging(topics.transactional_id(0), topics.group, outputs, place)
    hanging.leave(harness.connection, broker, visible, hidden)


def _keys(harness: TopicHarness, decided: Decisions, commands: Sequence[Record]) -> Output:
    """Return the data keys that commands to new subjects have created."""
    assert harness.connection.keys is not None
    keyring, topic = keyring_at(harness.connection.keys), harness.topics.keys
    subjects = [(command.key or b"").decode() for command in commands]
    wrapped_keys = {
        command: key for command, key in decided.data_keys.items() if key is not None and command in subjects
    }
    records = [
        (encode_json(keyring.wrap(topic, command, key)), command.encode(), 0)
        for command, key in wrapped_keys.items()
    ]
    return Output(topic, 0, records, [(KEY_CAUSE, b"%d" % commands[0].offset)])


def react_hanging(
    harness: ProcessHarness, broker: Raw, visible: Collection[ReactionPart], hidden: Collection[ReactionPart]
) -> None:
    """Write the process manager's commands for new events, with some parts committed and others left open."""
    plan, before = harness.plan(), harness.position()
    assert before is not None
    subscription = next(
        subscription for subscription in plan.subscriptions if subscription.source.topic == harness.events
    )
    doing = create_supervisors(plan, [subscription], 0, threading.Event())[0].context
    sent_to: dict[str, list[OutputRecord]] = defaultdict(list)
    now = int(time.time() * 1000)
    for record in read_records(harness.connection, harness.events, 0):
        if record.offset >= before.offset:
            event = read_recorded_event(
                doing.loaded.sources["order"], record.value, harness.events, 0, record.offset
            )
            for sent in doing.composer.compose(event, call_react(doing.loaded.process, event)):
                sent_to[sent.topic].append((sent.value, sent.key, now))
            end = record.offset + 1
    after = replace(before, offset=end)
    sent_to[harness.topics.positions] = [(after.encode(), position_key(subscription.source), now)]
    named = {"payment": harness.topic("commands"), "order": harness.topic("commands", "order")}
    topic_of = {**named, "positions": harness.topics.positions}
    outputs = {part: Output(topic, 0, sent_to[topic]) for part, topic in topic_of.items()}
    place = TopicPartition(harness.events, 0, end, after.claim.metadata())
    id = harness.topics.transactional_id(harness.events, 0)
    hanging = Hanging(id, harness.topics.group, outputs, place, "group")
    hanging.leave(harness.connection, broker, visible, hidden)
