"""The methods of a partition's log return the same as the functions that they call."""

import pickle
from typing import cast

import pytest
from confluent_kafka import Consumer, TopicPartition

from cqrs_cli.errors import UnavailableError
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.clients import consumer
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.offsets import GroupCommit
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.kafka.writer import FencedWriter
from tests.support.transactional_topic import TransactionalTopic


@pytest.fixture
def log(connection: Connection, prefix: str) -> PartitionLog:
    return PartitionLog(connection, Topics("bank", prefix), 0)


def test_partition_log_travels_to_workers() -> None:
    log = PartitionLog(Connection("localhost:1"), Topics("bank", "test."), 3)
    assert pickle.loads(pickle.dumps(log)) == log  # noqa: S301 - our own bytes
    assert log.log_name("dead-letters") == "test.bank.dead-letters partition 3"


@pytest.mark.kafka
def test_partition_log_reads_each_topic(log: PartitionLog) -> None:
    events = TransactionalTopic(log.connection, log.topics.events)
    for timestamp, value in enumerate((b"a", b"b", b"c"), 1000):
        events.write([value], timestamp=timestamp)
    assert log.bounds("events") == (0, 3)
    assert [r.value for records in log.read("events", 1, 3) for r in records] == [b"b", b"c"]
    first, last = log.first_record("events", 0, 3), log.last_record("events", 0, 3)
    assert first is not None and first.value == b"a"
    assert last is not None and last.value == b"c"
    assert log.offset_at("events", 1001) == 1


@pytest.mark.kafka
def test_clients_see_their_own_isolation(log: PartitionLog) -> None:
    TransactionalTopic(log.connection, log.topics.events).begin([b"open"])
    client = consumer(log.connection)
    assert log.watermarks(client, "events") == log.bounds("events") == (0, 0)
    assert log.bounds("events", "read_uncommitted") == (0, 1)
    with pytest.raises(
        readers.StalledError, match=r"bank\.events partition 0: no record is visible at offset 0"
    ):
        list(log.read_with(client, "events", 0, 1, timeout=0.3))
    client.close()


class BusyConsumer:
    """A fake client of a log without transactions, to which records are appended before each request."""

    end = 0

    def get_watermark_offsets(self, partition: TopicPartition, timeout: float) -> tuple[int, int]:
        BusyConsumer.end += 1
        return 0, BusyConsumer.end


@pytest.mark.kafka
def test_appending_is_no_transaction(log: PartitionLog) -> None:
    committed_reader, uncommitted_reader = (cast(Consumer, BusyConsumer()) for _ in range(2))
    assert not log.has_open_transaction(committed_reader, uncommitted_reader, "commands")


@pytest.mark.kafka
def test_open_transaction_is_seen(log: PartitionLog) -> None:
    commands = TransactionalTopic(log.connection, log.topics.commands)
    committed_reader, uncommitted_reader = (
        consumer(log.connection),
        consumer(log.connection, isolation="read_uncommitted"),
    )
    assert not log.has_open_transaction(committed_reader, uncommitted_reader, "commands")
    commands.begin([b"open"])
    assert log.has_open_transaction(committed_reader, uncommitted_reader, "commands")
    committed_reader.close()
    uncommitted_reader.close()


@pytest.mark.kafka
def test_committed_position_is_found(log: PartitionLog) -> None:
    TransactionalTopic(log.connection, log.topics.commands)
    group = consumer(log.connection, group=log.topics.group)
    writer = FencedWriter(log, 1_000_000)
    writer.fence()
    writer.commit_position(group, 7, "claim")
    assert log.committed_position_by(group) == log.committed_position() == GroupCommit(7, "claim")
    group.close()


@pytest.mark.kafka
def test_deleted_start_is_unavailable(log: PartitionLog) -> None:
    TransactionalTopic(log.connection, log.topics.events).write([b"a"])
    with pytest.raises(UnavailableError, match="out of range"):
        list(log.read("events", 5, 9))


def test_fault_has_a_tail_command() -> None:
    log = PartitionLog(Connection("localhost:1"), Topics("bank", "test."), 3)
    fault = log.fault("dead-letters", 7, ValueError("not JSON"), "or do not")
    assert fault.message == "test.bank.dead-letters partition 3 offset 7: not JSON"
    assert fault.hint == "look at it: cqrs tail bank dead-letters --partition 3 --from 7 -n 1; or do not"
