"""Adds this machine's shards to the status of partitions."""

from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import msgspec

from cqrs_cli.core import digest
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.deciding.plan import shard_folder
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.state.identity import Identity
from cqrs_cli.state.shard import open_readonly
from cqrs_cli.status.partition import PartitionStatus, ShardStatus


def with_shards(
    statuses: Iterable[PartitionStatus],
    topics: Topics,
    state_dir: Path,
    digest_aggregate: Aggregate | None = None,
) -> list[PartitionStatus]:
    """Return the partitions of an aggregate, each with its shard. The shard is None if it is quarantined, or belongs to
    another topic than the owner's claim.

    `digest_aggregate`: the aggregate's code, if the digests of its states are to be summed up.
    """
    folder = shard_folder(state_dir, topics)
    return [
        replace(status, shard=_shard(folder / str(status.partition), status.topic_id, digest_aggregate))
        for status in statuses
    ]


def _shard(path: Path, topic_id: str | None, digest_aggregate: Aggregate | None) -> ShardStatus | None:
    store = None if topic_id is None else open_readonly(path)
    if store is None:
        return None
    with closing(store):
        identity = msgspec.json.decode(store.identity(), type=Identity)
        if identity.topics.get("commands") != topic_id:  # the shard of a deleted topic with this name
            return None
        digest_sum = None
        if digest_aggregate is not None:
            digest_sum = 0
            for aggregate_id, stored in store.items():
                digest_sum = digest.add_digests(
                    digest_sum,
                    digest.state_digest(digest_aggregate, aggregate_id, stored.version, stored.state),
                )
        return ShardStatus(
            store.count(), sum(file.stat().st_blocks * 512 for file in path.iterdir()), digest_sum
        )
