"""A pooled client reads one range after another, without records of the previous range."""

from contextlib import suppress

import pytest
from confluent_kafka import KafkaError, KafkaException

from cqrs_cli.errors import ContradictionError
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.consumer_pool import ConsumerPool, pooled_consumer
from cqrs_cli.kafka.offsets import GroupCommit
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.readers import bounds, first_record, last_record, read
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.keyspace.lineage_log import read_lineage
from tests.support.transactional_topic import TransactionalTopic

pytestmark = pytest.mark.kafka


@pytest.fixture
def pool(connection: Connection) -> ConsumerPool:
    return ConsumerPool(connection, "some group")


def test_released_client_is_reused(pool: ConsumerPool) -> None:
    with pool.acquire() as first:
        pass
    with pool.acquire() as second, pool.acquire() as concurrent:
        assert second is first
        assert concurrent is not first
    pool.close()
    with pool.acquire() as new_client:
        assert new_client not in (first, concurrent)
    pool.close()


def test_isolation_levels_have_separate_clients(connection: Connection, pool: ConsumerPool) -> None:
    with (
        pooled_consumer(connection, pool, "read_uncommitted") as uncommitted_reader,
        pool.acquire() as committed_reader,
    ):
        assert uncommitted_reader is not committed_reader
    with pool.acquire() as committed_again, pool.acquire("read_uncommitted") as uncommitted_again:
        assert committed_again is committed_reader
        assert uncommitted_again is uncommitted_reader
    pool.close()


def test_each_read_of_a_log_uses_the_pool(connection: Connection, prefix: str) -> None:
    """A client outside the pool would not find a broker."""
    topics = Topics("bank", prefix)
    for topic in (topics.events, topics.commands, topics.lineage):
        TransactionalTopic(connection, topic).write([b"one"])
    pool, offline_connection = ConsumerPool(connection, topics.group), Connection("127.0.0.1:1")
    log = PartitionLog(offline_connection, topics, 0, pool=pool)
    assert log.bounds("events") == log.bounds("events", "read_uncommitted") == (0, 1)
    assert [record.value for records in log.read("events", 0, 1) for record in records] == [b"one"]
    assert log.offset_at("events", 0) == 0
    assert log.committed_position() == GroupCommit(None, "")
    with pytest.raises(ContradictionError, match="offset 0"):
        read_lineage(offline_connection, topics, 1, pool=pool)
    pool.close()


def test_failed_clients_are_not_reused(pool: ConsumerPool) -> None:
    with suppress(KafkaException), pool.acquire() as failed:
        raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))
    with pool.acquire() as another:
        assert another is not failed
    pool.close()


def test_reads_do_not_mix(connection: Connection, prefix: str, pool: ConsumerPool) -> None:
    """Each reading is interrupted with records on their way."""
    logs = [TransactionalTopic(connection, f"{prefix}{name}") for name in ("one", "two")]
    for log in logs:
        log.write(b"%s %d" % (log.topic.encode(), number) for number in range(1000))
    for log in [*logs, *logs]:
        assert bounds(connection, log.topic, [0], pool=pool)[0] == (0, 1000)
        first = first_record(connection, log.topic, 0, 0, 1000, pool)
        last = last_record(connection, log.topic, 0, 0, 1000, pool)
        batch = next(read(connection, log.topic, 0, 500, 1000, batch=10, pool=pool))
        records = [first, batch[0], last]
        assert [record and record.value for record in records] == [
            f"{log.topic} {number}".encode() for number in (0, 500, 999)
        ]
    pool.close()
