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
from tests.keys.in_memory import ANN, FIRST, MASKED, SECOND, KeysInMemory, data, event


def test_sealed_events_open(opener: EventDecryptor, keys: KeysInMemory) -> None:
    keys.put("c-42", FIRST)
    assert data(opener.view_events(0, [event(0, ANN, FIRST)])) == [json.loads(encode_json(ANN))]


def test_nothing_is_asked_without_a_seal(opener: EventDecryptor, keys: KeysInMemory) -> None:
    plain = [event(0, ANN), event(1, Erased("a key"))]
    assert opener.view_events(0, plain) is plain or opener.view_events(0, plain) == plain
    assert keys.asked == 0


def test_reader_without_ring_sees_placeholders() -> None:
    opener = EventDecryptor("customer.events", personal_members(CUSTOMER))
    assert data(opener.view_events(0, [event(0, ANN, FIRST)])) == [MASKED]


def test_events_of_unmarked_aggregates_stay() -> None:
    records = [event(0, ANN, FIRST)]
    assert EventDecryptor("customer.events", None).view_events(0, records) is records


def test_late_key_is_waited_for(opener: EventDecryptor, keys: KeysInMemory) -> None:
    """The event becomes visible before the key: the end of the keys is read after the event."""
    keys.put("c-40", SECOND)
    opener.view_events(0, [event(0, ANN, FIRST, "c-41")])
    keys.put("c-42", FIRST)
    assert data(opener.view_events(0, [event(1, ANN, FIRST)])) == [json.loads(encode_json(ANN))]


def test_absent_key_is_erased(opener: EventDecryptor, keys: KeysInMemory) -> None:
    keys.put("c-42", FIRST)
    keys.put("c-42", None)
    assert data(opener.view_events(0, [event(0, ANN, FIRST)])) == [MASKED]


def test_grown_events_share_keys(ring: KeyRingAddress, keys: KeysInMemory) -> None:
    """The keys topic keeps its partition count forever, so an aggregate's keys stay in one partition."""
    keys.count = 2
    opener = EventDecryptor("customer.events", personal_members(CUSTOMER), DecryptorKeys(ring, keys))
    keys.put("c-42", FIRST)
    for partition in (1, 3, 4):
        assert data(opener.view_events(partition, [event(0, ANN, FIRST)])) == [json.loads(encode_json(ANN))]
    assert keys.places == [1, 0]


def test_replay_asks_for_the_keys_once(opener: EventDecryptor, keys: KeysInMemory) -> None:
    keys.put("c-42", FIRST)
    keys.events = 100
    for offset in range(50):
        opener.view_events(0, [event(offset, ANN, SECOND)])
    assert keys.asked == 1


def test_sleeper_drops_what_compaction_hid(opener: EventDecryptor, keys: KeysInMemory) -> None:
    """The reader has the key, and its tombstone is compacted before the reader continues: `Erased` ends the key."""
    keys.put("c-42", FIRST)
    opener.view_events(0, [event(0, ANN, FIRST)])
    keys.put("c-42", None)
    keys.put("c-1", SECOND)
    keys.compact()
    found = opener.view_events(0, [event(1, Erased(FIRST.kid)), event(2, ANN, FIRST)])
    assert data(found)[1] == MASKED


def test_ended_key_never_comes_back(opener: EventDecryptor, keys: KeysInMemory) -> None:
    keys.put("c-41", SECOND)
    opener.view_events(0, [event(0, ANN, SECOND, "c-41"), event(1, Erased(FIRST.kid))])
    keys.put("c-42", FIRST)
    assert data(opener.view_events(0, [event(2, ANN, FIRST)])) == [MASKED]


def test_next_key_opens_what_it_sealed(opener: EventDecryptor, keys: KeysInMemory) -> None:
    for key in (FIRST, None, SECOND):
        keys.put("c-42", key)
    records = [event(0, ANN, FIRST), event(1, Erased(FIRST.kid)), event(2, ANN, SECOND)]
    first, _, second = data(opener.view_events(0, records))
    assert (first, second) == (MASKED, json.loads(encode_json(ANN)))


