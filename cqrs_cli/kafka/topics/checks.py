"""Pure rules for an aggregate's five topics, checked against their description by the cluster."""

from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from typing import TypeAlias

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.kafka.topics.personal_checks import key_mistakes, plain_mistakes
from cqrs_cli.kafka.topics.topic_info import UNLIMITED, TopicInfo, timestamp_limits_set, wrong_setting
from cqrs_cli.kafka.topics.topics import (
    ENVELOPE_OVERHEAD,
    KINDS,
    LINEAGE_CONFIGS,
    MIN_TOMBSTONE_MS,
    AggregateTopics,
    ExtraKind,
    Kind,
    TopicPlan,
    Topics,
)
from cqrs_cli.settings.durations import milliseconds, show_duration

_PERMANENT: tuple[Kind, ...] = ("events", "outcomes", "dead-letters")


#: The extra topics of an aggregate that exist.
Extras: TypeAlias = Mapping[ExtraKind, TopicInfo]

_NO_EXTRAS: Extras = {}


def aggregate_topics(
    topics: Topics, cluster_id: str, found: Mapping[Kind, TopicInfo], extras: Extras = _NO_EXTRAS
) -> AggregateTopics:
    """Return the topics as one value; `found` must contain all five, without mistakes."""
    lineage, keys = extras.get("lineage"), extras.get("keys")
    return AggregateTopics(
        topics,
        cluster_id,
        found["commands"].partitions,
        {kind: info.topic_id for kind, info in found.items()},
        {kind: info.number("max.message.bytes", 0) for kind, info in found.items()},
        None if lineage is None else lineage.topic_id,
        None if keys is None else keys.topic_id,
        0 if keys is None else keys.partitions,
    )


def missing_topics(
    topics: Topics, found: Collection[Kind | ExtraKind], wanted: Iterable[Kind | ExtraKind] = KINDS
) -> ConfigurationError | None:
    """Return the error for wanted topics that do not exist; None if all exist."""
    names = [topics.name(kind) for kind in wanted if kind not in found]
    if not names:
        return None
    what = (
        f"topic {names[0]} does not exist" if len(names) == 1 else f"topics {', '.join(names)} do not exist"
    )
    return ConfigurationError(what, f"create what is missing: cqrs init {topics.aggregate}")


def mistakes(
    topics: Topics, found: Mapping[Kind, TopicInfo], plan: TopicPlan, extras: Extras = _NO_EXTRAS
) -> list[ConfigurationError]:
    """Return errors for all mistakes in the topics that exist, the gravest first."""
    lineage, keys = extras.get("lineage"), extras.get("keys")
    return [
        *(() if keys is None else key_mistakes(topics, found, keys)),
        *(
            _equal_partition_counts(topics, found)
            if lineage is None
            else _repartitioned(topics, found, lineage)
        ),
        *_requested_partitions(topics, found, plan),
        *(error for kind, info in found.items() for error in _deletion(topics, kind, info)),
        *(plain_mistakes(topics, found, plan) if plan.personal else ()),
        *_timestamps(topics, found),
        *_outcomes_retention(topics, found, plan.dedup_window),
        *_sizes(topics, found),
        *_replicas(topics, [*found.items(), *extras.items()]),
    ]


def _equal_partition_counts(topics: Topics, found: Mapping[Kind, TopicInfo]) -> Iterable[ConfigurationError]:
    counts = {topics.name(kind): info.partitions for kind, info in found.items()}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name} {count}" for name, count in counts.items())
        yield ConfigurationError(
            f"the topics of {topics.aggregate} differ in their number of partitions: {listed}",
            "all five need the same count: delete the empty topics, then run cqrs init",
        )


def _requested_partitions(
    topics: Topics, found: Mapping[Kind, TopicInfo], plan: TopicPlan
) -> Iterable[ConfigurationError]:
    """Check that the topics have the partition count that the operator requested."""
    count = min((info.partitions for info in found.values()), default=plan.partitions)
    if not plan.requires_partitions or count == plan.partitions:
        return
    what = f"the topics of {topics.aggregate} have {count} partitions, not {plan.partitions}"
    if plan.partitions > count and plan.partitions % count == 0:
        yield ConfigurationError(
            what, f"raise the count: cqrs repartition {topics.aggregate} --partitions {plan.partitions}"
        )
    else:
        yield ConfigurationError(
            what,
            "leave out --partitions; the count can be raised to a multiple: "
            f"cqrs repartition {topics.aggregate} --partitions {2 * count}",
        )


