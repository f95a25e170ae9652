"""`verify --erased` finds encrypted values that can still be decrypted, with a key that no erasure has ended."""

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
from tests.scans.erased.planted import ANN, entry_of, only_violation, shard_path, verification, write_shard
from tests.support.foreign_records import append_records, changed_record, rewrite_topic
from tests.support.harness import TopicHarness

pytestmark = pytest.mark.kafka

SPARED = f"encrypted with key {key(9).kid}, which no erasure has ended: whoever has the ring can read it"


@pytest.fixture
def spared(harness: TopicHarness) -> TopicHarness:
    """Ann has a key that no erasure has ended."""
    put_key(harness, "ann", key(9))
    return harness


def state_under(one: DataKey, version: int = 1) -> StoredState:
    """Return the state of Ann after her first event."""
    state = encode_json(Customer(ANN, plan="free"))
    return StoredState(
        version, 0, 0, encrypt_data(Customer, state, one, ValueLocation("customer", "ann", "state", ""))
    )


def seal_name(one: DataKey) -> dict[str, object]:
    data: dict[str, object] = msgspec.json.decode(state_under(one).state)
    return {"name": data["name"]}


def test_event_that_opens(spared: TopicHarness) -> None:
    def spare(log: list[Record]) -> None:
        log[0] = changed_record(log[0], seal_name(key(9)))

    assert verification(spared).count == 0
    rewrite_topic(spared, "events", spare)
    assert f"{spared.topics.events} partition 0 offset 0 is {SPARED}" in only_violation(spared)


def test_deferred_command_that_opens(spared: TopicHarness) -> None:
    append_records(spared, "deferred", entry_of(spared, seal_name(key(1))))
    assert verification(spared).count == 0
    (at,) = append_records(spared, "deferred", entry_of(spared, seal_name(key(9))))
    assert f"{spared.topics.deferred} partition 0 offset {at} is {SPARED}" in only_violation(spared)


def test_shard_that_opens(spared: TopicHarness) -> None:
    write_shard(shard_path(spared), ann=state_under(key(9)))
    assert f"a shard has a state {SPARED}, of 'ann'" in only_violation(spared)


def test_checkpoint_that_opens(spared: TopicHarness, tmp_path: Path) -> None:
    write_shard(tmp_path / "copy", ann=state_under(key(9)))
    file = (tmp_path / "copy" / DATA_FILE).rename(tmp_path / "1-a.mdb")
    assert f"{file}: a shard has a state {SPARED}, of 'ann'" in only_violation(spared, file)


@pytest.mark.parametrize("state", [state_under(key(1)), state_under(key(9), 2)], ids=["before", "after"])
def test_what_is_sealed_is_no_find(spared: TopicHarness, state: StoredState, tmp_path: Path) -> None:
    """The value is from before the erasure with the ended key, or from after it with the new key."""
    write_shard(shard_path(spared), ann=state)
    write_shard(tmp_path / "copy", ann=state)
    report = verification(spared, tmp_path / "copy")
    assert (report.count, len(report.locations)) == (0, 2)


def test_shard_goes_on_with_an_ended_key(harness: TopicHarness) -> None:
    write_shard(shard_path(harness), ann=state_under(key(1), 2))
    assert f"a shard has 'name' encrypted with key {key(1).kid}, which had ended, of 'ann'" in only_violation(
        harness
    )
