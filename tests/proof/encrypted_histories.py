"""Histories of an aggregate with personal fields: encrypted events, erasures, and the matching keys topic."""

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

import cqrs_cli as cqrs
from cqrs_cli.codec.damage_finder import DamageFinder
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.personal.encrypted_data import encrypt_data
from cqrs_cli.core.personal.encryption import DataKey, ValueLocation
from cqrs_cli.core.personal.personal_fields import Personal
from cqrs_cli.keys.keyring import Keyring
from cqrs_cli.keys.topic import WrappedKey
from cqrs_cli.proof.findings import Report
from cqrs_cli.proof.fingerprints import fingerprint_check_of
from cqrs_cli.proof.key_records import TopicKey
from cqrs_cli.proof.partition import PartitionVerification
from cqrs_cli.proof.scope import PersonalScope
from cqrs_cli.state.store import Store
from tests.proof import history
from tests.proof.history import PlannedCommand, with_value

KEYRING = Keyring({"m": bytes(64)})
KEYS_TOPIC = "tally.keys"


class Add(cqrs.Command):
    n: int
    who: Personal[str] = ""


class Added(cqrs.Event):
    by: int
    who: Personal[str] = ""


class Tally(cqrs.State):
    total: int = 0
    who: Personal[str] = ""


def decide(command: Add, tally: Tally) -> Iterator[Added]:
    yield from (Added(number, command.who) for number in range(command.n))


def evolve(tally: Tally, event: Added) -> Tally:
    return Tally(tally.total + event.by, event.who)


TALLY = Aggregate.of("tally", cqrs.Decider(decide, evolve, Tally()))


def key(number: int) -> DataKey:
    return DataKey.of_random(bytes([number]) * 72)


def add(n: int, who: str, subject: str = "a", id: str = "") -> PlannedCommand:
    return PlannedCommand(n, subject, id, attributes=(("data", {"n": n, "who": who}),))


def erase(subject: str = "a", id: str = "", key: DataKey | None = None) -> PlannedCommand:
    data = {} if key is None else {"key": key.kid}
    return PlannedCommand(0, subject, id, attributes=(("type", "cqrs.Erase"), ("data", data)))


class EncryptedHistory(history.History):
    """A history with the matching keys topic, by aggregate. The data keys are `key(1)`, `key(2)` and so on."""

    aggregate = TALLY

    def decide(self, refused: frozenset[int] = frozenset(), window: int = history.WINDOW) -> None:
        self.new_key = map(key, count(1)).__next__
        self.since: list[Record] = []  # events that were written while the keys were read
        super().decide(refused, window)
        data_keys = {subject: key for subject, key in self.decided.data_keys.items() if key is not None}
        self.keys = {subject: KEYRING.wrap(KEYS_TOPIC, subject, key) for subject, key in data_keys.items()}

    def verify(
        self, committed: tuple[int | None, int | None] | None = None, on_disk: bool = False, **scope: Any
    ) -> Report:
        personal = PersonalScope(DamageFinder("tally", self.keys.get, unwrap))
        return super().verify(
            committed,
            on_disk,
            **{"fits_command": fingerprint_check_of(TALLY), "personal": personal, **scope},
        )

    def check_more(self, proof: PartitionVerification, store: Store) -> None:
        saved_states = {subject: saved.state for subject, saved in store.items()}
        names = saved_states | self.keys
        topic = {name: TopicKey(0, wrapped) for name, wrapped in self.keys.items()}
        proof.keys.check_key_topic(
            ((name, saved_states.get(name, b""), topic.get(name)) for name in names), self.since
        )


def unwrap(subject: str, wrapped: WrappedKey) -> DataKey:
    return KEYRING.unwrap(KEYS_TOPIC, subject, wrapped)


def encrypt_event(record: Record, key: DataKey, record_id: str = "") -> Record:
    """Return the event encrypted with a key."""
    event = json.loads(record.value or b"")
    data = json.dumps(event["data"]).encode()
    location = ValueLocation("tally", event["subject"], record_id or event["id"], "")
    event["data"] = json.loads(encrypt_data(Added, data, key, location))
    return with_value(record, json.dumps(event).encode())


def erased_value(subject: str, kid: str) -> bytes:
    """Return the value of an `Erased` event."""
    names = {"id": "1/9/0", "type": "cqrs.Erased", "subject": subject, "time": "", "causationid": "c"}
    return json.dumps(
        {**names, "aggregateversion": 9, "eventindex": 0, "eventcount": 1, "data": {"key": kid}}
    ).encode()
