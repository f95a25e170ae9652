"""The keys topic of an aggregate with personal fields, on a real broker."""

import pytest

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.kafka.admin.topics import Admin, check_topics, ensure_topics
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import UNENCRYPTED_KINDS, TopicPlan, Topics
from cqrs_cli.keyspace.added_partitions import add_partitions, create_lineage_topic
from tests.support.topic_settings import configure_topic

pytestmark = pytest.mark.kafka


def test_keys_topic_keeps_its_partition_count(connection: Connection, prefix: str) -> None:
    """Fields may be annotated as personal after `cqrs init`.

    The keys topic keeps the partition count that the commands topic had when the keys topic was created.
    """
    topics = Topics("bank", prefix)
    with Admin(connection) as admin:
        _create_and_repartition(admin, topics)


def _create_and_repartition(admin: Admin, topics: Topics) -> None:
    ensure_topics(admin, topics, TopicPlan(partitions=2))
    plan = TopicPlan(partitions=4, personal=True)
    with pytest.raises(ConfigurationError, match=f"topic {topics.keys} does not exist.*: cqrs init bank"):
        check_topics(admin, topics, plan)
    for kind in UNENCRYPTED_KINDS:
        with pytest.raises(ConfigurationError, match=rf"{kind} has (retention|segment)\.ms="):
            ensure_topics(admin, topics, plan)
        configure_topic(admin.connection, topics.name(kind), plan.configs(kind))
    (*_, created) = ensure_topics(admin, topics, plan, dry_run=True)
    assert created == (topics.keys, "missing", 2)
    assert ensure_topics(admin, topics, plan)[-1] == (topics.keys, "created", 2)
    add_partitions(admin, topics, 4)
    create_lineage_topic(admin, topics)
    assert ensure_topics(admin, topics, plan)[-1] == (topics.keys, "kept", 2)
    aggregate = check_topics(admin, topics, plan)
    assert (aggregate.partitions, [aggregate.keys_partition(partition) for partition in range(4)]) == (
        4,
        [0, 1, 0, 1],
    )
    assert aggregate.keys_id == admin.describe([topics.keys])[topics.keys].topic_id
