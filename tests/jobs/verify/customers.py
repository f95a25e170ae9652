"""Customers on the real broker, decided and encrypted as an owner does it, but without an owner."""

from collections.abc import Iterable
from itertools import count
from pathlib import Path

from cqrs_cli.core.context import BatchContext, Decisions
from cqrs_cli.core.decide import decide_batch
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.personal.encryption import DataKey
from cqrs_cli.kafka import clients
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import KEYS_CONFIGS
from cqrs_cli.keys.keyring import Keyring
from cqrs_cli.keys.topic import key_value
from tests.proof.encrypted_histories import key
from tests.support.commands import CommandRecord, command
from tests.support.foreign_records import append_records
from tests.support.harness import TopicHarness
from tests.support.topic_loss import delete_topics

KEYRING = Keyring({"2026-11": bytes(64)})

#: The contents of the keyring file.
KEYRING_JSON = '{"2026-11": "' + "A" * 86 + '=="}'


def register_command(subject: str, name: str, id: str = "") -> CommandRecord:
    data = {"name": name, "mail": f"{name}@home", "plan": "free"}
    return command("customer.Register", subject, id or f"r-{subject}-{name}", data)


def erase_command(subject: str, id: str = "") -> CommandRecord:
    return command("cqrs.Erase", subject, id or f"e-{subject}")


def customer_harness(connection: Connection, prefix: str, folder: Path) -> TopicHarness:
    """Return the topics of customers on one partition, with the keys topic."""
    harness = TopicHarness(connection, prefix, folder, "customer", package="tests.core.personal")
    with Admin(connection) as admin:
        if harness.topics.keys not in admin.describe([harness.topics.keys]):
            admin.create(harness.topics.keys, 1, 1, KEYS_CONFIGS)
    return harness


def decide(harness: TopicHarness, *commands: CommandRecord) -> Decisions:
    """Send commands, decide them, and write the results once. The data keys are `key(1)`, `key(2)` and so on."""
    harness.send(*commands)
    topics = harness.topics
    next_key = map(key, count(1)).__next__
    context = BatchContext(
        0, lambda _: None, lambda *_: None, lambda: 0, None, topics.commands, new_data_key=next_key
    )
    decisions = decide_batch(harness.aggregate, harness.records("commands"), context)
    append_records(harness, "outcomes", *_records(decisions.outcomes))
    append_records(harness, "events", *_records(decisions.events))
    for subject, data_key in decisions.data_keys.items():
        put_key(harness, subject, data_key)
    return decisions


def put_key(harness: TopicHarness, subject: str, key: DataKey | None) -> None:
    """Write the data key of a customer, or its tombstone, into the keys topic."""
    topic = harness.topics.keys
    value = key_value(None if key is None else KEYRING.wrap(topic, subject, key))
    producer = clients.producer(harness.connection)
    producer.produce(topic, value, subject.encode(), 0)
    assert producer.flush(30) == 0


def recreate_keys_topic(harness: TopicHarness) -> None:
    """Delete the keys topic and create it again."""
    with Admin(harness.connection) as admin:
        delete_topics(harness.connection, harness.topics.keys)
        admin.create(harness.topics.keys, 1, 1, KEYS_CONFIGS)


def _records(outputs: Iterable[tuple[bytes, bytes | None, int]]) -> list[Record]:
    return [Record(0, timestamp, key, value, [*HEADERS]) for value, key, timestamp in outputs]
