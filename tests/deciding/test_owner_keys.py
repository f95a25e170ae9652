"""An owner encrypts the states in its shard, restores its keys, and stops if a key was lost."""

from contextlib import closing, nullcontext
from pathlib import Path

import pytest

from cqrs_cli import failpoints
from cqrs_cli.core.personal.message_redaction import redact_message
from cqrs_cli.core.stored import StoredState
from cqrs_cli.deciding.owner_keys import OwnerKeys
from cqrs_cli.deciding.packing import unpack
from cqrs_cli.deciding.recover import is_permanent
from cqrs_cli.deciding.state_cache import UNRESOLVED_KEYS_MARKER
from cqrs_cli.errors import ContradictionError, UnavailableError
from cqrs_cli.kafka.topics.partitioner import KeyFilter
from cqrs_cli.keys.keyring import Keyring
from cqrs_cli.state.key_cache import KeyCache, KeyOffsets, MemoryKeys
from cqrs_cli.state.store import NotOwnerError
from tests.core.personal.batches import PLAIN_TEXTS, erase, register
from tests.core.personal.customer import CUSTOMER, Customer
from tests.deciding.owner_states import KEYRING, LogsInMemory, OwnerStates

ANN = Customer("Ann Smith", "ann@home", "free")


@pytest.fixture
def logs() -> LogsInMemory:
    return LogsInMemory()


@pytest.fixture
def owner(logs: LogsInMemory) -> OwnerStates:
    """An owner that has registered a customer."""
    owner = OwnerStates(logs).recover()
    owner.decide(register(0))
    return owner


def successor_of(owner: OwnerStates, cache: bool = True, shard: bool = True) -> OwnerStates:
    """Return its successor on the same machine, which may have lost its cache or its shard."""
    return OwnerStates(owner.logs, owner.store if shard else None, owner.cache if cache else None)


def test_state_in_shard_is_encrypted(owner: OwnerStates) -> None:
    owner.states.flush()
    assert not any(plain in owner.stored_bytes() for plain in PLAIN_TEXTS)
    assert successor_of(owner).recover().state() == owner.state() == ANN


@pytest.mark.parametrize("cache", [True, False])
@pytest.mark.parametrize("shard", [True, False])
def test_successor_has_the_same_states(owner: OwnerStates, cache: bool, shard: bool) -> None:
    owner.states.flush()
    owner.decide(register(1, "d"), erase(2))  # committed, but never flushed
    successor = successor_of(owner, cache, shard).recover()
    assert successor.state() == redact_message(ANN) and successor.state("d") == ANN
    assert successor.keys.key_of("c") is None
    key = successor.keys.key_of("d")
    assert key is not None and key.kid == (owner.keys.key_of("d") or key).kid


def test_one_key_is_used_until_erasure(owner: OwnerStates) -> None:
    assert owner.decide(register(1)).data_keys == {}
    assert owner.decide(erase(2)).data_keys == {"c": None}
    assert [*owner.decide(register(3)).data_keys] == ["c"]
    owner.states.flush()
    assert owner.state() == successor_of(owner).recover().state() == ANN


def test_deleted_key_stays_deleted_without_tombstone(owner: OwnerStates, logs: LogsInMemory) -> None:
    """An owner was paused until the tombstone was compacted. Its cache still has the key, but the event erases it."""
    owner.states.flush()
    shard, cache = owner.store, owner.cache
    other_owner = OwnerStates(logs).recover()
    other_owner.decide(erase(1))
    logs.compact()
    assert logs.keys.records == [None, None]
    successor = OwnerStates(logs, shard, cache).recover()
    assert successor.keys.key_of("c") is None and successor.state() == redact_message(ANN)


def test_cache_from_before_an_erasure_is_dropped(owner: OwnerStates, logs: LogsInMemory) -> None:
    """The shard comes from a checkpoint and contains the erasure. The key cache is older and does not."""
    owner.states.flush()
    other_owner = OwnerStates(logs).recover()
    other_owner.decide(erase(1))
    other_owner.states.flush()
    logs.compact()
    assert owner.cache.keys_of("c").current is not None
    assert OwnerStates(logs, other_owner.store, owner.cache).recover().keys.key_of("c") is None


