"""Reads of an offset range end at its end, even with gaps in the range."""

from contextlib import closing
from typing import cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.record import UNREADABLE_HEADERS, Record
from cqrs_cli.errors import ConfigurationError, UnavailableError
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.clients import Isolation, consumer
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.range_reader import read_ranges
from cqrs_cli.kafka.readers import (
    MissingPartitionError,
    StalledError,
    all_ends,
    all_watermarks,
    bounds,
    last_record,
    offset_at,
    partition_count,
    read,
    read_with,
    watermarks,
)
from tests.support.raw_requests import raw_client
from tests.support.short_timeouts import short_read_timeout
from tests.support.transactional_topic import TransactionalTopic

pytestmark = pytest.mark.kafka


@pytest.fixture
def log(connection: Connection, prefix: str) -> TransactionalTopic:
    return TransactionalTopic(connection, f"{prefix}log")


def values(
    log: TransactionalTopic, start: int = 0, end: int | None = None, batch: int = 10_000
) -> list[bytes | None]:
    if end is None:
        end = bounds(log.connection, log.topic, [0], "read_uncommitted")[0][1]
    return [
        record.value
        for records in read(log.connection, log.topic, 0, start, end, batch=batch)
        for record in records
    ]


def last_value(log: TransactionalTopic) -> bytes | None:
    start, end = bounds(log.connection, log.topic, [0], "read_uncommitted")[0]
    record = last_record(log.connection, log.topic, 0, start, end)
    return record.value if record else None


def test_reading_stops_at_the_end(log: TransactionalTopic) -> None:
    log.write(b"%d" % n for n in range(100))
    assert values(log) == [b"%d" % n for n in range(100)]
    assert values(log, 10, 20) == [b"%d" % n for n in range(10, 20)]
    assert values(log, 5, 5) == values(log, 7, 5) == []


def test_consumer_stops_fetching_after_a_read(log: TransactionalTopic) -> None:
    """An assigned consumer would send hundreds of requests a second, although its caller reads nothing."""
    log.write([b"1", b"2"])
    with closing(consumer(log.connection)) as reader:
        batches = read_with(log.connection, reader, log.topic, 0, 0, 2, batch=1)
        next(batches)
        assert reader.assignment() == [TopicPartition(log.topic, 0)]
        list(batches)
        assert reader.assignment() == []


def test_batches_respect_their_limit(log: TransactionalTopic) -> None:
    log.write(b"%d" % n for n in range(50))
    batches = list(read(log.connection, log.topic, 0, 0, 50, batch=7))
    assert max(map(len, batches)) <= 7 and sum(map(len, batches)) == 50


def test_record_is_read_as_written(log: TransactionalTopic) -> None:
    log.write([b"value"], timestamp=1_763_686_923_456)
    ((record,),) = read(log.connection, log.topic, 0, 0, 1)
    assert record == Record(0, 1_763_686_923_456, b"k", b"value", [("h", b"v")])


def test_undecodable_header_names_are_isolated(log: TransactionalTopic) -> None:
    """The undecodable names are the first, the last, and two in a row. The other headers are kept."""
    names = [b"\xff", b"a", b"\xff", b"\xff", b"b", b"\xff"]
    with raw_client(log.connection) as requests:
        for name in names:
            assert requests.append(log.topic, 0, b"k", b"value", name) == 0
    (records,) = read(log.connection, log.topic, 0, 0, len(names))
    assert [record.headers for record in records] == [
        UNREADABLE_HEADERS if name == b"\xff" else [*HEADERS, (name.decode(), b"v")] for name in names
    ]


def test_aborted_records_are_skipped(log: TransactionalTopic) -> None:
    log.commit([b"a"])
    log.abort([b"never", b"never"])
    log.commit([b"b"])
    log.abort([b"never"])
    assert values(log) == [b"a", b"b"]
    assert bounds(log.connection, log.topic, [0])[0] == (0, 9)  # markers have been read, so they are stable


def test_range_of_aborted_records_ends(log: TransactionalTopic) -> None:
    log.abort([b"never"] * 5)
    assert values(log, 0, 6) == []


