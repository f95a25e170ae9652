"""The five topics of an aggregate, as values, and the names of its group and transactional ids."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from cqrs_cli.settings.durations import milliseconds

Kind = Literal["commands", "events", "outcomes", "dead-letters", "deferred"]
KINDS: tuple[Kind, ...] = ("commands", "events", "outcomes", "dead-letters", "deferred")

#: Topics that only some aggregates have: repartitioned aggregates, and aggregates with personal fields.
ExtraKind = Literal["lineage", "keys"]

#: The topics that contain personal values unencrypted: for an aggregate with personal fields they need a retention.
UNENCRYPTED_KINDS: tuple[Kind, ...] = ("commands", "dead-letters")

#: Minimal lifetime of a tombstone of the deferred topic, ms, so that a reader that stopped half-way still reads it.
MIN_TOMBSTONE_MS = 24 * 3600 * 1000

#: Milliseconds after which a segment of the keys topic is closed, and compaction must remove its replaced records.
COMPACTION_LAG_MS = 3600 * 1000

#: Milliseconds after which a segment with unencrypted values is closed: retention deletes closed segments only.
MAX_SEGMENT_MS = 24 * 3600 * 1000

#: Bytes, in addition to the command, for headers, reason and envelope in outcomes, dead letters and deferred commands.
ENVELOPE_OVERHEAD = 64 * 1024

#: The largest difference between a record's timestamp and the broker's clock that Kafka can allow, ms.
ANY_DIFFERENCE = 2**63 - 1

#: The limits for a record's timestamp before and after the broker's clock. Events, outcomes and dead letters have their
#: command's timestamp. With Kafka's default limit, an hour, no command could be decided after a larger clock jump.
TIMESTAMP_LIMITS = ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms")

#: Kafka's default `max.message.bytes`, used for commands and events. If the commands topic exists with another value,
#: its value is used.
MAX_MESSAGE_BYTES = 1_048_588


def min_insync_replicas(brokers: int) -> str:
    """Return the number of replicas that must have a record before it counts as written."""
    return "2" if brokers >= 3 else "1"


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """The settings of new topics.

    `requires_partitions`: the operator requested `partitions`, so existing topics with another count are a mistake.
    """

    partitions: int = 4
    requires_partitions: bool = False
    commands_retention: timedelta = timedelta(days=7)
    outcomes_retention: timedelta | None = None  # None: unlimited; dead letters have the same retention
    dedup_window: timedelta = timedelta(hours=24)
    personal: bool = False  # the aggregate has personal fields

    @property
    def kinds(self) -> tuple[Kind | ExtraKind, ...]:
        """The topics that must exist."""
        return (*KINDS, "keys") if self.personal else KINDS

    def configs(
        self, kind: Kind, max_message_bytes: int = MAX_MESSAGE_BYTES, brokers: int = 1
    ) -> dict[str, str]:
        """Return a topic's configuration. `max_message_bytes`: the limit of the commands.

        Time and size limits are set explicitly, so that a broker's defaults do not delete events.
        """
        is_unencrypted = self.personal and kind in UNENCRYPTED_KINDS
        if kind == "commands" or is_unencrypted:
            retention: timedelta | None = self.commands_retention
        elif kind in ("events", "deferred"):
            retention = None
        else:
            retention = self.outcomes_retention
        # The broker stamps commands, so clients' clocks decide nothing; the other topics have the command's timestamp.
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
        """Return three replicas if there are three brokers or more, else one."""
        return 3 if brokers >= 3 else 1


#: The lineage topic, of which nothing may ever be deleted. It has a few small records for each repartitioning.
LINEAGE_CONFIGS = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}

#: The keys topic. An erased key, and the record that a re-wrap replaced, leave the brokers' disks within hours.
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
    """Names derived from an aggregate's name and the topic prefix, which is put before the names unchanged."""

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
        """The log of the partition history, which exists after the first repartitioning request."""
        return self.name("lineage")

    @property
    def keys(self) -> str:
        """The wrapped data keys of an aggregate with personal fields: one record for each aggregate id."""
        return self.name("keys")

    @property
    def group(self) -> str:
        """The consumer group whose offsets are the positions of the partitions; their metadata is the claim."""
        return f"cqrs.{self.commands}"

    @property
    def transactional_ids(self) -> str:
        """The prefix of all transactional ids of the aggregate."""
        return f"cqrs.{self.events}."

    def transactional_id(self, partition: int) -> str:
        """Return the transactional id of a partition's writers. It is the same in every run, so a new writer fences
        the previous writer.
        """
        return f"{self.transactional_ids}{partition}"


@dataclass(frozen=True, slots=True)
class AggregateTopics:
    """One aggregate's topics as the cluster describes them: their ids, and their limits for records.

    `partitions`: the partition count of the commands topic. A repartitioning raises this count last.
    """

    topics: Topics
    cluster_id: str
    partitions: int
    ids: Mapping[Kind, str]
    max_bytes: Mapping[Kind, int]
    lineage_id: str | None = None  # topic id of the lineage topic; None: never repartitioned
    keys_id: str | None = None  # topic id of the keys topic; None: no personal fields, or not requested
    key_partitions: int = 0  # partition count of the keys topic, which never changes

    def keys_partition(self, partition: int) -> int:
        """Return the partition of the keys topic that the owner of this partition writes and reads.

        Partition counts grow to multiples. So the keys of an aggregate stay in the same partition of the keys topic,
        regardless of their owner.
        """
        return partition % self.key_partitions
