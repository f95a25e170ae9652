"""A topic as the cluster has it, and what is said of a setting that is wrong."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.kafka.topics.topics import ANY_DIFFERENCE, TIMESTAMP_LIMITS

UNLIMITED = -1


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic as the cluster has it. `operations`: those that we may do, None where the broker does not say."""

    topic_id: str
    partitions: int
    replication: int
    configs: Mapping[str, str]
    operations: frozenset[str] | None = None

    def number(self, name: str, default: int) -> int:
        """A numeric configuration value."""
        return int(self.configs.get(name) or default)


def wrong_setting(topic: str, name: str, value: str, wanted: str, why: str) -> ConfigurationError:
    """The error for a setting. `wanted` ends with the value to set."""
    setting = wanted.split()[-1]
    return ConfigurationError(
        f"topic {topic} has {name}={value}, needs {wanted}: {why}",
        f"set it: kafka-configs.sh --bootstrap-server HOST:PORT --alter --topic {topic} --add-config {name}={setting}",
    )


def above(topic: str, info: TopicInfo, name: str, most: int, why: str) -> Iterable[ConfigurationError]:
    """The error for a setting that is above its limit."""
    if (value := info.number(name, ANY_DIFFERENCE)) > most:
        yield wrong_setting(topic, name, str(value), f"at most {most}", why)


def refusing_times(topic: str, info: TopicInfo, why: str) -> Iterable[ConfigurationError]:
    """The errors for limits that would refuse a record for its time."""
    for name in TIMESTAMP_LIMITS:
        if (limit := info.number(name, ANY_DIFFERENCE)) != ANY_DIFFERENCE:
            yield wrong_setting(topic, name, str(limit), str(ANY_DIFFERENCE), why)