@pytest.mark.parametrize("compacted", [False, True])
def test_reader_that_starts_over_forgets(ring: KeyRingAddress, keys: KeysInMemory, compacted: bool) -> None:
    """It never reads the `Erased`, and after a day not even the tombstone."""
    now = [0.0]
    known = PartitionKeys(keys, 0, max_age=0, clock=lambda: now[0])
    keys.put("c-42", FIRST)
    keys.put("c-43", SECOND)
    needs = [KeyUse("c-42", FIRST.kid, 0), KeyUse("c-43", SECOND.kid, 1)]

    def found() -> list[str | None]:
        known.read_if_needed(0, needs)
        keys = [known.find(keyring_at(ring), 0, need) for need in needs]
        return [None if key is None else key.kid for key in keys]

    assert found() == [FIRST.kid, SECOND.kid]
    keys.put("c-42", None)
    if compacted:
        keys.put("c-1", SECOND)
        keys.compact()
        now[0] = 86_400.0
    assert found() == [None, SECOND.kid]


def test_known_keys_are_used_until_old(ring: KeyRingAddress, keys: KeysInMemory) -> None:
    known = PartitionKeys(keys, 0, max_age=10, clock=lambda: 0.0)
    keys.put("c-42", FIRST)
    for offset in range(3):
        known.read_if_needed(0, [KeyUse("c-42", FIRST.kid, offset)])
    assert keys.asked == 1


def test_one_aggregate_needs_its_own_keys(ring: KeyRingAddress, keys: KeysInMemory) -> None:
    opener = EventDecryptor(
        "customer.events", personal_members(CUSTOMER), DecryptorKeys(ring, keys), only="c-42"
    )
    keys.put("c-42", FIRST)
    keys.put("c-43", SECOND)
    found = opener.view_events(0, [event(0, ANN, FIRST), event(1, ANN, SECOND, "c-43")])
    assert data(found) == [json.loads(encode_json(ANN)), MASKED]


def test_damaged_seal_is_named(opener: EventDecryptor, keys: KeysInMemory) -> None:
    """The value was copied from another event, so its own key does not decrypt it."""
    keys.put("c-42", FIRST)
    moved = event(7, ANN, FIRST)
    moved = msgspec.structs.replace(moved, value=(moved.value or b"").replace(b"0/7/0", b"0/8/0"))
    with pytest.raises(ContradictionError, match=r"customer\.events:0@7.*does not open") as refused:
        opener.view_events(0, [moved])
    assert "Ann" not in str(refused.value)


def test_value_that_names_no_key_is_named(opener: EventDecryptor) -> None:
    malformed = Record(
        3,
        0,
        b"c-42",
        b'{"id":"0/3/0","type":"customer.Registered","subject":"c-42","data":{"name":{"$sealed":7}}}',
    )
    with pytest.raises(ContradictionError, match=r"customer\.events:0@3.*not a sealed value"):
        opener.view_events(0, [malformed])


def test_foreign_key_record_is_named(opener: EventDecryptor, keys: KeysInMemory) -> None:
    keys.records.append(Record(0, 0, b"c-42", b'{"kid":7}'))
    with pytest.raises(ContradictionError, match=r"customer\.keys partition 0 offset 0 is not a key"):
        opener.view_events(0, [event(0, ANN, FIRST)])


def test_cut_topic_is_no_erasure(opener: EventDecryptor, keys: KeysInMemory) -> None:
    keys.put("c-42", FIRST)
    opener.view_events(0, [event(0, ANN, FIRST)])
    keys.records.clear()
    with pytest.raises(ContradictionError, match=r"customer\.keys partition 0 ends at 0, before the 1"):
        opener.view_events(0, [event(1, ANN, SECOND, "c-41")])


def test_emptied_topic_is_no_erasure(opener: EventDecryptor, keys: KeysInMemory) -> None:
    """An encrypted value had a key in this topic, so a new reader must not redact it."""
    with pytest.raises(
        ContradictionError, match=r"customer\.keys partition 0 has no records.*it was not erased"
    ):
        opener.view_events(0, [event(0, ANN, FIRST)])
    found = opener.view_events(0, [event(0, ANN, FIRST), event(1, Erased(FIRST.kid))])
    assert data(found)[0] == MASKED
