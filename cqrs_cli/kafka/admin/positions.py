"""Creates the positions topic of a process manager."""

from cqrs_cli.kafka.admin.topics import Admin, TopicResult
from cqrs_cli.kafka.topics.process_topics import ProcessTopics
from cqrs_cli.kafka.topics.topics import TopicPlan


def ensure_positions(admin: Admin, topics: ProcessTopics, dry_run: bool = False) -> TopicResult:
    """Create the topic if it is missing; raises `ConfigurationError` if it exists with wrong settings."""
    name = topics.positions
    existing_topic = admin.describe([name]).get(name)
    if existing_topic is not None:
        if (mistake := topics.mistake(existing_topic)) is not None:
            raise mistake
        return TopicResult(name, "kept", existing_topic.partitions)
    if not dry_run:
        brokers = admin.broker_count()
        admin.create(name, 1, TopicPlan.replication(brokers), topics.configs(brokers))
    return TopicResult(name, "missing" if dry_run else "created", 1)
