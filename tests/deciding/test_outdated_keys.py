"""An idle owner finds the active data keys under an old KEK, which it must re-wrap."""

import pytest

from cqrs_cli.deciding.key_upkeep import outdated_portions
from cqrs_cli.deciding.owner_keys import OwnerKeys
from cqrs_cli.kafka.topics.partitioner import KeyFilter
from cqrs_cli.keys.keyring import Keyring
from cqrs_cli.state.key_cache import MemoryKeys
from tests.core.personal.batches import erase, register
from tests.core.personal.customer import CUSTOMER
from tests.deciding.owner_states import LogsInMemory, OwnerStates

NEW_KEYRING = Keyring({"2026-12": b"n" * 64, "2026-11": b"m" * 64})
KEYRING_WITHOUT_OLD_KEK = Keyring({"2026-12": b"n" * 64})

NAMES = ("a", "b", "c", "d", "e")


@pytest.fixture
def logs() -> LogsInMemory:
    """The logs of five customers, whose keys are under the old KEK."""
    logs = LogsInMemory()
    OwnerStates(logs).recover().decide(*(register(offset, name) for offset, name in enumerate(NAMES)))
    return logs


def owner_with_new_kek(logs: LogsInMemory) -> OwnerStates:
    """Return an owner with the new KEK first in its keyring."""
    return OwnerStates(logs, keyring=NEW_KEYRING).recover()


def test_all_old_keys_are_found(logs: LogsInMemory) -> None:
    owner = owner_with_new_kek(logs)
    portions = list(outdated_portions(owner.keys, 2))
    assert [set(portion) for portion in portions] == [{name} for name in NAMES]  # they were read one by one
    assert all(owner.keys.key_of(name) is key for portion in portions for name, key in portion.items())


def test_portions_are_not_too_large(logs: LogsInMemory) -> None:
    logs.keys.batch_size = len(NAMES)
    assert [sorted(portion) for portion in outdated_portions(owner_with_new_kek(logs).keys, 2)] == [
        ["a", "b"],
        ["c", "d"],
        ["e"],
    ]


def test_keys_erased_meanwhile_are_left_out(logs: LogsInMemory) -> None:
    """Re-wrapping a key that was erased after its record was read would restore the key."""
    owner = owner_with_new_kek(logs)
    portions = outdated_portions(owner.keys, 1)
    assert list(next(portions)) == ["a"]
    owner.decide(erase(5, "b"), erase(6, "c"), register(7, "c"))
    assert [sorted(portion) for portion in portions] == [[], [], ["d"], ["e"]]


def test_rewrapped_keys_need_only_new_kek(logs: LogsInMemory) -> None:
    """The re-wrapped keys need only the new KEK, and no key remains to be re-wrapped."""
    owner = owner_with_new_kek(logs)
    old_keys = {name: owner.keys.key_of(name) for name in NAMES}
    for portion in outdated_portions(owner.keys, 2):
        logs.append_keys(owner.keys.records(portion))
        owner.keys.stage(portion, len(logs.keys.records))
    owner.states.flush()
    assert not any(outdated_portions(owner_with_new_kek(logs).keys, 2))
    logs.compact()
    owner_without_old_kek = OwnerStates(logs, keyring=KEYRING_WITHOUT_OLD_KEK).recover()
    for name, key in old_keys.items():
        new_key = owner_without_old_kek.keys.key_of(name)
        assert (
            new_key is not None and key is not None and (new_key.kid, new_key.secret) == (key.kid, key.secret)
        )


def test_keyring_with_one_kek_reads_nothing(logs: LogsInMemory) -> None:
    owner = OwnerStates(logs).recover()
    logs.keys.failing_offset = 0
    assert list(outdated_portions(owner.keys, 2)) == []


def test_keys_of_other_owners_are_skipped(logs: LogsInMemory) -> None:
    """After a repartitioning, several owners share a partition of the keys topic."""
    key_filter = KeyFilter("murmur2", 2, 1)
    keys = OwnerKeys(CUSTOMER, logs.keys, 0, NEW_KEYRING, MemoryKeys(("k", "e")))
    keys.read_keys(0, key_filter)
    names = {name for portion in outdated_portions(keys, 1) for name in portion}
    assert names == {name for name in NAMES if key_filter.matches(name.encode())}
    assert 0 < len(names) < len(NAMES)
