"""Customers on a real broker, whose owners have a keyring: commands for them, and readers of their records."""

import json
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from msgspec.json import decode

from cqrs_cli.core.messages.event import EventEnvelope, read_event
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.personal.encrypted_data import decrypt_data
from cqrs_cli.core.personal.encryption import ValueLocation
from cqrs_cli.core.personal.message_redaction import redact_message
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.readers import bounds, partition_count, read
from cqrs_cli.keys.address import KeyRingAddress
from cqrs_cli.keys.topic import WrappedKey, read_key
from tests.core.personal.customer import Customer
from tests.support.commands import CommandRecord, command
from tests.support.harness import TopicHarness

#: A text that occurs in personal fields only.
PERSONAL_TEXT = "needle-8c2f51"

CUSTOMER_STATE = Customer(PERSONAL_TEXT, f"{PERSONAL_TEXT}@home", "free")
REDACTED_STATE = redact_message(CUSTOMER_STATE)


def customer_topics(connection: Connection, prefix: str, folder: Path, partitions: int = 1) -> TopicHarness:
    """Return the topics of customers, and write a keyring into the folder."""
    (folder / "ring.json").write_text(json.dumps({"2026-11": b64encode(b"m" * 64).decode()}))
    connection_with_keyring = replace(connection, keys=KeyRingAddress("file:ring.json", folder))
    return TopicHarness(
        connection_with_keyring, prefix, folder, "customer", partitions, "tests.core.personal"
    )


def use_keyring(harness: TopicHarness, **keks: bytes) -> None:
    """Let the next runs use a keyring with these KEKs."""
    name = f"ring-{'-'.join(keks)}.json"
    texts = {kid: b64encode(kek).decode() for kid, kek in keks.items()}
    (harness.folder / name).write_text(json.dumps(texts))
    harness.connection = replace(harness.connection, keys=KeyRingAddress(f"file:{name}", harness.folder))


def register_command(subject: str, number: int = 0) -> CommandRecord:
    data = {"name": PERSONAL_TEXT, "mail": f"{PERSONAL_TEXT}@home"}
    return command("customer.Register", subject, f"{subject}.{number}", data)


def erase_command(subject: str, number: int = 0) -> CommandRecord:
    return command("cqrs.Erase", subject, f"{subject}.erase.{number}", {})


def key_records(harness: TopicHarness, partition: int = 0) -> list[tuple[str, WrappedKey | None]]:
    """Return the records of the keys topic, including records of open transactions."""
    records = all_records(harness, harness.topics.keys, partition)
    return [((record.key or b"").decode(), read_key(record.value)) for record in records]


def all_records(harness: TopicHarness, topic: str, partition: int) -> list[Record]:
    start, end = bounds(harness.connection, topic, [partition], "read_uncommitted")[partition]
    return [record for batch in read(harness.connection, topic, partition, start, end) for record in batch]


def event_envelopes(harness: TopicHarness, partition: int = 0) -> list[EventEnvelope]:
    return [read_event(record.value) for record in harness.records("events", partition)]


def stored_states(harness: TopicHarness, machine: str = "state") -> dict[str, bytes]:
    """Return the serialized states in all shards."""
    return {
        name: saved.state
        for number in range(harness.partitions)
        for name, saved in harness.shard_states(machine, number).items()
    }


def decrypted_states(harness: TopicHarness, machine: str = "state") -> dict[str, Customer]:
    """Return the states in all shards, decrypted with the keys that are in the topic now."""
    assert harness.connection.keys is not None
    keyring, topic = harness.connection.keys.load(), harness.topics.keys
    count = partition_count(harness.connection, topic)
    last = {subject: wrapped for number in range(count) for subject, wrapped in key_records(harness, number)}
    data_keys = {
        subject: keyring.unwrap(topic, subject, wrapped)
        for subject, wrapped in last.items()
        if wrapped is not None
    }
    states_by_subject = {}
    for name, data in stored_states(harness, machine).items():
        key, location = data_keys.get(name), ValueLocation("customer", name, "state", "")
        decrypted = data if key is None else decrypt_data(Customer, data, {key.kid: key}.get, location)
        states_by_subject[name] = decode(decrypted, type=Customer)
    return states_by_subject


def files_with_personal_data(folder: Path) -> Iterator[Path]:
    """Return the files that contain a personal value."""
    return (
        file for file in folder.rglob("*") if file.is_file() and PERSONAL_TEXT.encode() in file.read_bytes()
    )
