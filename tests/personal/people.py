"""Customers on a real broker: events encrypted as owners encrypt them, and their keys."""

import json
from base64 import b64encode
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from msgspec import Raw

from cqrs_cli.core.aggregate.decider import Event
from cqrs_cli.core.aggregate.erased import ERASED, Erased
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.personal.encrypted_data import encrypt_data
from cqrs_cli.core.personal.encryption import DataKey, ValueLocation
from cqrs_cli.following.gateway.token import Access
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import KEYS_CONFIGS
from cqrs_cli.keys.address import KeyRingAddress
from cqrs_cli.keys.topic import key_value
from tests.core.personal.customer import Registered
from tests.support import ROOT
from tests.support.eventlog import NOON
from tests.support.harness import TopicHarness
from tests.support.waiting import eventually

#: Ann's registration, its data, and its data without her key.
ANN = Registered("Ann Smith", "ann@home", "free")
ANNS_DATA = {"name": "Ann Smith", "mail": "ann@home", "plan": "free"}
MASKED_DATA = {"name": "", "mail": "x@invalid", "plan": "free"}

#: The tokens of a gateway: the second may see personal values.
TOKENS = {"token-of-everybody": Access(), "the-right-to-see": Access(frozenset({"read", "personal"}))}

FIRST_KEY, SECOND_KEY = (DataKey.of_random(bytes([byte]) * 72) for byte in (1, 2))

_CODE = (ROOT / "tests/core/personal/customer.py").read_text().partition("\nCUSTOMER = ")[0]


class People:
    """A project with the aggregate `customer`, a keyring and topics. Writes encrypted events."""

    def __init__(self, connection: Connection, prefix: str, folder: Path) -> None:
        (folder / "people").mkdir()
        (folder / "people/customer.py").write_text(_CODE)
        (folder / "ring.json").write_text(json.dumps({"2026": b64encode(bytes(64)).decode()}))
        self.folder, address = folder, KeyRingAddress("file:ring.json", folder)
        self.harness = TopicHarness(connection, prefix, folder, "customer", package="people", root=folder)
        self.connection, self.connection_without_keyring = replace(connection, keys=address), connection
        self.topics, self._keyring, self._versions = self.harness.topics, address.load(), Counter[str]()
        with Admin(connection) as admin:
            admin.create(self.topics.keys, 1, 1, KEYS_CONFIGS)
        self._producer = self._start_producer(f"{prefix}first")

    def configure(self, *, with_keyring: bool) -> None:
        """Write the project's settings."""
        lines = {
            "bootstrap_server": self.connection_without_keyring.bootstrap_server,
            "aggregates": "people",
            "topic_prefix": self.topics.prefix,
            **({"keyring": "file:ring.json"} if with_keyring else {}),
        }
        text = "".join(f'{name} = "{value}"\n' for name, value in lines.items())
        (self.folder / "cqrs.toml").write_text(text)

    def _start_producer(self, id: str) -> Producer:
        producer = Producer({**self.connection_without_keyring.librdkafka(), "transactional.id": id})
        producer.init_transactions(30)
        return producer

    def register(self, subject: str, key: DataKey | None, person: Registered = ANN) -> None:
        """Write an event whose key was written before."""
        self._commit([self._event(subject, person, key)], [])

    def register_with_new_key(self, subject: str, key: DataKey, person: Registered = ANN) -> None:
        """Write an event and its new key in one transaction."""
        self._commit([self._event(subject, person, key)], [(subject, key)])

    def erase(self, subject: str, key: DataKey) -> None:
        """Write `Erased` and the tombstone."""
        self._commit([self._event(subject, Erased(key.kid), None)], [(subject, None)])

    def put_key(self, subject: str, key: DataKey | None) -> None:
        """Write only a record of the keys."""
        self._commit([], [(subject, key)])

    def begin_key_transaction(self, subject: str, key: DataKey) -> Producer:
        """Write a key in a transaction that is left open. Return its producer, which can commit it."""
        producer = self._start_producer(f"{self.topics.keys}.late")
        producer.begin_transaction()
        self._send_key(producer, subject, key)
        producer.flush(30)
        return producer

    def register_with_foreign_value(self, subject: str, key: DataKey) -> None:
        """Write an event whose value was encrypted for another event."""
        value = self._event(subject, ANN, key, encrypted_for="0/99/0")
        self._commit([value], [])

    def _event(
        self, subject: str, event: Event, key: DataKey | None, encrypted_for: str | None = None
    ) -> dict[str, Any]:
        self._versions[subject] += 1
        number = self._versions.total()
        id, data = f"0/{number}/0", encode_json(event)
        if key is not None:
            data = encrypt_data(
                type(event), data, key, ValueLocation("customer", subject, encrypted_for or id, "")
            )
        return {
            "specversion": "1.0",
            "id": id,
            "source": "/cqrs/customer",
            "type": ERASED if isinstance(event, Erased) else f"customer.{type(event).__name__}",
            "subject": subject,
            "time": NOON,
            "causationid": f"c-{number}",
            "correlationid": f"c-{number}",
            "aggregateversion": self._versions[subject],
            "eventindex": 0,
            "eventcount": 1,
            "data": Raw(data),
        }

    def _commit(self, events: list[dict[str, Any]], keys: list[tuple[str, DataKey | None]]) -> None:
        self._producer.begin_transaction()
        for event in events:
            key, headers = str(event["subject"]).encode(), dict(HEADERS)
            self._producer.produce(self.topics.events, encode_json(event), key, 0, headers=headers)  # type: ignore[arg-type]
        for subject, wrapped in keys:
            self._send_key(self._producer, subject, wrapped)
        self._producer.commit_transaction(30)
        eventually(lambda: self.harness.is_stable("events"))

    def _send_key(self, producer: Producer, subject: str, key: DataKey | None) -> None:
        topic = self.topics.keys
        wrapped = None if key is None else self._keyring.wrap(topic, subject, key)
        producer.produce(topic, key_value(wrapped), subject.encode(), 0)
