"""Readers decrypt events with the keys that they read, and never treat an existing value as erased."""

import json

import msgspec
import pytest

from cqrs_cli.codec.encrypted_events import personal_members
from cqrs_cli.codec.event_decryptor import EventDecryptor, KeySource
from cqrs_cli.core.aggregate.erased import Erased
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.messages.record import Record
from cqrs_cli.errors import ContradictionError
from cqrs_cli.keys.address import KeyRingAddress
from cqrs_cli.keys.reader_keys import KeyUse, ReaderKeys
from tests.codec.in_memory import (
    ANN,
    FIRST_KEY,
    MASKED_DATA,
    SECOND_KEY,
    KeysInMemory,
    event_data,
    event_record,
)
from tests.core.personal.customer import CUSTOMER


def test_encrypted_events_are_decrypted(decryptor: EventDecryptor, keys: KeysInMemory) -> None:
    keys.put("c-42", FIRST_KEY)
    assert event_data(decryptor.view_events(0, [event_record(0, ANN, FIRST_KEY)])) == [
        json.loads(encode_json(ANN))
    ]


def test_plain_events_need_no_keys(decryptor: EventDecryptor, keys: KeysInMemory) -> None:
    plain = [event_record(0, ANN), event_record(1, Erased("a key"))]
    assert decryptor.view_events(0, plain) is plain or decryptor.view_events(0, plain) == plain
    assert keys.bounds_reads == 0


def test_reader_without_keyring_sees_redacted_values() -> None:
    decryptor = EventDecryptor("customer.events", personal_members(CUSTOMER))
    assert event_data(decryptor.view_events(0, [event_record(0, ANN, FIRST_KEY)])) == [MASKED_DATA]


def test_aggregates_without_personal_data_stay_unchanged() -> None:
    records = [event_record(0, ANN, FIRST_KEY)]
    assert EventDecryptor("customer.events", None).view_events(0, records) is records


def test_late_key_is_waited_for(decryptor: EventDecryptor, keys: KeysInMemory) -> None:
    """The event becomes visible before the key: the end of the keys is read after the event."""
    keys.put("c-40", SECOND_KEY)
    decryptor.view_events(0, [event_record(0, ANN, FIRST_KEY, "c-41")])
    keys.put("c-42", FIRST_KEY)
    assert event_data(decryptor.view_events(0, [event_record(1, ANN, FIRST_KEY)])) == [
        json.loads(encode_json(ANN))
    ]


def test_absent_key_is_erased(decryptor: EventDecryptor, keys: KeysInMemory) -> None:
    keys.put("c-42", FIRST_KEY)
    keys.put("c-42", None)
    assert event_data(decryptor.view_events(0, [event_record(0, ANN, FIRST_KEY)])) == [MASKED_DATA]


def test_child_partitions_share_keys(keyring_address: KeyRingAddress, keys: KeysInMemory) -> None:
    """The keys topic keeps its partition count forever, so an aggregate's keys stay in one partition."""
    keys.count = 2
    decryptor = EventDecryptor(
        "customer.events", personal_members(CUSTOMER), KeySource(keyring_address, keys)
    )
    keys.put("c-42", FIRST_KEY)
    for partition in (1, 3, 4):
        assert event_data(decryptor.view_events(partition, [event_record(0, ANN, FIRST_KEY)])) == [
            json.loads(encode_json(ANN))
        ]
    assert keys.polled_partitions == [1, 0]


def test_replay_reads_the_keys_once(decryptor: EventDecryptor, keys: KeysInMemory) -> None:
    keys.put("c-42", FIRST_KEY)
    keys.events = 100
    for offset in range(50):
        decryptor.view_events(0, [event_record(offset, ANN, SECOND_KEY)])
    assert keys.bounds_reads == 1


def test_erased_event_ends_a_key_without_tombstone(decryptor: EventDecryptor, keys: KeysInMemory) -> None:
    """The reader has the key, and its tombstone is compacted before the reader continues: `Erased` ends the key."""
    keys.put("c-42", FIRST_KEY)
    decryptor.view_events(0, [event_record(0, ANN, FIRST_KEY)])
    keys.put("c-42", None)
    keys.put("c-1", SECOND_KEY)
    keys.compact()
    visible_records = decryptor.view_events(
        0, [event_record(1, Erased(FIRST_KEY.kid)), event_record(2, ANN, FIRST_KEY)]
    )
    assert event_data(visible_records)[1] == MASKED_DATA


def test_deleted_key_never_comes_back(decryptor: EventDecryptor, keys: KeysInMemory) -> None:
    keys.put("c-41", SECOND_KEY)
    decryptor.view_events(
        0, [event_record(0, ANN, SECOND_KEY, "c-41"), event_record(1, Erased(FIRST_KEY.kid))]
    )
    keys.put("c-42", FIRST_KEY)
    assert event_data(decryptor.view_events(0, [event_record(2, ANN, FIRST_KEY)])) == [MASKED_DATA]


