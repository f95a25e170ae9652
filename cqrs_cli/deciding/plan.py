"""The plan that the driver sends to the tasks, and the results that the tasks return: values that can be serialized."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, NamedTuple

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.consumer_pool import ConsumerPool
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.decision_rules import DecisionSettings
from cqrs_cli.kafka.topics.topics import AggregateTopics, Topics
from cqrs_cli.keyspace.assigned_keys import AssignedKeys
from cqrs_cli.keyspace.planned_key_space import PlannedKeySpace
from cqrs_cli.ownership.claim import Claim, Counts
from cqrs_cli.ownership.committed_claims import ClaimSlot
from cqrs_cli.ownership.owner_exit import OwnerExit
from cqrs_cli.ownership.timing import Timing
from cqrs_cli.state.identity import Identity
from cqrs_cli.telemetry.datagrams import Address

#: Default limit on the bytes of the decoded states of one partition.
CACHE_BYTES: Final = 64 * 1024 * 1024

#: The suffix of the folder with an owner's keys, which is next to the shard: the shard `3` has its keys in `3.keys`.
KEYS_SUFFIX: Final = ".keys"


class Partition(NamedTuple):
    """A partition of an aggregate's topics, which has one owner. Sample: `Partition("bank_account", 3)`."""

    aggregate: str
    number: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of one submission of a run, equal for all its tasks."""

    connection: Connection
    topics: dict[str, AggregateTopics]  # by aggregate
    key_spaces: dict[str, PlannedKeySpace]  # by aggregate
    package: str  # the name of the Python package with the aggregates
    root: Path  # folder of the package; on a worker, in the shipped archive
    deciding: DecisionSettings
    state_dir: Path
    run_epoch: int  # greater than the epochs of earlier runs
    run: str  # the id of the run: 12 hex digits
    submission: int = 0  # the number of the Spark job within the run
    #: `--once`: the offset at which the owner of a partition ends; None if the run does not end by itself.
    end_offsets: dict[Partition, int] | None = None
    #: `--accept-loss`: the offset to continue from.
    accept_loss: dict[Partition, int] = field(default_factory=dict)
    #: `--fail`: the offsets of commands that fail without being decided.
    force_failed: dict[Partition, frozenset[int]] = field(default_factory=dict)
    cache_bytes: int = CACHE_BYTES  # limit of the decoded states of one partition
    store: Literal["lmdb", "memory"] = "lmdb"
    store_limit: int = 1 << 30  # bytes of the stores in memory, for each task
    checkpoints: str = ""  # URI of the folder for checkpoints; empty: the run writes no checkpoints
    checkpoint_every: float = 3600.0  # seconds
    checkpoints_kept: int = 2  # of each partition
    timing: Timing = field(default_factory=Timing)
    brokers: int = 1  # the number of brokers: an owner's clients need file descriptors for each broker
    reports: Address | None = None  # the driver's address for reports
    worker_log: str = ""  # path of the workers' log; empty if each worker has its own log

    def partitions(self) -> list[Partition]:
        """Return every (aggregate, partition) of the run."""
        return [
            Partition(name, number)
            for name, aggregate_topics in sorted(self.topics.items())
            for number in range(aggregate_topics.partitions)
        ]

    def claim_slots(self) -> dict[Partition, ClaimSlot]:
        """Return the claim slot of each partition."""
        return {partition: self.claim_slot(partition) for partition in self.partitions()}

    def claim_slot(self, partition: Partition) -> ClaimSlot:
        """Return the claim slot at which the owner of a partition commits its position."""
        return partition_claim_slot(self.topics[partition.aggregate].topics, partition.number)

    def claim(self, partition: Partition, attempt: int) -> Claim:
        """Return the claim with which an attempt of a task begins, before it reads the committed claim."""
        aggregate_topics = self.topics[partition.aggregate]
        return Claim(
            self.run_epoch,
            self.run,
            self.submission,
            attempt,
            0,
            aggregate_topics.ids["commands"],
            aggregate_topics.partitions,
            lineage=1,
        )

    def read_assigned_keys(
        self,
        partition: Partition,
        lineage_bounds: tuple[int, int] | None = None,
        pool: ConsumerPool | None = None,
    ) -> AssignedKeys:
        """Return the assigned keys of a partition, as `PlannedKeySpace.read_assigned_keys` does."""
        key_space = self.key_spaces[partition.aggregate]
        return key_space.read_assigned_keys(self.connection, partition.number, lineage_bounds, pool)

    def visible_assigned_keys(self, partition: Partition) -> AssignedKeys | None:
        """Return the assigned keys of a partition by the visible partition history; None without a history."""
        key_space = self.key_spaces[partition.aggregate]
        return key_space.visible_assigned_keys(self.connection, partition.number)

    def log(self, partition: Partition) -> PartitionLog:
        """Return a partition's logs."""
        topics = self.topics[partition.aggregate].topics
        return PartitionLog(self.connection, topics, partition.number, self.connection.payload_codec())

    def shard_folder(self, partition: Partition) -> Path:
        """Return the folder of a partition's shard."""
        return shards_folder_of(self.state_dir, self.topics[partition.aggregate].topics) / str(
            partition.number
        )

    def identity(self, partition: Partition, aggregate: Aggregate) -> Identity:
        """Return the identity of a partition's shard: the log and the code of which it is a cache."""
        window = self.deciding.window
        return shard_identity(self.topics[partition.aggregate], partition.number, aggregate, window)


def partition_claim_slot(topics: Topics, number: int) -> ClaimSlot:
    """Return the claim slot of a partition's owner, with the topics for heartbeats and the standby registry."""
    return ClaimSlot(topics.group, topics.commands, number, topics.outcomes, topics.events)


def shard_identity(
    aggregate_topics: AggregateTopics, partition: int, aggregate: Aggregate, window: int
) -> Identity:
    """Return the identity of a shard: the log and the code of which it is a cache. `window`: the dedup window in ms."""
    return Identity(
        cluster_id=aggregate_topics.cluster_id,
        topics={str(kind): topic_id for kind, topic_id in aggregate_topics.ids.items()},
        partition=partition,
        partitions=aggregate_topics.partitions,
        schema=aggregate.schema_digest,
        revision=aggregate.decider.revision,
        window_ms=window,
    )


def shards_folder_of(state_dir: Path, topics: Topics) -> Path:
    """Return the folder of an aggregate's shards; it has a folder for each partition."""
    return state_dir / topics.commands.removesuffix(".commands")


@dataclass(frozen=True, slots=True)
class OwnerResult(OwnerExit[Partition]):
    """The result of owners that decide."""

    counts: Counts = field(default_factory=Counts)