def _repartitioned(
    topics: Topics, found: Mapping[Kind, TopicInfo], lineage: TopicInfo
) -> Iterable[ConfigurationError]:
    """Check a repartitioned aggregate. Its commands topic gets new partitions last: a command must not be in a
    partition
    whose results cannot be written.
    """
    for name, wanted in LINEAGE_CONFIGS.items():
        if (value := lineage.configs.get(name, wanted)) != wanted:
            yield wrong_setting(
                topics.lineage, name, value, wanted, "the partition history must not be deleted"
            )
    count = found["commands"].partitions if "commands" in found else 0
    fewer = [
        f"{topics.name(kind)} {info.partitions}" for kind, info in found.items() if info.partitions < count
    ]
    if fewer:
        yield ConfigurationError(
            f"the topics of {topics.aggregate} differ in their number of partitions: "
            f"{topics.commands} {count}, but {', '.join(fewer)}",
            f"raise the other counts, too: cqrs repartition {topics.aggregate} --partitions {count}",
        )


def _deletion(topics: Topics, kind: Kind, info: TopicInfo) -> Iterable[ConfigurationError]:
    name = topics.name(kind)
    policy = info.configs.get("cleanup.policy", "delete")
    if kind == "deferred":
        if policy != "compact":
            yield wrong_setting(
                name, "cleanup.policy", policy, "compact", "deferred commands would be deleted"
            )
        if (retention := info.number("delete.retention.ms", MIN_TOMBSTONE_MS)) < MIN_TOMBSTONE_MS:
            why = "a slow owner would miss the tombstone of a decided command"
            yield wrong_setting(
                name, "delete.retention.ms", str(retention), f"at least {MIN_TOMBSTONE_MS}", why
            )
    elif policy != "delete":
        why = "compaction deletes events" if kind == "events" else "compaction deletes unread records"
        yield wrong_setting(name, "cleanup.policy", policy, "delete", why)
    if kind == "events" and (retention := info.number("retention.ms", UNLIMITED)) != UNLIMITED:
        why = "events are the source of truth, and would be deleted"
        yield wrong_setting(name, "retention.ms", str(retention), "-1", why)
    if kind in _PERMANENT and (size := info.number("retention.bytes", UNLIMITED)) != UNLIMITED:
        yield wrong_setting(name, "retention.bytes", str(size), "-1", "records would be deleted too early")


def _timestamps(topics: Topics, found: Mapping[Kind, TopicInfo]) -> Iterable[ConfigurationError]:
    for kind, info in found.items():
        wanted = "LogAppendTime" if kind == "commands" else "CreateTime"
        why = (
            "clients' clocks would determine the time"
            if kind == "commands"
            else "its records carry the command's time"
        )
        if (timestamp_type := info.configs.get("message.timestamp.type", "CreateTime")) != wanted:
            yield wrong_setting(topics.name(kind), "message.timestamp.type", timestamp_type, wanted, why)
        if kind == "commands":
            continue  # the broker stamps commands, and never rejects its own time
        why = "after a larger jump of the broker's clock, a command's outcome would be rejected for ever"
        yield from timestamp_limits_set(topics.name(kind), info, why)


def _outcomes_retention(
    topics: Topics, found: Mapping[Kind, TopicInfo], window: timedelta
) -> Iterable[ConfigurationError]:
    """A rebuilt shard reads the remembered ids from outcomes, up to one window before the oldest possible command."""
    if not {"commands", "outcomes"} <= found.keys():
        return
    commands_retention = found["commands"].number("retention.ms", UNLIMITED)
    retention = found["outcomes"].number("retention.ms", UNLIMITED)
    minimum = UNLIMITED if commands_retention == UNLIMITED else commands_retention + 2 * milliseconds(window)
    if retention != UNLIMITED and (minimum == UNLIMITED or retention < minimum):
        why = f"it must cover the commands' retention and two dedup windows of {show_duration(window)}"
        yield wrong_setting(
            topics.outcomes,
            "retention.ms",
            str(retention),
            f"at least {minimum}" if minimum >= 0 else "-1",
            why,
        )


def _sizes(topics: Topics, found: Mapping[Kind, TopicInfo]) -> Iterable[ConfigurationError]:
    """A dead letter contains the command's bytes and the reason, so its topic must accept larger records."""
    if "commands" not in found:
        return
    minimum = found["commands"].number("max.message.bytes", 0) + ENVELOPE_OVERHEAD
    for kind in ("outcomes", "dead-letters", "deferred"):
        info = found.get(kind)
        if info is not None and (size := info.number("max.message.bytes", 0)) < minimum:
            why = "a command of the largest size and its reason must fit"
            yield wrong_setting(topics.name(kind), "max.message.bytes", str(size), f"at least {minimum}", why)


def _replicas(
    topics: Topics, found: Iterable[tuple[Kind | ExtraKind, TopicInfo]]
) -> Iterable[ConfigurationError]:
    """With three replicas, two must have a record before it counts as written."""
    for kind, info in found:
        if info.replication >= 3 and (least := info.number("min.insync.replicas", 1)) < 2:
            why = "acknowledged records would be lost with one broker"
            yield wrong_setting(topics.name(kind), "min.insync.replicas", str(least), "at least 2", why)
