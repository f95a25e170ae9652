"""Comparing a live shard with what the events alone give, at the same position of the log."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.errors import ContradictionError
from cqrs_cli.jobs.replay.fold import ReplayFold
from cqrs_cli.kafka.admin.topics import Admin, check_topics
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import TopicPlan, Topics
from cqrs_cli.owner.plan import shard_folder
from cqrs_cli.state.encoding import CODEC
from cqrs_cli.state.shard import Identity, open_readonly


@dataclass(frozen=True, slots=True)
class Shards:
    """Where an aggregate's shards rest, and what they must be a cache of to be compared."""

    folder: Path  # holds one folder a partition
    cluster_id: str
    topic_ids: dict[str, str]  # kind → topic id
    partitions: int


class Compared(NamedTuple):
    """What came of one shard that differs in nothing: how many aggregates agree, or why none was compared."""

    aggregates: int = 0
    skipped: str = ""


def live_shards(connection: Connection, topics: Topics, state_dir: Path) -> Shards:
    """What to compare with; raises `ConfigurationError` for topics that are not as they must be."""
    with Admin(connection) as admin:
        found = check_topics(admin, topics, TopicPlan())
    ids = {str(kind): topic_id for kind, topic_id in found.ids.items()}
    return Shards(shard_folder(state_dir, topics), found.cluster_id, ids, found.partitions)


def compare(
    shards: Shards,
    topics: Topics,
    partition: int,
    aggregate: Aggregate,
    folding: ReplayFold,
    fold_to: Callable[[int], None],
) -> Compared:
    """Fold up to where this partition's shard is, and compare; raises `ContradictionError` at the first difference.

    `fold_to` goes on with `folding` up to an offset of the events topic. The shard may be at work meanwhile: its
    owner moves on, so the long stretch is folded first, then the short rest while the shard is held in one look.
    """
    path = shards.folder / str(partition)
    store = open_readonly(path)
    if store is None:
        return Compared(skipped=f"there is no shard to trust in {path}")
    with closing(store):
        if skipped := not_ours(store.identity(), shards, partition, aggregate):
            return Compared(skipped=skipped)
        fold_to(store.positions().events)
        with store.snapshot() as (positions, items):
            fold_to(positions.events)
            difference = folding.compare(items)
        if difference is None:
            return Compared(store.count())
    raise ContradictionError(
        f"{topics.aggregate} {difference} (partition {partition}, at offset {positions.events} of {topics.events})",
        f"stop cqrs run and remove {path}: the next run rebuilds it from the events",
    )


def not_ours(noted: bytes, shards: Shards, partition: int, aggregate: Aggregate) -> str:
    """Why a shard is no cache of this log folded by this code, so that the next run will rebuild it; empty if it is."""
    try:
        found = msgspec.json.decode(noted, type=Identity)
    except msgspec.DecodeError:
        return "the shard has no identity: the next run rebuilds it"
    ours = Identity(
        cluster_id=shards.cluster_id,
        topics=shards.topic_ids,
        partition=partition,
        partitions=shards.partitions,
        schema=aggregate.schema_digest,
        revision=aggregate.decider.revision,
        window_ms=found.window_ms,  # of the ids it remembers, which are not compared
        codec=CODEC,
    )
    differences = ours.differences(noted)
    return f"the next run rebuilds the shard: {differences}" if differences else ""
