"""`verify --erased` finds encrypted values that can still be decrypted, with a key that no erasure has deleted."""

from pathlib import Path

import msgspec
import pytest

from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.personal.encrypted_data import encrypt_data
from cqrs_cli.core.personal.encryption import DataKey, ValueLocation
from cqrs_cli.core.stored import StoredState
from cqrs_cli.state.environment import DATA_FILE
from tests.core.personal.customer import Customer
from tests.jobs.verify.customers import put_key
from tests.proof.encrypted_histories import key
from tests.scans.erased.planted import (
    ANN,
    deferred_record,
    only_violation,
    shard_path,
    verify_erased,
    write_shard,
)
from tests.support.foreign_records import append_records, changed_record, rewrite_topic
from tests.support.harness import TopicHarness

pytestmark = pytest.mark.kafka

FINDING = (
    f"encrypted with key {key(9).kid}, which no erasure has deleted: anyone with the keyring can decrypt it"
)


@pytest.fixture
def harness_with_key(harness: TopicHarness) -> TopicHarness:
    """Ann has a key that no erasure has deleted."""
    put_key(harness, "ann", key(9))
    return harness


def state_under_key(data_key: DataKey, version: int = 1) -> StoredState:
    """Return the state of Ann after her first event."""
    state = encode_json(Customer(ANN, plan="free"))
    return StoredState(
        version, 0, 0, encrypt_data(Customer, state, data_key, ValueLocation("customer", "ann", "state", ""))
    )


def encrypted_name(data_key: DataKey) -> dict[str, object]:
    data: dict[str, object] = msgspec.json.decode(state_under_key(data_key).state)
    return {"name": data["name"]}


def test_decryptable_event_is_found(harness_with_key: TopicHarness) -> None:
    def encrypt_event(log: list[Record]) -> None:
        log[0] = changed_record(log[0], encrypted_name(key(9)))

    assert verify_erased(harness_with_key).violation_count == 0
    rewrite_topic(harness_with_key, "events", encrypt_event)
    assert f"{harness_with_key.topics.events} partition 0 offset 0 is {FINDING}" in only_violation(
        harness_with_key
    )


def test_decryptable_deferred_command_is_found(harness_with_key: TopicHarness) -> None:
    append_records(harness_with_key, "deferred", deferred_record(harness_with_key, encrypted_name(key(1))))
    assert verify_erased(harness_with_key).violation_count == 0
    (offset,) = append_records(
        harness_with_key, "deferred", deferred_record(harness_with_key, encrypted_name(key(9)))
    )
    assert f"{harness_with_key.topics.deferred} partition 0 offset {offset} is {FINDING}" in only_violation(
        harness_with_key
    )


def test_decryptable_shard_is_found(harness_with_key: TopicHarness) -> None:
    write_shard(shard_path(harness_with_key), ann=state_under_key(key(9)))
    assert f"a shard has a state {FINDING}, of 'ann'" in only_violation(harness_with_key)


def test_decryptable_checkpoint_is_found(harness_with_key: TopicHarness, tmp_path: Path) -> None:
    write_shard(tmp_path / "copy", ann=state_under_key(key(9)))
    file = (tmp_path / "copy" / DATA_FILE).rename(tmp_path / "1-a.mdb")
    assert f"{file}: a shard has a state {FINDING}, of 'ann'" in only_violation(harness_with_key, file)


@pytest.mark.parametrize(
    "state", [state_under_key(key(1)), state_under_key(key(9), 2)], ids=["before", "after"]
)
def test_undecryptable_values_are_no_finding(
    harness_with_key: TopicHarness, state: StoredState, tmp_path: Path
) -> None:
    """The value was written before the erasure with the deleted key, or after the erasure with the new key."""
    write_shard(shard_path(harness_with_key), ann=state)
    write_shard(tmp_path / "copy", ann=state)
    report = verify_erased(harness_with_key, tmp_path / "copy")
    assert (report.violation_count, len(report.locations)) == (0, 2)


def test_shard_under_deleted_key_is_found(harness: TopicHarness) -> None:
    write_shard(shard_path(harness), ann=state_under_key(key(1), 2))
    assert (
        f"a shard has 'name' encrypted with key {key(1).kid}, which was deleted, of 'ann'"
        in only_violation(harness)
    )
