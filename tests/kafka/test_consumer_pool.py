"""A pooled client reads one range after another, without records of the previous range."""

from contextlib import suppress

import pytest
from confluent_kafka import KafkaError, KafkaException

from cqrs_cli.errors import ContradictionError
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.consumer_pool import ConsumerPool, pooled_consumer
from cqrs_cli.kafka.lineage_log import read_lineage
from cqrs_cli.kafka.offsets import GroupCommit
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.readers import bounds, first_record, last_record, read
from cqrs_cli.kafka.topics.topics import Topics
from tests.support.transactional_topic import TransactionalTopic

pytestmark = pytest.mark.kafka


@pytest.fixture
def lender(connection: Connection) -> ConsumerPool:
    return ConsumerPool(connection, "some group")


def test_next_reading_takes_the_same(lender: ConsumerPool) -> None:
    with lender.acquire() as first:
        pass
    with lender.acquire() as second, lender.acquire() as within:
        assert second is first
        assert within is not first
    lender.close()
    with lender.acquire() as later:
        assert later not in (first, within)
    lender.close()


def test_uncommitted_is_read_by_its_own(connection: Connection, lender: ConsumerPool) -> None:
    with pooled_consumer(connection, lender, "read_uncommitted") as any, lender.acquire() as lent:
        assert any is not lent
    with lender.acquire() as again, lender.acquire("read_uncommitted") as any_again:
        assert again is lent
        assert any_again is any
    lender.close()


def test_each_reading_of_a_log_borrows(connection: Connection, prefix: str) -> None:
    """A client outside the pool would not find a broker."""
    topics = Topics("bank", prefix)
    for topic in (topics.events, topics.commands, topics.lineage):
        TransactionalTopic(connection, topic).write([b"one"])
    lender, offline = ConsumerPool(connection, topics.group), Connection("127.0.0.1:1")
    log = PartitionLog(offline, topics, 0, pool=lender)
    assert log.bounds("events") == log.bounds("events", "read_uncommitted") == (0, 1)
    assert [one.value for some in log.read("events", 0, 1) for one in some] == [b"one"]
    assert log.offset_at("events", 0) == 0
    assert log.committed_position() == GroupCommit(None, "")
    with pytest.raises(ContradictionError, match="offset 0"):
        read_lineage(offline, topics, 1, pool=lender)
    lender.close()


def test_failed_ones_are_not_lent(lender: ConsumerPool) -> None:
    with suppress(KafkaException), lender.acquire() as failed:
        raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))
    with lender.acquire() as another:
        assert another is not failed
    lender.close()


def test_readings_do_not_mix(connection: Connection, prefix: str, lender: ConsumerPool) -> None:
    """Each reading is interrupted with records on their way."""
    logs = [TransactionalTopic(connection, f"{prefix}{name}") for name in ("one", "two")]
    for log in logs:
        log.write(b"%s %d" % (log.topic.encode(), n) for n in range(1000))
    for log in [*logs, *logs]:
        assert bounds(connection, log.topic, [0], pool=lender)[0] == (0, 1000)
        first = first_record(connection, log.topic, 0, 0, 1000, lender)
        last = last_record(connection, log.topic, 0, 0, 1000, lender)
        some = next(read(connection, log.topic, 0, 500, 1000, batch=10, pool=lender))
        found = [first, some[0], last]
        assert [one and one.value for one in found] == [f"{log.topic} {n}".encode() for n in (0, 500, 999)]
    lender.close()
