"""Pure checks of an aggregate's topics, as the cluster describes them: missing topics, and wrong settings."""

from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from typing import TypeAlias

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.kafka.topics.personal_checks import key_config_errors, unencrypted_config_errors
from cqrs_cli.kafka.topics.topic_info import (
    UNLIMITED,
    TopicInfo,
    diskless_errors,
    timestamp_limit_errors,
    wrong_setting_error,
)
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

_WITHOUT_SIZE_LIMIT: tuple[Kind, ...] = ("events", "outcomes", "dead-letters")


#: Kind → description, for the extra topics of an aggregate that exist.
Extras: TypeAlias = Mapping[ExtraKind, TopicInfo]

_NO_EXTRAS: Extras = {}


def aggregate_topics(
    topics: Topics, cluster_id: str, infos: Mapping[Kind, TopicInfo], extras: Extras = _NO_EXTRAS
) -> AggregateTopics:
    """Return the description of an aggregate's topics. `infos` must contain the five topics."""
    lineage, keys = extras.get("lineage"), extras.get("keys")
    return AggregateTopics(
        topics,
        cluster_id,
        infos["commands"].partitions,
        {kind: info.topic_id for kind, info in infos.items()},
        {kind: info.number("max.message.bytes", 0) for kind, info in infos.items()},
        None if lineage is None else lineage.topic_id,
        None if keys is None else keys.topic_id,
        0 if keys is None else keys.partitions,
    )


def missing_topics_error(
    topics: Topics, existing_kinds: Collection[Kind | ExtraKind], kinds: Iterable[Kind | ExtraKind] = KINDS
) -> ConfigurationError | None:
    """Return the error for topics of `kinds` that do not exist; None if all exist."""
    names = [topics.name(kind) for kind in kinds if kind not in existing_kinds]
    if not names:
        return None
    problem = (
        f"topic {names[0]} does not exist" if len(names) == 1 else f"topics {', '.join(names)} do not exist"
    )
    return ConfigurationError(problem, f"create what is missing: cqrs init {topics.aggregate}")


def config_errors(
    topics: Topics, infos: Mapping[Kind, TopicInfo], plan: TopicPlan, extras: Extras = _NO_EXTRAS
) -> list[ConfigurationError]:
    """Return the errors in the configuration of existing topics, the gravest error first. `infos`: kind → description.
    `plan`: the requested partition count and dedup window, and whether the aggregate has personal fields.
    """
    lineage, keys = extras.get("lineage"), extras.get("keys")
    return [
        *diskless_errors((topics.name(kind), info) for kind, info in [*infos.items(), *extras.items()]),
        *(() if keys is None else key_config_errors(topics, infos, keys)),
        *(
            _count_errors(topics, infos)
            if lineage is None
            else _repartitioned_count_errors(topics, infos, lineage)
        ),
        *_requested_count_errors(topics, infos, plan),
        *(error for kind, info in infos.items() for error in _deletion_errors(topics, kind, info)),
        *(unencrypted_config_errors(topics, infos, plan) if plan.personal else ()),
        *_timestamp_errors(topics, infos),
        *_outcomes_retention_errors(topics, infos, plan.dedup_window),
        *_size_errors(topics, infos),
        *_replica_errors(topics, [*infos.items(), *extras.items()]),
    ]


def _count_errors(topics: Topics, infos: Mapping[Kind, TopicInfo]) -> Iterable[ConfigurationError]:
    counts = {topics.name(kind): info.partitions for kind, info in infos.items()}
    if len(set(counts.values())) > 1:
        count_list = ", ".join(f"{name} {count}" for name, count in counts.items())
        yield ConfigurationError(
            f"the topics of {topics.aggregate} differ in their number of partitions: {count_list}",
            f"raise all to one multiple of {min(counts.values())}: cqrs repartition {topics.aggregate} --partitions …; "
            "or delete empty topics, then run cqrs init",
        )


def _requested_count_errors(
    topics: Topics, infos: Mapping[Kind, TopicInfo], plan: TopicPlan
) -> Iterable[ConfigurationError]:
    """Check that the topics have the partition count that the operator requested."""
    count = min((info.partitions for info in infos.values()), default=plan.partitions)
    if not plan.is_partition_count_required or count == plan.partitions:
        return
    problem = f"the topics of {topics.aggregate} have {count} partitions, not {plan.partitions}"
    if plan.partitions > count and plan.partitions % count == 0:
        yield ConfigurationError(
            problem, f"raise the count: cqrs repartition {topics.aggregate} --partitions {plan.partitions}"
        )
    else:
        yield ConfigurationError(
            problem,
            "leave out --partitions; the count can be raised to a multiple: "
            f"cqrs repartition {topics.aggregate} --partitions {2 * count}",
        )


def _repartitioned_count_errors(
    topics: Topics, infos: Mapping[Kind, TopicInfo], lineage: TopicInfo
) -> Iterable[ConfigurationError]:
    """Check the partition history and the partition counts of a repartitioned aggregate.

    The commands topic gets new partitions last, because the results of a command are written to the same partition
    number of the other topics.
    """
    for name, required_value in LINEAGE_CONFIGS.items():
        if (value := lineage.configs.get(name, required_value)) != required_value:
            yield wrong_setting_error(
                topics.lineage, name, value, required_value, "the partition history must not be deleted"
            )
    count = infos["commands"].partitions if "commands" in infos else 0
    smaller_topics = [
        f"{topics.name(kind)} {info.partitions}" for kind, info in infos.items() if info.partitions < count
    ]
    if smaller_topics:
        yield ConfigurationError(
            f"the topics of {topics.aggregate} differ in their number of partitions: "
            f"{topics.commands} {count}, but {', '.join(smaller_topics)}",
            f"raise the other counts, too: cqrs repartition {topics.aggregate} --partitions {count}",
        )