def test_each_key_decrypts_its_own_values(decryptor: EventDecryptor, keys: KeysInMemory) -> None:
    for key in (FIRST_KEY, None, SECOND_KEY):
        keys.put("c-42", key)
    records = [
        event_record(0, ANN, FIRST_KEY),
        event_record(1, Erased(FIRST_KEY.kid)),
        event_record(2, ANN, SECOND_KEY),
    ]
    first, _, second = event_data(decryptor.view_events(0, records))
    assert (first, second) == (MASKED_DATA, json.loads(encode_json(ANN)))


@pytest.mark.parametrize("compacted", [False, True])
def test_new_reading_drops_deleted_keys(
    keyring_address: KeyRingAddress, keys: KeysInMemory, compacted: bool
) -> None:
    """The reader never reads the `Erased` event, and after a day the tombstone is compacted, too."""
    now = [0.0]
    reader_keys = ReaderKeys(keys, 0, keyring_address, max_age=0, clock=lambda: now[0])
    keys.put("c-42", FIRST_KEY)
    keys.put("c-43", SECOND_KEY)
    key_uses = [KeyUse("c-42", FIRST_KEY.kid, 0), KeyUse("c-43", SECOND_KEY.kid, 1)]

    def known_key_ids() -> list[str | None]:
        reader_keys.read_if_needed(0, key_uses)
        data_keys = [reader_keys.find(0, key_use) for key_use in key_uses]
        return [None if key is None else key.kid for key in data_keys]

    assert known_key_ids() == [FIRST_KEY.kid, SECOND_KEY.kid]
    keys.put("c-42", None)
    if compacted:
        keys.put("c-1", SECOND_KEY)
        keys.compact()
        now[0] = 86_400.0
    assert known_key_ids() == [None, SECOND_KEY.kid]


def test_known_keys_are_used_until_old(keyring_address: KeyRingAddress, keys: KeysInMemory) -> None:
    reader_keys = ReaderKeys(keys, 0, keyring_address, max_age=10, clock=lambda: 0.0)
    keys.put("c-42", FIRST_KEY)
    for offset in range(3):
        reader_keys.read_if_needed(0, [KeyUse("c-42", FIRST_KEY.kid, offset)])
    assert keys.bounds_reads == 1


def test_one_aggregate_needs_its_own_keys(keyring_address: KeyRingAddress, keys: KeysInMemory) -> None:
    decryptor = EventDecryptor(
        "customer.events", personal_members(CUSTOMER), KeySource(keyring_address, keys), only="c-42"
    )
    keys.put("c-42", FIRST_KEY)
    keys.put("c-43", SECOND_KEY)
    visible_records = decryptor.view_events(
        0, [event_record(0, ANN, FIRST_KEY), event_record(1, ANN, SECOND_KEY, "c-43")]
    )
    assert event_data(visible_records) == [json.loads(encode_json(ANN)), MASKED_DATA]


def test_damaged_value_is_an_error(decryptor: EventDecryptor, keys: KeysInMemory) -> None:
    """The value was copied from another event, so its own key does not decrypt it."""
    keys.put("c-42", FIRST_KEY)
    copied_event = event_record(7, ANN, FIRST_KEY)
    copied_event = msgspec.structs.replace(
        copied_event, value=(copied_event.value or b"").replace(b"0/7/0", b"0/8/0")
    )
    with pytest.raises(ContradictionError, match=r"customer\.events:0@7.*does not decrypt") as error:
        decryptor.view_events(0, [copied_event])
    assert "Ann" not in str(error.value)


def test_value_without_key_is_an_error(decryptor: EventDecryptor) -> None:
    malformed = Record(
        3,
        0,
        b"c-42",
        b'{"id":"0/3/0","type":"customer.Registered","subject":"c-42","data":{"name":{"$sealed":7}}}',
    )
    with pytest.raises(ContradictionError, match=r"customer\.events:0@3.*not an encrypted value"):
        decryptor.view_events(0, [malformed])


def test_foreign_key_record_is_an_error(decryptor: EventDecryptor, keys: KeysInMemory) -> None:
    keys.records.append(Record(0, 0, b"c-42", b'{"kid":7}'))
    with pytest.raises(ContradictionError, match=r"customer\.keys partition 0 offset 0 is not a key"):
        decryptor.view_events(0, [event_record(0, ANN, FIRST_KEY)])


def test_truncated_keys_topic_is_no_erasure(decryptor: EventDecryptor, keys: KeysInMemory) -> None:
    keys.put("c-42", FIRST_KEY)
    decryptor.view_events(0, [event_record(0, ANN, FIRST_KEY)])
    keys.records.clear()
    with pytest.raises(
        ContradictionError, match=r"customer\.keys partition 0 ends at 0, but was already read up to 1"
    ):
        decryptor.view_events(0, [event_record(1, ANN, SECOND_KEY, "c-41")])


def test_emptied_topic_is_no_erasure(decryptor: EventDecryptor, keys: KeysInMemory) -> None:
    """An encrypted value had a key in this topic, so a new reader must not redact it."""
    with pytest.raises(
        ContradictionError, match=r"customer\.keys partition 0 has no records.*it was not erased"
    ):
        decryptor.view_events(0, [event_record(0, ANN, FIRST_KEY)])
    visible_records = decryptor.view_events(
        0, [event_record(0, ANN, FIRST_KEY), event_record(1, Erased(FIRST_KEY.kid))]
    )
    assert event_data(visible_records)[0] == MASKED_DATA
