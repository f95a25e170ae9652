"""A topic as the cluster describes it, and the errors for its settings."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.kafka.topics.topics import ANY_DIFFERENCE, TIMESTAMP_LIMITS

UNLIMITED = -1


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic as the cluster describes it."""

    topic_id: str
    partitions: int  # partition count
    replication: int  # the lowest number of replicas of a partition
    configs: Mapping[str, str]
    operations: frozenset[str] | None = None  # the user's authorized operations; None if unknown

    def number(self, name: str, default: int) -> int:
        """Return the value of a numeric setting; `default` if the setting is missing or empty."""
        return int(self.configs.get(name) or default)


def wrong_setting_error(
    topic: str, name: str, value: str, requirement: str, reason: str
) -> ConfigurationError:
    """Return the error for a wrong setting. `requirement` ends with the value to set, such as `at least 2`."""
    setting = requirement.split()[-1]
    return ConfigurationError(
        f"topic {topic} has {name}={value}, needs {requirement}: {reason}",
        f"set it: kafka-configs.sh --bootstrap-server HOST:PORT --alter --topic {topic} --add-config {name}={setting}",
    )


def diskless_errors(topics: Iterable[tuple[str, TopicInfo]]) -> Iterable[ConfigurationError]:
    """Yield an error for each diskless topic. `topics`: (name, description) pairs.

    A diskless topic (KIP-1163) supports neither transactions nor compaction, and cannot become a classic topic later.
    """
    for name, info in topics:
        if info.configs.get("diskless.enable") == "true":
            yield ConfigurationError(
                f"topic {name} is diskless (diskless.enable=true): diskless topics have no transactions and no"
                " compaction",
                "create it as a classic topic: set log.diskless.enable=false on the brokers, delete the topic if it is"
                " empty, then run cqrs init",
            )


def upper_limit_errors(
    topic: str, info: TopicInfo, name: str, limit: int, reason: str
) -> Iterable[ConfigurationError]:
    """Yield an error if the numeric setting `name` is above `limit`."""
    if (value := info.number(name, ANY_DIFFERENCE)) > limit:
        yield wrong_setting_error(topic, name, str(value), f"at most {limit}", reason)


def timestamp_limit_errors(topic: str, info: TopicInfo, reason: str) -> Iterable[ConfigurationError]:
    """Yield an error for each setting with which the topic would reject records because of their timestamps."""
    for name in TIMESTAMP_LIMITS:
        if (limit := info.number(name, ANY_DIFFERENCE)) != ANY_DIFFERENCE:
            yield wrong_setting_error(topic, name, str(limit), str(ANY_DIFFERENCE), reason)
