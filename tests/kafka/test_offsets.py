"""A group's committed offsets, and their metadata."""

import pytest
from confluent_kafka import TopicPartition

from cqrs_cli.kafka.clients import consumer
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.offsets import GroupCommit, committed_offsets, committed_offsets_now
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.kafka.writer import FencedWriter
from tests.support.transactional_topic import TransactionalTopic

pytestmark = pytest.mark.kafka


@pytest.fixture
def topics(connection: Connection, prefix: str) -> Topics:
    topics = Topics("bank", prefix)
    TransactionalTopic(connection, topics.commands)
    TransactionalTopic(connection, topics.events)
    return topics


def test_new_group_has_no_offset(connection: Connection, topics: Topics) -> None:
    assert committed_offsets_now(connection, topics, [0]) == {0: GroupCommit(None, "")}


def test_offset_and_text_are_kept(connection: Connection, topics: Topics) -> None:
    group = consumer(connection, group=topics.group)
    writer = FencedWriter(PartitionLog(connection, topics, 0), 1_000_000)
    writer.fence()
    for offset, text in ((0, '{"é":1}'), (7, "x" * 4000)):
        writer.commit_position(group, offset, text)
        assert committed_offsets(group, topics.commands, [0]) == {0: GroupCommit(offset, text)}
        assert committed_offsets_now(connection, topics, [0]) == {0: GroupCommit(offset, text)}
    group.close()


def test_reading_ignores_pending_commit(connection: Connection, topics: Topics) -> None:
    group = consumer(connection, group=topics.group)
    writer = FencedWriter(PartitionLog(connection, topics, 0), 1_000_000)
    writer.fence()
    writer.commit_position(group, 3, "before")
    assert committed_offsets(group, topics.commands, [0]) == {0: GroupCommit(3, "before")}
    client = writer._producer
    client.begin_transaction()
    pending_offset = TopicPartition(topics.commands, 0, 9, "under way")
    client.send_offsets_to_transaction([pending_offset], group.consumer_group_metadata(), 10)
    assert committed_offsets_now(connection, topics, [0]) == {0: GroupCommit(3, "before")}
    client.commit_transaction(10)
    assert committed_offsets(group, topics.commands, [0]) == {0: GroupCommit(9, "under way")}
    group.close()
