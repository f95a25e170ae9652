"""The five topics of an aggregate, as values; names of the group and the transactions that guard them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from cqrs_cli.settings.durations import milliseconds

Kind = Literal["commands", "events", "outcomes", "dead-letters", "deferred"]
KINDS: tuple[Kind, ...] = ("commands", "events", "outcomes", "dead-letters", "deferred")

#: Topics that only some aggregates have: those that have grown, and those with personal fields.
ExtraKind = Literal["lineage", "keys"]

#: The topics in which personal values stand as they were sent: of these aggregates, no record may stay for ever.
PLAIN_KINDS: tuple[Kind, ...] = ("commands", "dead-letters")

#: Milliseconds that a tombstone of the deferred topic stays at least: a reader that stopped half-way still meets it.
TOMBSTONES = 24 * 3600 * 1000

#: Milliseconds until a record of the keys topic that another one follows may be compacted away, and must be.
COMPACTION_LAG = 3600 * 1000

#: Milliseconds after which a segment of plain values is closed at the latest: before that no retention deletes it.
LONGEST_SEGMENT = 24 * 3600 * 1000

#: Room beyond the command itself for headers, reason and envelope in outcomes and dead letters.
ENVELOPE_ROOM = 64 * 1024

#: Milliseconds between a record's time and the broker's clock that Kafka can allow at most.
ANY_DIFFERENCE = 2**63 - 1

#: The most by which a record's time may lie behind the broker's clock, and ahead of it. Events, outcomes and dead
#: letters carry the command's time: once the clock leapt by more than the hour that Kafka allows, a command could
#: never be decided.
TIMESTAMP_LIMITS = ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms")

#: `max.message.bytes` of commands and events, unless the commands' topic exists with another: Kafka's own default,
#: written out.
MAX_MESSAGE_BYTES = 1_048_588


def least_in_sync(brokers: int) -> str:
    """The replicas that must have a record before it counts as written."""
    return "2" if brokers >= 3 else "1"


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """The settings of new topics. `insist`: the user asked for this number of partitions; another one is a mistake."""

    partitions: int = 4
    insist: bool = False
    commands_retention: timedelta = timedelta(days=7)
    outcomes_retention: timedelta | None = None  # None: unlimited; dead letters are kept as long
    dedup_window: timedelta = timedelta(hours=24)
    personal: bool = False  # the aggregate has personal fields

    @property
    def kinds(self) -> tuple[Kind | ExtraKind, ...]:
        """The topics that there must be."""
        return (*KINDS, "keys") if self.personal else KINDS

    def configs(
        self, kind: Kind, max_message_bytes: int = MAX_MESSAGE_BYTES, brokers: int = 1
    ) -> dict[str, str]:
        """The topic's configuration. `max_message_bytes` is the commands'; three brokers allow a majority of replicas.

        Time and size limits are written out: a broker's own defaults must not delete events.
        """
        is_plain = self.personal and kind in PLAIN_KINDS
        retention = (
            self.commands_retention
            if kind == "commands" or is_plain
            else None
            if kind in ("events", "deferred")
            else self.outcomes_retention
        )
        # Clients' clocks decide nothing; the other topics carry the command's time.
        stamped_by_broker = kind == "commands"
        room = ENVELOPE_ROOM if kind in ("outcomes", "dead-letters", "deferred") else 0
        compacted = {"delete.retention.ms": str(TOMBSTONES), "min.cleanable.dirty.ratio": "0.1"}
        return {
            **({} if stamped_by_broker else dict.fromkeys(TIMESTAMP_LIMITS, str(ANY_DIFFERENCE))),
            "cleanup.policy": "compact" if kind == "deferred" else "delete",
            **(compacted if kind == "deferred" else {}),
            "retention.ms": "-1" if retention is None else str(milliseconds(retention)),
            "retention.bytes": "-1",
            **({"segment.ms": str(LONGEST_SEGMENT)} if is_plain else {}),
            "message.timestamp.type": "LogAppendTime" if stamped_by_broker else "CreateTime",
            "max.message.bytes": str(max_message_bytes + room),
            "min.insync.replicas": least_in_sync(brokers),
        }

    @staticmethod
    def replication(brokers: int) -> int:
        """Three copies wherever three brokers are, else one."""
        return 3 if brokers >= 3 else 1


#: The lineage topic: nothing in it may ever be deleted. Its records have few bytes, and come with each growth.
LINEAGE_CONFIGS = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}

#: The keys topic. A key that is gone, and the one before a rotation, leave the brokers' disks within hours.
KEYS_CONFIGS = {
    "cleanup.policy": "compact",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "segment.ms": str(COMPACTION_LAG),
    "max.compaction.lag.ms": str(COMPACTION_LAG),
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": str(TOMBSTONES),
    **dict.fromkeys(TIMESTAMP_LIMITS, str(ANY_DIFFERENCE)),
}


def extra_configs(extra: ExtraKind, brokers: int = 1) -> dict[str, str]:
    """The configuration of a topic that only some aggregates have."""
    configs = {"lineage": LINEAGE_CONFIGS, "keys": KEYS_CONFIGS}[extra]
    return {**configs, "min.insync.replicas": least_in_sync(brokers)}


@dataclass(frozen=True, slots=True)
class Topics:
    """Names derived from one aggregate's name and the topic prefix (put before the names as it is)."""

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
        """The log of how the partitions grew: it is there from the first growth on."""
        return self.name("lineage")

    @property
    def keys(self) -> str:
        """The wrapped data keys of an aggregate with personal fields: one record for each aggregate id."""
        return self.name("keys")

    @property
    def group(self) -> str:
        """The consumer group whose offsets say how far each partition is decided, and by whom (the claim)."""
        return f"cqrs.{self.commands}"

    @property
    def transactional_ids(self) -> str:
        """The beginning of all transactional ids of the aggregate."""
        return f"cqrs.{self.events}."

    def transactional_id(self, partition: int) -> str:
        """The same for every run: one writer per partition, since exclusivity belongs to the events topic."""
        return f"{self.transactional_ids}{partition}"


@dataclass(frozen=True, slots=True)
class AggregateTopics:
    """One aggregate's topics as the cluster has them: what identifies them, and what they take.

    `partitions`: of the commands, whose topic grows last.
    """

    topics: Topics
    cluster_id: str
    partitions: int
    ids: Mapping[Kind, str]
    max_bytes: Mapping[Kind, int]
    lineage_id: str | None = None  # of the lineage topic; None: it never grew
    keys_id: str | None = (
        None  # of the keys topic; None: it has no personal fields, or was not asked for them
    )
    key_partitions: int = 0  # of the keys topic: as many as when it was made, for life

    def keys_partition(self, partition: int) -> int:
        """The partition of the keys topic in which the owner of this partition writes and reads.

        Partitions grow by multiples: so the keys of an aggregate stay in one of them, whoever owns it.
        """
        return partition % self.key_partitions
