"""Stretches of a log end where they should, whatever holes are in them."""

import pytest

from cqrs_cli.core.messages.record import Record
from cqrs_cli.errors import ConfigurationError, UnavailableError
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.clients import consumer
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.readers import StalledError, bounds, last_record, offset_at, partitions, read, read_with
from tests.support.stretch import Stretch

pytestmark = pytest.mark.kafka


@pytest.fixture
def log(connection: Connection, prefix: str) -> Stretch:
    return Stretch(connection, f"{prefix}log")


def values(log: Stretch, start: int = 0, end: int | None = None, batch: int = 10_000) -> list[bytes | None]:
    if end is None:
        end = bounds(log.connection, log.topic, [0], "read_uncommitted")[0][1]
    return [
        r.value for records in read(log.connection, log.topic, 0, start, end, batch=batch) for r in records
    ]


def last(log: Stretch) -> bytes | None:
    record = last_record(
        log.connection, log.topic, 0, *bounds(log.connection, log.topic, [0], "read_uncommitted")[0], 0.5
    )
    return record.value if record else None


def test_everything_up_to_the_end_is_read_and_no_more(log: Stretch) -> None:
    log.write(b"%d" % n for n in range(100))
    assert values(log) == [b"%d" % n for n in range(100)]
    assert values(log, 10, 20) == [b"%d" % n for n in range(10, 20)]
    assert values(log, 5, 5) == values(log, 7, 5) == []


def test_batches_are_no_larger_than_asked_for(log: Stretch) -> None:
    log.write(b"%d" % n for n in range(50))
    batches = list(read(log.connection, log.topic, 0, 0, 50, batch=7))
    assert max(map(len, batches)) <= 7 and sum(map(len, batches)) == 50


def test_a_record_is_given_as_it_was_written(log: Stretch) -> None:
    log.write([b"value"], timestamp=1_763_686_923_456)
    ((record,),) = read(log.connection, log.topic, 0, 0, 1)
    assert record == Record(0, 1_763_686_923_456, b"k", b"value", [("h", b"v")])


def test_aborted_records_and_markers_are_passed_over(log: Stretch) -> None:
    log.commit([b"a"])
    log.abort([b"never", b"never"])
    log.commit([b"b"])
    log.abort([b"never"])
    assert values(log) == [b"a", b"b"]
    assert bounds(log.connection, log.topic, [0])[0] == (0, 9)  # markers have been read, so they are stable


def test_a_stretch_of_nothing_but_holes_ends(log: Stretch) -> None:
    log.abort([b"never"] * 5)
    assert values(log, 0, 6) == []


def test_an_open_transaction_ends_what_is_committed_and_not_what_is_there(log: Stretch) -> None:
    log.write([b"a"])
    log.begin([b"open"])
    assert bounds(log.connection, log.topic, [0])[0] == (0, 1)
    assert bounds(log.connection, log.topic, [0], "read_uncommitted")[0] == (0, 2)


def test_what_an_open_transaction_hides_is_not_taken_for_the_end(log: Stretch) -> None:
    log.begin([b"open"])
    reader = consumer(log.connection)
    with pytest.raises(StalledError, match="nothing to read at offset 0, though the log ends at 1"):
        list(read_with(log.connection, reader, log.topic, 0, 0, 1, patience=0.3))
    reader.close()


def test_the_last_record_is_found_behind_holes_longer_than_a_stride(log: Stretch) -> None:
    assert last(log) is None
    log.commit([b"a", b"b"])
    assert last(log) == b"b"
    log.abort([b"never"] * 40)
    assert last(log) == b"b"


def test_there_is_no_last_record_while_a_later_one_may_be_hidden(log: Stretch) -> None:
    log.commit([b"a"])
    log.begin([b"open"])
    with pytest.raises(StalledError):
        last(log)


def test_a_moment_leads_to_the_first_record_not_older(log: Stretch) -> None:
    for timestamp in (1000, 2000, 3000):
        log.write([b"x"], timestamp=timestamp)
    assert [offset_at(log.connection, log.topic, 0, t) for t in (0, 1000, 1001, 3000)] == [0, 0, 1, 2]
    assert offset_at(log.connection, log.topic, 0, 3001) is None


def test_partitions_are_counted_and_a_missing_topic_is_told(connection: Connection, log: Stretch) -> None:
    assert partitions(connection, log.topic) == 1
    with pytest.raises(ConfigurationError, match="does not exist"):
        partitions(connection, f"{log.topic}.missing")


def test_a_start_that_was_deleted_is_an_error_not_a_jump(log: Stretch) -> None:
    log.write([b"a"])
    with pytest.raises(UnavailableError, match="out of range"):
        values(log, 5, 9)


def test_a_broker_that_is_not_there_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "REQUEST_TIMEOUT", 0.5)
    for ask in (partitions, lambda connection, topic: bounds(connection, topic, [0])):
        with pytest.raises(UnavailableError, match=r"no answer from Kafka at 127\.0\.0\.1:1"):
            ask(Connection("127.0.0.1:1"), "any")