def _deletion_errors(topics: Topics, kind: Kind, info: TopicInfo) -> Iterable[ConfigurationError]:
    """Check that no setting of a topic deletes records that are still needed."""
    name = topics.name(kind)
    policy = info.configs.get("cleanup.policy", "delete")
    if kind == "deferred":
        if policy != "compact":
            yield wrong_setting_error(
                name, "cleanup.policy", policy, "compact", "deferred commands would be deleted"
            )
        if (retention := info.number("delete.retention.ms", MIN_TOMBSTONE_MS)) < MIN_TOMBSTONE_MS:
            reason = "a slow owner would miss the tombstone of a decided command"
            yield wrong_setting_error(
                name, "delete.retention.ms", str(retention), f"at least {MIN_TOMBSTONE_MS}", reason
            )
    elif policy != "delete":
        reason = "compaction deletes events" if kind == "events" else "compaction deletes unread records"
        yield wrong_setting_error(name, "cleanup.policy", policy, "delete", reason)
    if kind == "events" and (retention := info.number("retention.ms", UNLIMITED)) != UNLIMITED:
        reason = "events are the source of truth, and would be deleted"
        yield wrong_setting_error(name, "retention.ms", str(retention), "-1", reason)
    if kind in _WITHOUT_SIZE_LIMIT and (size := info.number("retention.bytes", UNLIMITED)) != UNLIMITED:
        yield wrong_setting_error(
            name, "retention.bytes", str(size), "-1", "records would be deleted too early"
        )


def _timestamp_errors(topics: Topics, infos: Mapping[Kind, TopicInfo]) -> Iterable[ConfigurationError]:
    """Check that the broker sets the timestamps of commands, and that the other topics accept every timestamp."""
    for kind, info in infos.items():
        required_value = "LogAppendTime" if kind == "commands" else "CreateTime"
        if kind == "commands":
            reason = "clients' clocks would determine the time"
        else:
            reason = "its records carry the command's time"
        if (timestamp_type := info.configs.get("message.timestamp.type", "CreateTime")) != required_value:
            name = topics.name(kind)
            yield wrong_setting_error(name, "message.timestamp.type", timestamp_type, required_value, reason)
        if kind == "commands":
            continue  # the broker sets the timestamps of commands, and never rejects its own time
        reason = "after a larger jump of the broker's clock, a command's outcome would be rejected for ever"
        yield from timestamp_limit_errors(topics.name(kind), info, reason)


def _outcomes_retention_errors(
    topics: Topics, infos: Mapping[Kind, TopicInfo], window: timedelta
) -> Iterable[ConfigurationError]:
    """Check that the retention of outcomes is at least the retention of commands plus two dedup windows.

    A rebuilt shard reads the remembered ids from the outcomes. It needs the outcomes from one dedup window before the
    oldest command in the commands topic.
    """
    if not {"commands", "outcomes"} <= infos.keys():
        return
    commands_retention = infos["commands"].number("retention.ms", UNLIMITED)
    retention = infos["outcomes"].number("retention.ms", UNLIMITED)
    minimum = UNLIMITED if commands_retention == UNLIMITED else commands_retention + 2 * milliseconds(window)
    if retention != UNLIMITED and (minimum == UNLIMITED or retention < minimum):
        reason = f"it must cover the commands' retention and two dedup windows of {show_duration(window)}"
        yield wrong_setting_error(
            topics.outcomes,
            "retention.ms",
            str(retention),
            f"at least {minimum}" if minimum >= 0 else "-1",
            reason,
        )


def _size_errors(topics: Topics, infos: Mapping[Kind, TopicInfo]) -> Iterable[ConfigurationError]:
    """Check the size limits. Outcomes, dead letters and deferred commands may be larger than the command by
    `ENVELOPE_OVERHEAD`.
    """
    if "commands" not in infos:
        return
    minimum = infos["commands"].number("max.message.bytes", 0) + ENVELOPE_OVERHEAD
    for kind in ("outcomes", "dead-letters", "deferred"):
        info = infos.get(kind)
        if info is not None and (size := info.number("max.message.bytes", 0)) < minimum:
            reason = "a command of the largest size and its reason must fit"
            name = topics.name(kind)
            yield wrong_setting_error(name, "max.message.bytes", str(size), f"at least {minimum}", reason)


def _replica_errors(
    topics: Topics, infos: Iterable[tuple[Kind | ExtraKind, TopicInfo]]
) -> Iterable[ConfigurationError]:
    """Check that topics with three replicas or more acknowledge a record only after two replicas have it."""
    for kind, info in infos:
        if info.replication >= 3 and (min_insync := info.number("min.insync.replicas", 1)) < 2:
            reason = "acknowledged records would be lost with one broker"
            name = topics.name(kind)
            yield wrong_setting_error(name, "min.insync.replicas", str(min_insync), "at least 2", reason)
