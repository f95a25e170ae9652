"""Random changes of the keys topic: each change that a reader would notice is found, and no change is an error."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cqrs_cli.core.messages.json import encode_json, read_members
from cqrs_cli.core.messages.record import Record
from cqrs_cli.keys.topic import COMPACTION_TICK, WrappedKey, key_value
from cqrs_cli.proof.key_records import KeyRecords, stored_key
from cqrs_cli.proof.partition import PartitionVerification
from cqrs_cli.state.memory import MemoryStore
from cqrs_cli.state.store import Store
from tests.proof.encrypted_histories import KEYRING, KEYS_TOPIC, EncryptedHistory, add, erase, key
from tests.proof.violations import violation_texts

Log = list[tuple[str, WrappedKey | None]]
OTHER_VALUES = st.sampled_from([None, 0, -1, 1.5, True, "", "x", "AAAAAAAAAAA", "m", [1], {"a": 1}, 2**70])


class KeyHistory(EncryptedHistory):
    """A history with the records of the keys topic, as owners write them."""

    def decide(self, *arguments: Any, **options: Any) -> None:
        super().decide(*arguments, **options)
        keys: Log = []
        current_keys = dict[str, WrappedKey]()
        number = 0
        for command in self.commands:
            subject, document = (command.key or b"").decode(), command.value or b""
            if b"cqrs.Erase" in document:
                if current_keys.pop(subject, None) is not None:
                    keys.append((subject, None))
            elif subject not in current_keys:
                number += 1
                current_keys[subject] = KEYRING.wrap(KEYS_TOPIC, subject, key(number))
                keys.append((subject, current_keys[subject]))
        assert current_keys == self.keys
        self.log = [
            Record(offset, 0, name.encode(), key_value(key)) for offset, (name, key) in enumerate(keys)
        ]
        self.log.append(Record(len(keys), 0, COMPACTION_TICK[1], COMPACTION_TICK[0]))

    def check_more(self, proof: PartitionVerification, store: Store) -> None:
        topic = MemoryStore(1)
        records = KeyRecords(topic, lambda key: True)
        records.read(self.log)
        proof.keys.add_violations(records.findings)
        saved_states, latest_values = dict(store.items()), dict(topic.items())
        rows = (
            (
                name,
                saved_states[name].state if name in saved_states else b"",
                stored_key(latest_values.get(name)),
            )
            for name in saved_states | latest_values
        )
        proof.keys.check_key_topic(rows, self.since)

    def latest(self) -> dict[bytes | None, bytes | None]:
        """Return the last value of each aggregate, as a reader sees it."""
        last_values = {record.key: record.value for record in self.log if record.key}
        return {name: value for name, value in last_values.items() if value is not None}

    def violations_with(self, log: list[Record]) -> list[str]:
        self.log = log
        latest_values = {name: value for name, value in self.latest().items() if name is not None}
        self.keys = {
            name.decode(errors="replace"): key
            for name, value in latest_values.items()
            if (key := parse_key(value))
        }
        return violation_texts(self)


def parse_key(value: bytes | None) -> WrappedKey | None:
    try:
        return msgspec.json.decode(value or b"", type=WrappedKey)
    except msgspec.MsgspecError:
        return None


@st.composite
def histories(draw: st.DrawFn) -> KeyHistory:
    subjects = st.sampled_from("abc")
    commands = st.builds(lambda subject: add(1, "Ann", subject), subjects) | st.builds(erase, subjects)
    return KeyHistory([add(1, "Ann"), *draw(st.lists(commands, max_size=10))])


@given(histories())
def test_keys_of_owners_have_no_violation(history: KeyHistory) -> None:
    assert history.violations_with(history.log) == []


def changed_member(draw: Callable[[st.SearchStrategy[Any]], Any], record: Record) -> Record:
    """Change one member of the record's JSON, replace its value or aggregate id, or make it a tombstone."""
    members = read_members(record.value or b"{}")
    name = draw(st.sampled_from(["kid", "master", "key", "further", "value", "subject", "tombstone"]))
    match name:
        case "value":
            return replace(record, value=draw(st.binary(max_size=8)))
        case "subject":
            return replace(record, key=draw(st.sampled_from([b"", b"a", b"b", b"z", b"\xff", None])))
        case "tombstone":
            return replace(record, value=None)
    value = draw(st.none() | OTHER_VALUES.map(encode_json))
    if value is None:
        members.pop(name, None)
    else:
        members[name] = msgspec.Raw(value)
    return replace(record, value=encode_json(members))


@pytest.mark.covers("verifiable")
@given(histories(), st.data())
def test_changed_keys_topic_is_found(history: KeyHistory, data: st.DataObject) -> None:
    """Two changes are allowed: a compacted record, and a key without events, whose command may have been cancelled."""
    latest_before, log = history.latest(), [*history.log]
    index = data.draw(st.integers(0, len(log) - 1))
    match data.draw(st.sampled_from(["drop", "duplicate", "swap", "truncate", "change"])):
        case "drop":
            del log[index]
        case "duplicate":
            log.append(log[index])
        case "swap":
            log[index - 1], log[index] = log[index], log[index - 1]
        case "truncate":
            del log[index:]
        case _:
            log[index] = changed_member(data.draw, log[index])
    violations = history.violations_with(
        [replace(record, offset=offset) for offset, record in enumerate(log)]
    )
    latest_after = history.latest()
    lost_or_changed = {name for name, value in latest_before.items() if latest_after.get(name) != value}
    returned = {name for name in latest_after.keys() - latest_before.keys() if name in {b"a", b"b", b"c"}} & {
        record.key for record in log[:-1] if record.value is None
    }
    if lost_or_changed or returned:
        assert violations != []


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        (Record(7, 0, b"a", b"?"), "keys 7 is not a key: JSON is malformed"),
        (Record(7, 0, b"\xff", b"{}"), "keys 7 is not a key: 'utf-8' codec"),
        (
            Record(7, 0, b"", key_value(KEYRING.wrap(KEYS_TOPIC, "", key(1)))),
            "keys 7 is not a key: it has no aggregate id",
        ),
        (
            Record(7, 0, b"a", key_value(WrappedKey("AAAA", "m", "AAAA"))),
            "keys 7 is not a key: its id has 3 bytes, and its encrypted key 3 bytes",
        ),
        (
            Record(
                7,
                0,
                b"a",
                (key_value(KEYRING.wrap(KEYS_TOPIC, "a", key(1))) or b"").replace(b"{", b'{"x":1,'),
            ),
            "keys 7 is not a key: its JSON has another form",
        ),
        (
            Record(7, 0, b"a", key_value(KEYRING.wrap(KEYS_TOPIC, "b", key(1)))),
            f"keys 7 cannot be decrypted: key {key(1).kid} of tally.keys cannot be decrypted",
        ),
    ],
)
def test_impossible_key_is_named(record: Record, problem: str) -> None:
    history = KeyHistory([add(1, "Ann")])
    assert any(violation.startswith(problem) for violation in history.violations_with([*history.log, record]))


def test_key_of_another_partition_is_found() -> None:
    records = KeyRecords(MemoryStore(1), lambda key: True, lambda key: key != b"a")
    records.read([Record(offset, 0, name, None) for offset, name in enumerate((b"a", b"b", b""))])
    assert [violation[:2] for violation in records.findings.listed] == [("keys", 1)]
