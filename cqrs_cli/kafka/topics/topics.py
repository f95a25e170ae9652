"""The topics of an aggregate: their names and configurations, the consumer group and the transactional ids.

Each aggregate has five topics (`KINDS`). Some aggregates have further topics (`ExtraKind`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from cqrs_cli.settings.durations import milliseconds

Kind = Literal["commands", "events", "outcomes", "dead-letters", "deferred"]
KINDS: tuple[Kind, ...] = ("commands", "events", "outcomes", "dead-letters", "deferred")

#: Topics that only some aggregates have: `lineage` after a repartitioning request, `keys` with personal fields.
ExtraKind = Literal["lineage", "keys"]

#: The topics that contain unencrypted personal values. For aggregates with personal fields, their retention is limited.
UNENCRYPTED_KINDS: tuple[Kind, ...] = ("commands", "dead-letters")

#: Minimal lifetime of a tombstone in a compacted topic, in ms. So a reader that is interrupted for less than a day
#: still reads the tombstone.
MIN_TOMBSTONE_MS = 24 * 3600 * 1000

#: Milliseconds after which a segment of the keys topic is closed, and after which replaced records must be compacted.
COMPACTION_LAG_MS = 3600 * 1000

#: Milliseconds after which a segment with unencrypted values is closed. Retention deletes only closed segments.
MAX_SEGMENT_MS = 24 * 3600 * 1000

#: Bytes by which an outcome, dead letter or deferred command may be larger than its command: reason and attributes.
ENVELOPE_OVERHEAD = 64 * 1024

#: The value (ms) with which the settings `TIMESTAMP_LIMITS` allow every timestamp.
ANY_DIFFERENCE = 2**63 - 1

#: The settings that limit how far a record's timestamp may be before or after the broker's clock. Events, outcomes and
#: dead letters have the timestamp of their command. If the broker's clock was set forward or back by more than the
#: limit, the broker would reject them, so no command from before this change could be decided.
TIMESTAMP_LIMITS = ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms")

#: Kafka's default `max.message.bytes`. New topics get it, unless an existing commands topic has another value.
MAX_MESSAGE_BYTES = 1_048_588


def min_insync_replicas(brokers: int) -> str:
    """Return the setting `min.insync.replicas` for a cluster with this number of brokers."""
    return "2" if brokers >= 3 else "1"


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """The settings with which the topics of an aggregate are created and checked."""

    partitions: int = 4  # partition count of each new topic
    #: True if the operator requested the partition count: another count of existing topics is then an error.
    is_partition_count_required: bool = False
    commands_retention: timedelta = timedelta(days=7)
    outcomes_retention: timedelta | None = None  # retention of outcomes and dead letters; None: unlimited
    dedup_window: timedelta = timedelta(hours=24)
    personal: bool = False  # True if the aggregate has personal fields

    @property
    def kinds(self) -> tuple[Kind | ExtraKind, ...]:
        """The topics that must exist."""
        return (*KINDS, "keys") if self.personal else KINDS

    def configs(
        self, kind: Kind, max_message_bytes: int = MAX_MESSAGE_BYTES, brokers: int = 1
    ) -> dict[str, str]:
        """Return the configuration of a new topic. `max_message_bytes`: the limit of the commands topic. `brokers`: the
        number of brokers.

        `retention.ms` and `retention.bytes` are always set, because with a broker's defaults, events would be deleted.
        """
        is_unencrypted = self.personal and kind in UNENCRYPTED_KINDS
        if kind == "commands" or is_unencrypted:
            retention: timedelta | None = self.commands_retention
        elif kind in ("events", "deferred"):
            retention = None
        else:
            retention = self.outcomes_retention
        # The broker sets the timestamps of commands, so that the clocks of clients do not matter. The records of the
        # other topics have the timestamp of their command.
        stamped_by_broker = kind == "commands"
        overhead = ENVELOPE_OVERHEAD if kind in ("outcomes", "dead-letters", "deferred") else 0
        compaction = {"delete.retention.ms": str(MIN_TOMBSTONE_MS), "min.cleanable.dirty.ratio": "0.1"}
        return {
            **({} if stamped_by_broker else dict.fromkeys(TIMESTAMP_LIMITS, str(ANY_DIFFERENCE))),
            "cleanup.policy": "compact" if kind == "deferred" else "delete",
            **(compaction if kind == "deferred" else {}),
            "retention.ms": "-1" if retention is None else str(milliseconds(retention)),
            "retention.bytes": "-1",
            **({"segment.ms": str(MAX_SEGMENT_MS)} if is_unencrypted else {}),
            "message.timestamp.type": "LogAppendTime" if stamped_by_broker else "CreateTime",
            "max.message.bytes": str(max_message_bytes + overhead),
            "min.insync.replicas": min_insync_replicas(brokers),
        }

    @staticmethod
    def replication(brokers: int) -> int:
        """Return the replication factor of new topics: 3 with three or more brokers, else 1."""
        return 3 if brokers >= 3 else 1


#: The configuration of the lineage topic, which keeps its few small records for ever.
LINEAGE_CONFIGS = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}

#: The configuration of the keys topic. Compaction removes erased keys and replaced records within hours.
KEYS_CONFIGS = {
    "cleanup.policy": "compact",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "segment.ms": str(COMPACTION_LAG_MS),
    "max.compaction.lag.ms": str(COMPACTION_LAG_MS),
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": str(MIN_TOMBSTONE_MS),
    **dict.fromkeys(TIMESTAMP_LIMITS, str(ANY_DIFFERENCE)),
}


def extra_configs(extra: ExtraKind, brokers: int = 1) -> dict[str, str]:
    """Return the configuration of a topic that only some aggregates have."""
    configs = {"lineage": LINEAGE_CONFIGS, "keys": KEYS_CONFIGS}[extra]
    return {**configs, "min.insync.replicas": min_insync_replicas(brokers)}


@dataclass(frozen=True, slots=True)
class Topics:
    """The names of an aggregate's topics, and of its group and transactional ids. `prefix`: the setting `topic_prefix`.

    Sample: `Topics("bank_account", "test.").commands` is `test.bank_account.commands`.
    """

    aggregate: str
    prefix: str = ""

    def name(self, kind: Kind | ExtraKind) -> str:
        return f"{self.prefix}{self.aggregate}.{kind}"

    @property
    def commands(self) -> str:
        return self.name("commands")

    @property
    def events(self) -> str:
        return self.name("events")

    @property
    def outcomes(self) -> str:
        return self.name("outcomes")

    @property
    def dead_letters(self) -> str:
        return self.name("dead-letters")

    @property
    def deferred(self) -> str:
        return self.name("deferred")

    @property
    def lineage(self) -> str:
        """The topic of the partition history. It exists after the first repartitioning request."""
        return self.name("lineage")

    @property
    def keys(self) -> str:
        """The topic of the encrypted data keys: one record for each aggregate id. Only aggregates with personal fields
        have it.
        """
        return self.name("keys")

    @property
    def group(self) -> str:
        """The owners' consumer group. A partition's committed offset is the position, its metadata is the claim."""
        return f"cqrs.{self.commands}"

    @property
    def transactional_ids(self) -> str:
        """The common prefix of the aggregate's transactional ids, for ACLs."""
        return f"cqrs.{self.events}."

    def transactional_id(self, partition: int) -> str:
        """Return the transactional id of a partition's writer. It is the same in every run, so that a new writer fences
        the previous writer.
        """
        return f"{self.transactional_ids}{partition}"


@dataclass(frozen=True, slots=True)
class AggregateTopics:
    """The ids and limits of an aggregate's topics, as the cluster describes them."""

    topics: Topics
    cluster_id: str
    #: Partition count of the commands topic; a repartitioning raises the other topics' counts first.
    partitions: int
    ids: Mapping[Kind, str]  # kind → topic id
    max_bytes: Mapping[Kind, int]  # kind → `max.message.bytes`
    lineage_id: str | None = None  # topic id of the lineage topic; None if it does not exist
    keys_id: str | None = (
        None  # topic id of the keys topic; None without personal fields, or if not requested
    )
    keys_partition_count: int = (
        0  # partition count of the keys topic, which never changes; 0 without this topic
    )

    def keys_partition(self, partition: int) -> int:
        """Return the partition of the keys topic with the data keys of the aggregates in `partition`.

        If a repartitioning moves an aggregate, its data key stays in the same partition of the keys topic, because each
        partition count is a multiple of the earlier counts.
        """
        return partition % self.keys_partition_count