def test_interrupted_reading_of_keys_restarts(owner: OwnerStates, logs: LogsInMemory) -> None:
    """The owner reads half of the topic and fails. Then a key of that half is erased, and its tombstone compacted."""
    owner.states.flush()
    owner.decide(register(1, "d"))
    owner.states.flush()
    logs.keys.failing_offset = 1
    successor = successor_of(owner, cache=False)
    with pytest.raises(UnavailableError):
        successor.recover()
    logs.keys.failing_offset, logs.keys.records[0] = None, None
    assert successor.keys.key_of("c") is not None
    assert successor.recover().keys.key_of("c") is None


@pytest.mark.parametrize("event_count", [1, 2])
def test_half_an_erasure_is_unresolved(owner: OwnerStates, logs: LogsInMemory, event_count: int) -> None:
    """The tombstone becomes visible before the event. A shard that was folded between them must fold on."""
    owner.decide(register(1), erase(2))
    successor = OwnerStates(logs).recover(event_count)
    assert successor.store.get_value(UNRESOLVED_KEYS_MARKER)
    assert successor.recover().state() == redact_message(ANN)
    assert not successor.store.get_value(UNRESOLVED_KEYS_MARKER)


def test_truncated_keys_topic_stops_an_owner(owner: OwnerStates, logs: LogsInMemory) -> None:
    owner.decide(register(1), register(2, "d"))
    owner.states.flush()
    del logs.keys.records[1:]
    with pytest.raises(
        ContradictionError, match=r"customer\.keys partition 0 ends at 1, but was already read up to 2"
    ):
        OwnerStates(logs, owner.store, owner.cache).recover()


def test_lost_key_stops_recovery(owner: OwnerStates, logs: LogsInMemory) -> None:
    key, logs.keys.records[0] = logs.keys.records[0], None
    successor = OwnerStates(logs)
    for _ in range(2):  # the next attempt folds nothing, and must not pass
        with pytest.raises(
            ContradictionError, match=r"of customer 'c' is not in customer.keys .* it was not erased"
        ):
            successor.recover()
    assert successor.store.get_value(UNRESOLVED_KEYS_MARKER)
    logs.keys.records[0] = key
    assert OwnerStates(logs).recover().state() == ANN


@pytest.mark.parametrize("shard", [True, False])
def test_accepted_loss_may_contain_erasures(owner: OwnerStates, logs: LogsInMemory, shard: bool) -> None:
    """The events topic was restored to a time before an erasure, and the keys topic was not."""
    owner.states.flush()
    owner.decide(erase(1))
    logs.events.pop()
    successor = successor_of(owner, cache=False, shard=shard)
    with pytest.raises(ContradictionError) if not shard else nullcontext():
        successor.recover()
    successor.states.check_keys(is_loss_accepted=True)
    assert successor.state() == redact_message(ANN)
    successor.decide(register(2, "d"))
    successor.states.flush()
    assert not successor.store.get_value(UNRESOLVED_KEYS_MARKER)


def test_lost_key_stops_deciding(owner: OwnerStates, logs: LogsInMemory) -> None:
    """All events are folded, so the loss is found when the state is needed."""
    owner.states.flush()
    logs.keys.records[0] = None
    with pytest.raises(ContradictionError, match="it was not erased"):
        successor_of(owner, cache=False).recover().decide(register(1))


def test_keyring_without_the_kek_stops(owner: OwnerStates, logs: LogsInMemory) -> None:
    owner.states.flush()
    with pytest.raises(
        ContradictionError, match="under the key-encryption key '2026-11', which is not in the keyring"
    ):
        OwnerStates(logs, owner.store, owner.cache, Keyring({"2027-01": b"n" * 64})).recover().state()


def test_damaged_state_is_a_contradiction(owner: OwnerStates) -> None:
    owner.states.flush()
    ((name, stored),) = owner.store.items()
    damaged = StoredState(
        stored.version, stored.offset, stored.eventindex, stored.state.replace(b'"},', b'AAAA"},')
    )
    with pytest.raises(ContradictionError, match="is damaged"):
        unpack(CUSTOMER, name, damaged, owner.keys)