def test_open_transaction_limits_committed_end(log: TransactionalTopic) -> None:
    log.write([b"a"])
    log.begin([b"open"])
    assert bounds(log.connection, log.topic, [0])[0] == (0, 1)
    assert bounds(log.connection, log.topic, [0], "read_uncommitted")[0] == (0, 2)


def test_hidden_records_stall_reading(log: TransactionalTopic) -> None:
    log.begin([b"open"])
    reader = consumer(log.connection)
    with pytest.raises(StalledError, match="no record is visible at offset 0, but the log ends at 1"):
        list(read_with(log.connection, reader, log.topic, 0, 0, 1, timeout=0.3))
    reader.close()


def test_last_record_is_before_aborted_records(log: TransactionalTopic) -> None:
    assert last_value(log) is None
    log.commit([b"a", b"b"])
    assert last_value(log) == b"b"
    log.abort([b"never"] * 40)
    assert last_value(log) == b"b"


def test_hidden_last_record_stalls(log: TransactionalTopic) -> None:
    log.commit([b"a"])
    log.begin([b"open"])
    with short_read_timeout(), pytest.raises(StalledError):
        last_value(log)


def test_time_finds_first_later_record(log: TransactionalTopic) -> None:
    for timestamp in (1000, 2000, 3000):
        log.write([b"x"], timestamp=timestamp)
    assert [offset_at(log.connection, log.topic, 0, t) for t in (0, 1000, 1001, 3000)] == [0, 0, 1, 2]
    assert offset_at(log.connection, log.topic, 0, 3001) is None


def test_missing_topic_has_no_partitions(connection: Connection, log: TransactionalTopic) -> None:
    assert partition_count(connection, log.topic) == 1
    with pytest.raises(ConfigurationError, match="does not exist"):
        partition_count(connection, f"{log.topic}.missing")


def test_deleted_start_is_an_error(log: TransactionalTopic) -> None:
    log.write([b"a"])
    with pytest.raises(UnavailableError, match="out of range"):
        values(log, 5, 9)


def test_lost_leader_is_looked_up_again() -> None:
    """The client would repeatedly ask the old leader until its timeout."""

    class LostLeader:
        knows = True

        def get_watermark_offsets(self, partition: TopicPartition, timeout: float) -> tuple[int, int]:
            if self.knows:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            return 3, 7

        def list_topics(self, topic: str, timeout: float) -> None:
            self.knows = False

    assert watermarks(cast(Consumer, LostLeader()), "log", 0) == (3, 7)


def test_absent_broker_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "REQUEST_TIMEOUT", 0.5)
    for request in (partition_count, lambda connection, topic: bounds(connection, topic, [0])):
        with pytest.raises(UnavailableError, match=r"no answer from Kafka at 127\.0\.0\.1:1"):
            request(Connection("127.0.0.1:1"), "any")


@pytest.mark.parametrize(("isolation", "end"), [("read_committed", 2), ("read_uncommitted", 3)])
def test_many_watermarks_equal_single_ones(log: TransactionalTopic, isolation: Isolation, end: int) -> None:
    log.write([b"a", b"b"])
    log.begin([b"open"])
    with closing(consumer(log.connection, isolation=isolation)) as reader:
        assert (
            all_watermarks(reader, log.topic, [0]) == {0: watermarks(reader, log.topic, 0)} == {0: (0, end)}
        )
        assert all_ends(reader, log.topic, [0]) == {0: end}


def test_missing_partition_among_many_is_an_error(log: TransactionalTopic) -> None:
    with closing(consumer(log.connection)) as reader, pytest.raises(MissingPartitionError):
        all_ends(reader, log.topic, [0, 7])


def test_ranges_are_read_up_to_their_ends(log: TransactionalTopic) -> None:
    log.write([b"a", b"b", b"c"])
    log.begin([b"open"])
    with closing(consumer(log.connection)) as reader:
        for bounds_to_read, values in (((1, 3), [b"b", b"c"]), ((0, 2), [b"a", b"b"]), ((2, 2), [])):
            records = read_ranges(log.connection, reader, log.topic, {0: bounds_to_read})
            assert [record.value for record in records[0]] == values
        with pytest.raises(StalledError, match="no record is visible"):
            read_ranges(log.connection, reader, log.topic, {0: (0, 5)}, timeout=0.5)
