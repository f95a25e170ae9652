"""`verify --erased` searches checkpoints like shards, in their store and in given folders."""

import shutil
from pathlib import Path

import pytest

from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.personal.encrypted_data import encrypt_data
from cqrs_cli.core.personal.encryption import STATE, ValueLocation
from cqrs_cli.core.stored import StoredState
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.state.environment import DATA_FILE
from cqrs_cli.state.key_cache import KeyCache, KeyOffsets, KeyRecord
from tests.core.personal.customer import Customer
from tests.jobs.verify.customers import KEYRING
from tests.proof.encrypted_histories import key
from tests.scans.erased.planted import ANN, only_violation, verify_erased, write_shard
from tests.support.harness import TopicHarness

pytestmark = pytest.mark.kafka

#: The name of a checkpoint's data file.
DATA_FILE_NAME = "00000001770000000000-0.mdb"


def encrypted_state(version: int) -> StoredState:
    """Return Ann's state, encrypted with the key that her erasure has deleted."""
    state = encode_json(Customer("Somebody", plan="free"))
    return StoredState(
        version, 0, 0, encrypt_data(Customer, state, key(1), ValueLocation("customer", "ann", STATE, ""))
    )


def write_checkpoint(harness: TopicHarness, shard_path: Path) -> Path:
    """Write the shard as a checkpoint in the configured store."""
    store = harness.folder / "checkpoints"
    harness.settings = harness.settings.model_copy(update={"checkpoint_location": str(store)})
    with Admin(harness.connection) as admin:
        folder = store / admin.cluster_id() / harness.topics.commands.removesuffix(".commands") / "0"
    folder.mkdir(parents=True)
    shutil.copy(shard_path / DATA_FILE, folder / DATA_FILE_NAME)
    return folder


def shard_with(harness: TopicHarness, **states: StoredState) -> Path:
    folder = harness.folder / "elsewhere"
    write_shard(folder, **states)
    return folder


@pytest.mark.covers("verifiable")
def test_checkpoint_with_a_value(harness: TopicHarness) -> None:
    """A checkpoint with an erased value that commands still contain is found."""
    write_checkpoint(harness, shard_with(harness, other=StoredState(1, 0, 0, encode_json(Customer(ANN)))))
    assert f"{DATA_FILE_NAME} byte " in only_violation(harness)


@pytest.mark.covers("verifiable")
def test_checkpoint_in_plain_text(harness: TopicHarness) -> None:
    """An unencrypted value in a checkpoint is found by its field, even if the value is unknown."""
    write_checkpoint(
        harness, shard_with(harness, ann=StoredState(1, 0, 0, encode_json(Customer("Somebody"))))
    )
    assert (
        f"{DATA_FILE_NAME}: a shard has a plain value in the personal field 'name', of 'ann'"
        in only_violation(harness)
    )


@pytest.mark.covers("verifiable")
def test_checkpoint_under_deleted_key(harness: TopicHarness) -> None:
    """Values under a deleted key are allowed in a checkpoint from before the erasure, but not in a later checkpoint."""
    write_checkpoint(harness, shard_with(harness, ann=encrypted_state(1)))
    report = verify_erased(harness)
    assert report.violation_count == 0 and len(report.locations) == 1
    write_shard(harness.folder / "later", ann=encrypted_state(9))
    shutil.copy(harness.folder / "later" / DATA_FILE, Path(report.locations[0]) / DATA_FILE_NAME)
    assert f"encrypted with key {key(1).kid}, which was deleted, of 'ann'" in only_violation(harness)


def test_checkpoints_in_given_folder(harness: TopicHarness) -> None:
    """The folder may be a backup of checkpoints, and nothing is written to it."""
    folder = write_checkpoint(
        harness, shard_with(harness, ann=StoredState(1, 0, 0, encode_json(Customer("Somebody"))))
    )
    harness.settings = harness.settings.model_copy(update={"checkpoint_location": None})
    assert (
        f"{DATA_FILE_NAME}: a shard has a plain value in the personal field 'name', of 'ann'"
        in only_violation(harness, folder)
    )
    assert [file.name for file in folder.iterdir()] == [DATA_FILE_NAME]


def test_checkpoint_with_a_key(harness: TopicHarness) -> None:
    """A key cache does not belong into a checkpoint, and is reported."""
    folder = harness.folder / "elsewhere"
    cache = KeyCache(folder, ("k", "e"))
    record = KeyRecord("ann", KEYRING.wrap(harness.topics.keys, "ann", key(1)))
    cache.apply(cache.offsets, KeyOffsets(("k", "e"), 1, 0), [record])
    cache.close()
    write_checkpoint(harness, folder)
    assert f"{DATA_FILE_NAME}: a key cache has the deleted data key {key(1).kid}" in only_violation(harness)
