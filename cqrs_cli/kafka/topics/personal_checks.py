"""Pure checks of the topics of an aggregate with personal fields: Kafka must keep the keys, and must delete unencrypted
personal values in time.
"""

from collections.abc import Iterable, Mapping

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.kafka.topics.topic_info import (
    UNLIMITED,
    TopicInfo,
    timestamp_limit_errors,
    upper_limit_errors,
    wrong_setting_error,
)
from cqrs_cli.kafka.topics.topics import (
    COMPACTION_LAG_MS,
    MAX_SEGMENT_MS,
    UNENCRYPTED_KINDS,
    Kind,
    TopicPlan,
    Topics,
)
from cqrs_cli.settings.durations import milliseconds


def key_config_errors(
    topics: Topics, topic_infos: Mapping[Kind, TopicInfo], keys: TopicInfo
) -> Iterable[ConfigurationError]:
    """Yield the errors in the configuration of the keys topic: only a tombstone may delete a key, compaction must soon
    remove a deleted key from the disks, and the partition of a key must never change.
    """
    name = topics.keys
    count = topic_infos["commands"].partitions if "commands" in topic_infos else keys.partitions
    if count % keys.partitions:
        yield ConfigurationError(
            f"topic {name} has {keys.partitions} partitions, and {topics.commands} {count}: not a multiple, so owners"
            " would look for keys in the wrong partition",
            "the partition count was changed: restore the topic with its former count",
        )
    if (policy := keys.configs.get("cleanup.policy", "delete")) != "compact":
        yield wrong_setting_error(
            name, "cleanup.policy", policy, "compact", "keys would be deleted, and encrypted data lost"
        )
    reason = "a key that was erased would stay on the brokers' disks"
    yield from upper_limit_errors(name, keys, "max.compaction.lag.ms", COMPACTION_LAG_MS, reason)
    yield from upper_limit_errors(name, keys, "segment.ms", COMPACTION_LAG_MS, reason)
    yield from timestamp_limit_errors(
        name, keys, "after a larger jump of the broker's clock, a key would be rejected for ever"
    )


def unencrypted_config_errors(
    topics: Topics, topic_infos: Mapping[Kind, TopicInfo], plan: TopicPlan
) -> Iterable[ConfigurationError]:
    """Yield an error for each topic in which Kafka would not delete unencrypted personal values in time."""
    reason = "personal values stay there as they were sent"
    for kind in UNENCRYPTED_KINDS:
        if (info := topic_infos.get(kind)) is not None:
            if info.number("retention.ms", UNLIMITED) == UNLIMITED:
                requirement = f"a limit such as {milliseconds(plan.commands_retention)}"
                yield wrong_setting_error(
                    topics.name(kind), "retention.ms", str(UNLIMITED), requirement, reason
                )
            yield from upper_limit_errors(topics.name(kind), info, "segment.ms", MAX_SEGMENT_MS, reason)
