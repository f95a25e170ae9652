"""`verify --erased` looks into checkpoints as into shards: in their store, and where it is pointed at."""

import shutil
from pathlib import Path

import pytest

from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.personal.sealed_data import seal_data
from cqrs_cli.core.personal.sealing import STATE, SealPlace
from cqrs_cli.core.stored import StoredState
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.state.environment import DATA_FILE
from cqrs_cli.state.key_cache import KeyCache, KeyOffsets, KeyRecord
from tests.core.personal.customer import Customer
from tests.jobs.verify.customers import RING
from tests.proof.sealed import key
from tests.scans.erased.planted import ANN, found, keep, proved
from tests.support.harness import TopicHarness

pytestmark = pytest.mark.kafka

#: The name of a checkpoint's data.
NAME = "00000001770000000000-0.mdb"


def sealed(version: int) -> StoredState:
    """Ann's state, sealed with the key that her erasure has ended."""
    plain = encode_json(Customer("Somebody", plan="free"))
    return StoredState(
        version, 0, 0, seal_data(Customer, plain, key(1), SealPlace("customer", "ann", STATE, ""))
    )


def checkpoint(told: TopicHarness, shard: Path) -> Path:
    """The shard as a checkpoint in the store of the settings."""
    store = told.folder / "checkpoints"
    told.settings = told.settings.model_copy(update={"checkpoints": str(store)})
    with Admin(told.connection) as admin:
        folder = store / admin.cluster_id() / told.topics.commands.removesuffix(".commands") / "0"
    folder.mkdir(parents=True)
    shutil.copy(shard / DATA_FILE, folder / NAME)
    return folder


def shard(told: TopicHarness, **states: StoredState) -> Path:
    folder = told.folder / "elsewhere"
    keep(folder, **states)
    return folder


@pytest.mark.covers("verifiable")
def test_checkpoint_with_a_value(told: TopicHarness) -> None:
    """A value that commands still tell, in the state of another aggregate."""
    checkpoint(told, shard(told, other=StoredState(1, 0, 0, encode_json(Customer(ANN)))))
    assert f"{NAME} byte " in found(told)


@pytest.mark.covers("verifiable")
def test_checkpoint_in_plain_text(told: TopicHarness) -> None:
    """A value that nobody knows any more is found by its field."""
    checkpoint(told, shard(told, ann=StoredState(1, 0, 0, encode_json(Customer("Somebody")))))
    assert f"{NAME}: a shard has a plain value in the personal field 'name', of 'ann'" in found(told)


@pytest.mark.covers("verifiable")
def test_checkpoint_sealed_with_ended_key(told: TopicHarness) -> None:
    """One of before the erasure has such seals, and nobody can open them; one of since may not have them."""
    checkpoint(told, shard(told, ann=sealed(1)))
    done = proved(told)
    assert done.count == 0 and len(done.places) == 1
    keep(told.folder / "since", ann=sealed(9))
    shutil.copy(told.folder / "since" / DATA_FILE, Path(done.places[0]) / NAME)
    assert f"sealed with key {key(1).kid}, which had ended, of 'ann'" in found(told)


def test_checkpoints_that_it_is_pointed_at(told: TopicHarness) -> None:
    """A backup of them, say. Nothing is written there."""
    folder = checkpoint(told, shard(told, ann=StoredState(1, 0, 0, encode_json(Customer("Somebody")))))
    told.settings = told.settings.model_copy(update={"checkpoints": None})
    assert f"{NAME}: a shard has a plain value in the personal field 'name', of 'ann'" in found(told, folder)
    assert [one.name for one in folder.iterdir()] == [NAME]


def test_checkpoint_with_a_key(told: TopicHarness) -> None:
    """Caches of keys are no part of checkpoints; one that was put there is found."""
    folder = told.folder / "elsewhere"
    cache = KeyCache(folder, ("k", "e"))
    record = KeyRecord("ann", RING.wrap(told.topics.keys, "ann", key(1)))
    cache.apply(cache.offsets, KeyOffsets(("k", "e"), 1, 0), [record])
    cache.close()
    checkpoint(told, folder)
    assert f"{NAME}: a cache of keys has key {key(1).kid}, which was ended" in found(told)
