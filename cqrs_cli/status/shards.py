"""Adds this machine's shards to the status of partitions."""

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import msgspec
from msgspec.structs import replace

from cqrs_cli.core import digest
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.deciding.plan import shards_folder_of
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.state.identity import Identity
from cqrs_cli.state.shard import open_readonly
from cqrs_cli.status.partition import PartitionStatus, ShardStatus


def with_shards(
    statuses: Iterable[PartitionStatus],
    topics: Topics,
    state_dir: Path,
    aggregate_for_digests: Aggregate | None = None,
) -> list[PartitionStatus]:
    """Return the partitions of an aggregate, each with its shard.

    The shard is None if no owner has claimed the partition, or if the shard is missing or cannot be trusted. It is also
    None if the shard's topic id is not the id in the claim: such a shard belongs to a deleted topic of this name.

    `aggregate_for_digests`: the aggregate's code, to compute the sum of its states' digests; None: no digests.
    """
    folder = shards_folder_of(state_dir, topics)
    return [
        replace(
            status,
            shard=_shard_status(folder / str(status.partition), status.topic_id, aggregate_for_digests),
        )
        for status in statuses
    ]


def _shard_status(
    path: Path, topic_id: str | None, aggregate_for_digests: Aggregate | None
) -> ShardStatus | None:
    store = None if topic_id is None else open_readonly(path)
    if store is None:
        return None
    with closing(store):
        identity = msgspec.json.decode(store.identity(), type=Identity)
        if identity.topics.get("commands") != topic_id:  # the shard of a deleted topic with this name
            return None
        digest_sum = None
        if aggregate_for_digests is not None:
            digest_sum = 0
            for aggregate_id, stored in store.items():
                digest_sum = digest.add_digests(
                    digest_sum,
                    digest.state_digest(aggregate_for_digests, aggregate_id, stored.version, stored.state),
                )
        return ShardStatus(
            store.count(), sum(file.stat().st_blocks * 512 for file in path.iterdir()), digest_sum
        )
