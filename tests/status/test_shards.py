"""The digest of this machine's shards, for aggregates with personal fields."""

from pathlib import Path

import pytest

from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.personal.encrypted_data import encrypt_data
from cqrs_cli.core.personal.encryption import DataKey, ValueLocation
from cqrs_cli.core.stored import StoredState
from cqrs_cli.deciding.plan import shards_folder_of
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.state.identity import Identity
from cqrs_cli.state.shard import open_shard
from cqrs_cli.state.store import Positions, WriteBatch
from cqrs_cli.status.partition import AGGREGATE, PartitionStatus
from cqrs_cli.status.shards import with_shards
from tests.core.personal.customer import CUSTOMER, Customer

TOPICS = Topics("customer")
KEY = DataKey.of_random(bytes(range(72)))


def digest_of(folder: Path, state: bytes) -> int | None:
    """Return the digest that `status` computes for a shard with one customer."""
    identity = Identity(
        cluster_id="c",
        topics={"commands": "T"},
        partition=0,
        partitions=1,
        schema="",
        revision=1,
        window_ms=1,
    )
    store = open_shard(shards_folder_of(folder, TOPICS) / "0", identity).store
    states = {"ann": StoredState(1, 0, 0, state)}
    store.apply(WriteBatch(store.token(), Positions(), Positions(), states))
    store.close()
    partition_status = PartitionStatus(AGGREGATE, "customer", "customer", TOPICS.commands, 0, topic_id="T")
    (status,) = with_shards([partition_status], TOPICS, folder, CUSTOMER)
    assert status.shard is not None and status.shard.aggregates == 1
    return status.shard.digest


@pytest.mark.covers("state-is-events")
def test_digest_is_the_same_after_an_erasure(tmp_path: Path) -> None:
    """Encrypted and erased states have the same digest, which a replay without keys computes, too."""
    unencrypted = encode_json(Customer("Ann", "ann@home", "free"))
    encrypted = encrypt_data(Customer, unencrypted, KEY, ValueLocation("customer", "ann", "state", ""))
    erased = encode_json(Customer(plan="free"))
    assert encrypted != unencrypted != erased
    digests = {
        digest_of(tmp_path / str(n), state) for n, state in enumerate((unencrypted, encrypted, erased))
    }
    assert len(digests) == 1 and digests != {
        digest_of(tmp_path / "other", encode_json(Customer(plan="paid")))
    }
