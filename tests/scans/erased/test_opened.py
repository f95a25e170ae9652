"""`verify --erased` finds encrypted values that can still be decrypted, with a key that no erasure has ended."""

from pathlib import Path

import msgspec
import pytest

from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.personal.encrypted_data import seal_data
from cqrs_cli.core.personal.encryption import DataKey, SealPlace
from cqrs_cli.core.stored import StoredState
from cqrs_cli.state.environment import DATA_FILE
from tests.core.personal.customer import Customer
from tests.jobs.verify.customers import put_key
from tests.proof.encrypted_histories import key
from tests.scans.erased.planted import ANN, entry_of, found, keep, proved, shard
from tests.support.foreign_records import append, edited, rewrite
from tests.support.harness import TopicHarness

pytestmark = pytest.mark.kafka

SPARED = f"sealed with key {key(9).kid}, which no erasure has ended: whoever has the ring can read it"


@pytest.fixture
def spared(told: TopicHarness) -> TopicHarness:
    """Ann has a key that no erasure has ended."""
    put_key(told, "ann", key(9))
    return told


def state_under(one: DataKey, version: int = 1) -> StoredState:
    """Return the state of Ann after her first event."""
    state = encode_json(Customer(ANN, plan="free"))
    return StoredState(
        version, 0, 0, seal_data(Customer, state, one, SealPlace("customer", "ann", "state", ""))
    )


def seal_name(one: DataKey) -> dict[str, object]:
    data: dict[str, object] = msgspec.json.decode(state_under(one).state)
    return {"name": data["name"]}


def test_event_that_opens(spared: TopicHarness) -> None:
    def spare(log: list[Record]) -> None:
        log[0] = edited(log[0], seal_name(key(9)))

    assert proved(spared).count == 0
    rewrite(spared, "events", spare)
    assert f"{spared.topics.events} partition 0 offset 0 is {SPARED}" in found(spared)


def test_deferred_command_that_opens(spared: TopicHarness) -> None:
    append(spared, "deferred", entry_of(spared, seal_name(key(1))))
    assert proved(spared).count == 0
    (at,) = append(spared, "deferred", entry_of(spared, seal_name(key(9))))
    assert f"{spared.topics.deferred} partition 0 offset {at} is {SPARED}" in found(spared)


def test_shard_that_opens(spared: TopicHarness) -> None:
    keep(shard(spared), ann=state_under(key(9)))
    assert f"a shard has a state {SPARED}, of 'ann'" in found(spared)


def test_checkpoint_that_opens(spared: TopicHarness, tmp_path: Path) -> None:
    keep(tmp_path / "copy", ann=state_under(key(9)))
    file = (tmp_path / "copy" / DATA_FILE).rename(tmp_path / "1-a.mdb")
    assert f"{file}: a shard has a state {SPARED}, of 'ann'" in found(spared, file)


@pytest.mark.parametrize("state", [state_under(key(1)), state_under(key(9), 2)], ids=["before", "after"])
def test_what_is_sealed_is_no_find(spared: TopicHarness, state: StoredState, tmp_path: Path) -> None:
    """The value is from before the erasure with the ended key, or from after it with the new key."""
    keep(shard(spared), ann=state)
    keep(tmp_path / "copy", ann=state)
    done = proved(spared, tmp_path / "copy")
    assert (done.count, len(done.places)) == (0, 2)


def test_shard_goes_on_with_an_ended_key(told: TopicHarness) -> None:
    keep(shard(told), ann=state_under(key(1), 2))
    assert f"a shard has 'name' sealed with key {key(1).kid}, which had ended, of 'ann'" in found(told)
