"""Readers decrypt events with the keys that they read, and never treat an existing value as erased."""

import json

import msgspec
import pytest

from cqrs_cli.core.aggregate.erased import Erased
from cqrs_cli.core.encrypted_events import personal_members
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.messages.record import Record
from cqrs_cli.errors import ContradictionError
from cqrs_cli.keys.address import KeyRingAddress, keyring_at
from cqrs_cli.keys.event_decryptor import DecryptorKeys, EventDecryptor
from cqrs_cli.keys.partition_keys import KeyUse, PartitionKeys
from tests.core.personal.customer import CUSTOMER
from tests.keys.in_memory import (
    ANN,
    FIRST_KEY,
    MASKED_DATA,
    SECOND_KEY,
    KeysInMemory,
    event_data,
    event_record,
)


def test_sealed_events_open(decryptor: EventDecryptor, keys: KeysInMemory) -> None:
    keys.put("c-42", FIRST_KEY)
    assert event_data(decryptor.view_events(0, [event_record(0, ANN, FIRST_KEY)])) == [
        json.loads(encode_json(ANN))
    ]


def test_nothing_is_asked_without_a_seal(decryptor: EventDecryptor, keys: KeysInMemory) -> None:
    plain = [event_record(0, ANN), event_record(1, Erased("a key"))]
    assert decryptor.view_events(0, plain) is plain or decryptor.view_events(0, plain) == plain
    assert keys.bounds_reads == 0


def test_reader_without_ring_sees_placeholders() -> None:
    decryptor = EventDecryptor("customer.events", personal_members(CUSTOMER))
    assert event_data(decryptor.view_events(0, [event_record(0, ANN, FIRST_KEY)])) == [MASKED_DATA]


def test_events_of_unmarked_aggregates_stay() -> None:
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


def test_grown_events_share_keys(keyring_address: KeyRingAddress, keys: KeysInMemory) -> None:
    """The keys topic keeps its partition count forever, so an aggregate's keys stay in one partition."""
    keys.count = 2
    decryptor = EventDecryptor(
        "customer.events", personal_members(CUSTOMER), DecryptorKeys(keyring_address, keys)
    )
    keys.put("c-42", FIRST_KEY)
    for partition in (1, 3, 4):
        assert event_data(decryptor.view_events(partition, [event_record(0, ANN, FIRST_KEY)])) == [
            json.loads(encode_json(ANN))
        ]
    assert keys.polled_partitions == [1, 0]


def test_replay_asks_for_the_keys_once(decryptor: EventDecryptor, keys: KeysInMemory) -> None:
    keys.put("c-42", FIRST_KEY)
    keys.events = 100
    for offset in range(50):
        decryptor.view_events(0, [event_record(offset, ANN, SECOND_KEY)])
    assert keys.bounds_reads == 1


def test_sleeper_drops_what_compaction_hid(decryptor: EventDecryptor, keys: KeysInMemory) -> None:
    """The reader has the key, and its tombstone is compacted before the reader continues: `Erased` ends the key."""
    keys.put("c-42", FIRST_KEY)
    decryptor.view_events(0, [event_record(0, ANN, FIRST_KEY)])
    keys.put("c-42", None)
    keys.put("c-1", SECOND_KEY)
    keys.compact()
    found = decryptor.view_events(
        0, [event_record(1, Erased(FIRST_KEY.kid)), event_record(2, ANN, FIRST_KEY)]
    )
    assert event_data(found)[1] == MASKED_DATA


def test_ended_key_never_comes_back(decryptor: EventDecryptor, keys: KeysInMemory) -> None:
    keys.put("c-41", SECOND_KEY)
    decryptor.view_events(
        0, [event_record(0, ANN, SECOND_KEY, "c-41"), event_record(1, Erased(FIRST_KEY.kid))]
    )
    keys.put("c-42", FIRST_KEY)
    assert event_data(decryptor.view_events(0, [event_record(2, ANN, FIRST_KEY)])) == [MASKED_DATA]


