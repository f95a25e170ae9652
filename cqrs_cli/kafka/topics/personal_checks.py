"""Pure rules for the topics of an aggregate with personal fields: keys stay, unencrypted values do not."""

from collections.abc import Iterable, Mapping

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.kafka.topics.topic_info import UNLIMITED, TopicInfo, above, refusing_times, wrong_setting
from cqrs_cli.kafka.topics.topics import (
    COMPACTION_LAG,
    LONGEST_SEGMENT,
    PLAIN_KINDS,
    Kind,
    TopicPlan,
    Topics,
)
from cqrs_cli.settings.durations import milliseconds


def key_mistakes(
    topics: Topics, found: Mapping[Kind, TopicInfo], keys: TopicInfo
) -> Iterable[ConfigurationError]:
    """Yield errors for the keys topic. A key is deleted only by its tombstone, and then soon leaves the disks. The
    partition of a key never changes.
    """
    name = topics.keys
    count = found["commands"].partitions if "commands" in found else keys.partitions
    if count % keys.partitions:
        yield ConfigurationError(
            f"topic {name} has {keys.partitions} partitions, and {topics.commands} {count}: not a multiple, so keys"
            " would be looked for where they are not",
            "somebody has changed it: restore it with the partitions that it had",
        )
    if (policy := keys.configs.get("cleanup.policy", "delete")) != "compact":
        yield wrong_setting(
            name, "cleanup.policy", policy, "compact", "keys would be deleted, and what they open lost"
        )
    why = "a key that was erased would stay on the brokers' disks"
    yield from above(name, keys, "max.compaction.lag.ms", COMPACTION_LAG, why)
    yield from above(name, keys, "segment.ms", COMPACTION_LAG, why)
    yield from refusing_times(
        name, keys, "a key would be refused for ever once the broker's clock leapt by more"
    )


def plain_mistakes(
    topics: Topics, found: Mapping[Kind, TopicInfo], plan: TopicPlan
) -> Iterable[ConfigurationError]:
    """Yield errors for topics with unencrypted personal values, which must be deleted in time."""
    why = "personal values stay there as they were sent"
    for kind in PLAIN_KINDS:
        if (info := found.get(kind)) is not None:
            if info.number("retention.ms", UNLIMITED) == UNLIMITED:
                wanted = f"a limit such as {milliseconds(plan.commands_retention)}"
                yield wrong_setting(topics.name(kind), "retention.ms", str(UNLIMITED), wanted, why)
            yield from above(topics.name(kind), info, "segment.ms", LONGEST_SEGMENT, why)
