"""Creates the positions topic of a process manager, and the topic of a publication."""

from collections.abc import Callable

from cqrs_cli.kafka.admin.topics import Admin, TopicResult
from cqrs_cli.kafka.topics.process_topics import ProcessTopics, public_configs
from cqrs_cli.kafka.topics.topics import TopicPlan


def ensure_positions(admin: Admin, topics: ProcessTopics, dry_run: bool = False) -> TopicResult:
    """Create the positions topic if it is missing; raises `ConfigurationError` if it exists with wrong settings."""
    existing_topic = admin.describe([topics.positions_topic]).get(topics.positions_topic)
    if existing_topic is not None and (config_error := topics.config_error(existing_topic)) is not None:
        raise config_error
    return ensure_topic(admin, topics.positions_topic, 1, dry_run, topics.configs)


def ensure_topic(
    admin: Admin,
    name: str,
    partitions: int,
    dry_run: bool,
    configs: Callable[[int], dict[str, str]] = public_configs,
) -> TopicResult:
    """Create a topic if it is missing. `configs`: returns the topic's configuration for a number of brokers."""
    existing_topic = admin.describe([name]).get(name)
    if existing_topic is not None:
        return TopicResult(name, "kept", existing_topic.partitions)
    if not dry_run:
        brokers = admin.broker_count()
        admin.create(name, partitions, TopicPlan.replication(brokers), configs(brokers))
    return TopicResult(name, "missing" if dry_run else "created", partitions)