@pytest.mark.parametrize("point", ["apply.before", "apply.after"])
def test_crash_while_flushing_changes_nothing(owner: OwnerStates, logs: LogsInMemory, point: str) -> None:
    """The cache is written first: the successor finds a shard that lags the cache or equals it."""

    def die() -> None:
        raise ConnectionError

    owner.states.flush()
    owner.decide(erase(1), register(2, "d"))
    with failpoints.call_at(point, die), pytest.raises(ConnectionError):
        owner.states.flush()
    logs.compact()
    successor = successor_of(owner).recover()
    assert (successor.state(), successor.state("d")) == (redact_message(ANN), ANN)
    assert successor.keys.key_of("c") is None


def test_paused_owner_writes_no_key(owner: OwnerStates) -> None:
    """The owner wakes up after its successor, which has ended a key that the owner has not written yet."""
    successor = successor_of(owner).recover()
    successor.decide(erase(1))
    successor.states.flush()
    with pytest.raises(NotOwnerError):
        owner.states.flush()
    assert successor_of(owner).recover().keys.key_of("c") is None


def test_erased_key_in_the_topic_is_ignored(owner: OwnerStates, logs: LogsInMemory) -> None:
    """The record of the key is still in the keys topic, after the erasure."""
    owner.states.flush()
    owner.decide(erase(1))
    owner.states.flush()
    key = owner.logs.keys.records[0]
    assert key is not None
    logs.keys.records.append(key)
    assert successor_of(owner).recover().keys.key_of("c") is None


def test_keys_of_other_owners_are_not_stored(owner: OwnerStates, logs: LogsInMemory) -> None:
    """Another owner ends these keys, and this owner would not notice it."""
    names = [f"c-{number}" for number in range(20)]
    owner.decide(*(register(number, name) for number, name in enumerate(names, 1)))
    key_filter = KeyFilter("murmur2", 2, 0)
    owner.keys.read_keys(0, key_filter, clears_store=True)
    stored = {name for name in names if owner.cache.keys_of(name).current is not None}
    assert stored == {name for name in names if key_filter.matches(name.encode())} != {*names}


def test_child_without_events_rereads_keys(owner: OwnerStates, logs: LogsInMemory) -> None:
    """The key existed before the child partition did. Its parent has erased it, and the tombstone is compacted."""
    key_filter = KeyFilter(
        "murmur2",
        2,
        next(partition for partition in (0, 1) if KeyFilter("murmur2", 2, partition).matches(b"c")),
    )
    child_keys = OwnerKeys(CUSTOMER, logs.keys, 0, KEYRING, MemoryKeys(("k", "e")))
    child_keys.read_keys(0, key_filter)
    assert child_keys.key_of("c") is not None
    owner.decide(erase(1))
    logs.compact()
    child_keys.read_keys(0, key_filter)
    assert child_keys.key_of("c") is None


def test_few_keys_stay_decrypted(owner: OwnerStates, logs: LogsInMemory) -> None:
    """Only some data keys are kept in memory. Other keys are decrypted when a command needs them."""
    owner.decide(*(register(number, f"c-{number}") for number in range(1, 20)))
    owner.states.flush()
    owner_keys = OwnerKeys(CUSTOMER, logs.keys, 0, KEYRING, owner.cache, max_decrypted=2)
    assert all(owner_keys.key_of(f"c-{number}") is not None for number in range(1, 20))
    assert len(owner_keys._decrypted) == 2


def test_key_cache_on_disk_is_read_back(logs: LogsInMemory, tmp_path: Path) -> None:
    with closing(KeyCache(tmp_path, ("k", "e"))) as cache:
        owner = OwnerStates(logs, cache=cache).recover()
        owner.decide(register(0))
        owner.states.flush()
    with closing(KeyCache(tmp_path, ("k", "e"))) as cache:
        assert cache.offsets == KeyOffsets(("k", "e"), 1, 1)
        assert OwnerStates(logs, owner.store, cache).recover().state() == ANN
    assert not any(plain in file.read_bytes() for plain in PLAIN_TEXTS for file in tmp_path.iterdir())


def test_standby_needs_the_newest_kek(owner: OwnerStates, logs: LogsInMemory) -> None:
    """The standby run's keyring lacks the KEK of the active run, so the standby run cannot take over, however often it
    tries.
    """
    owner.states.flush()
    standby = OwnerStates(logs, keyring=Keyring({"2027-01": b"n" * 64}))
    for _ in range(2):
        with pytest.raises(ContradictionError) as error:
            standby.recover()
        assert is_permanent(error.value)