def test_next_key_opens_what_it_sealed(decryptor: EventDecryptor, keys: KeysInMemory) -> None:
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
def test_reader_that_starts_over_forgets(
    keyring_address: KeyRingAddress, keys: KeysInMemory, compacted: bool
) -> None:
    """It never reads the `Erased`, and after a day not even the tombstone."""
    now = [0.0]
    known = PartitionKeys(keys, 0, max_age=0, clock=lambda: now[0])
    keys.put("c-42", FIRST_KEY)
    keys.put("c-43", SECOND_KEY)
    needs = [KeyUse("c-42", FIRST_KEY.kid, 0), KeyUse("c-43", SECOND_KEY.kid, 1)]

    def found() -> list[str | None]:
        known.read_if_needed(0, needs)
        keys = [known.find(keyring_at(keyring_address), 0, need) for need in needs]
        return [None if key is None else key.kid for key in keys]

    assert found() == [FIRST_KEY.kid, SECOND_KEY.kid]
    keys.put("c-42", None)
    if compacted:
        keys.put("c-1", SECOND_KEY)
        keys.compact()
        now[0] = 86_400.0
    assert found() == [None, SECOND_KEY.kid]


def test_known_keys_are_used_until_old(keyring_address: KeyRingAddress, keys: KeysInMemory) -> None:
    known = PartitionKeys(keys, 0, max_age=10, clock=lambda: 0.0)
    keys.put("c-42", FIRST_KEY)
    for offset in range(3):
        known.read_if_needed(0, [KeyUse("c-42", FIRST_KEY.kid, offset)])
    assert keys.bounds_reads == 1


def test_one_aggregate_needs_its_own_keys(keyring_address: KeyRingAddress, keys: KeysInMemory) -> None:
    decryptor = EventDecryptor(
        "customer.events", personal_members(CUSTOMER), DecryptorKeys(keyring_address, keys), only="c-42"
    )
    keys.put("c-42", FIRST_KEY)
    keys.put("c-43", SECOND_KEY)
    found = decryptor.view_events(
        0, [event_record(0, ANN, FIRST_KEY), event_record(1, ANN, SECOND_KEY, "c-43")]
    )
    assert event_data(found) == [json.loads(encode_json(ANN)), MASKED_DATA]


def test_damaged_seal_is_named(decryptor: EventDecryptor, keys: KeysInMemory) -> None:
    """The value was copied from another event, so its own key does not decrypt it."""
    keys.put("c-42", FIRST_KEY)
    moved = event_record(7, ANN, FIRST_KEY)
    moved = msgspec.structs.replace(moved, value=(moved.value or b"").replace(b"0/7/0", b"0/8/0"))
    with pytest.raises(ContradictionError, match=r"customer\.events:0@7.*does not open") as refused:
        decryptor.view_events(0, [moved])
    assert "Ann" not in str(refused.value)


def test_value_that_names_no_key_is_named(decryptor: EventDecryptor) -> None:
    malformed = Record(
        3,
        0,
        b"c-42",
        b'{"id":"0/3/0","type":"customer.Registered","subject":"c-42","data":{"name":{"$sealed":7}}}',
    )
    with pytest.raises(ContradictionError, match=r"customer\.events:0@3.*not a sealed value"):
        decryptor.view_events(0, [malformed])


def test_foreign_key_record_is_named(decryptor: EventDecryptor, keys: KeysInMemory) -> None:
    keys.records.append(Record(0, 0, b"c-42", b'{"kid":7}'))
    with pytest.raises(ContradictionError, match=r"customer\.keys partition 0 offset 0 is not a key"):
        decryptor.view_events(0, [event_record(0, ANN, FIRST_KEY)])


def test_cut_topic_is_no_erasure(decryptor: EventDecryptor, keys: KeysInMemory) -> None:
    keys.put("c-42", FIRST_KEY)
    decryptor.view_events(0, [event_record(0, ANN, FIRST_KEY)])
    keys.records.clear()
    with pytest.raises(ContradictionError, match=r"customer\.keys partition 0 ends at 0, before the 1"):
        decryptor.view_events(0, [event_record(1, ANN, SECOND_KEY, "c-41")])


def test_emptied_topic_is_no_erasure(decryptor: EventDecryptor, keys: KeysInMemory) -> None:
    """An encrypted value had a key in this topic, so a new reader must not redact it."""
    with pytest.raises(
        ContradictionError, match=r"customer\.keys partition 0 has no records.*it was not erased"
    ):
        decryptor.view_events(0, [event_record(0, ANN, FIRST_KEY)])
    found = decryptor.view_events(
        0, [event_record(0, ANN, FIRST_KEY), event_record(1, Erased(FIRST_KEY.kid))]
    )
    assert event_data(found)[0] == MASKED_DATA
