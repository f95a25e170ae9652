"""A batch and its position are committed completely or not at all."""

import os
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from cqrs_cli.core.context import Decisions, OutputRecord
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.outcome import DeadLetter
from cqrs_cli.kafka.clients import consumer, producer
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.offsets import GroupCommit, committed_offsets, committed_offsets_now
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.readers import bounds, read
from cqrs_cli.kafka.topics.topics import KINDS, Kind, Topics
from cqrs_cli.kafka.transactional import COORDINATOR_TIMEOUT
from cqrs_cli.kafka.write_errors import (
    BatchLateError,
    BatchRefusedError,
    UnreadRecordsError,
)
from cqrs_cli.kafka.writer import FencedWriter, WrittenEnds
from tests.support.batch_writing import commit_batch
from tests.support.raw_requests import raw_client
from tests.support.transactional_topic import TransactionalTopic

pytestmark = pytest.mark.kafka

#: Kafka's error code for a request of a fenced producer.
_PRODUCER_FENCED = 90


class Partition:
    """One partition of an aggregate's topics, and the group that reads the commands."""

    def __init__(self, connection: Connection, topics: Topics, group: Consumer) -> None:
        self.connection, self.topics, self.group = connection, topics, group

    def writer(self, **times: float) -> FencedWriter:
        writer = FencedWriter(PartitionLog(self.connection, self.topics, 0), 1_000_000, **times)
        writer.fence()
        return writer

    def reading_writer(self) -> FencedWriter:
        """Return a writer that has read the logs."""
        writer, log = self.writer(), PartitionLog(self.connection, self.topics, 0)
        writer.set_log_ends(log.bounds("events")[1], log.bounds("outcomes")[1], log.bounds("deferred")[1])
        return writer

    def write(self, writer: FencedWriter, text: str, letters: list[DeadLetter] | None = None) -> WrittenEnds:
        value = text.encode()
        piece = Decisions(0, [(value, b"k", 7)] * 2, [(value, b"k", 7)], letters or [])
        return commit_batch(writer, [piece], self.group, 1, text)

    def values(self, topic: str) -> list[bytes | None]:
        start, end = bounds(self.connection, topic, [0], "read_uncommitted")[0]
        return [record.value for records in read(self.connection, topic, 0, start, end) for record in records]

    def group_commit(self) -> GroupCommit:
        return committed_offsets(self.group, self.topics.commands, [0])[0]


@pytest.fixture
def partition(connection: Connection, prefix: str) -> Iterator[Partition]:
    topics = Topics("bank", prefix)
    for kind in KINDS:
        TransactionalTopic(connection, topics.name(kind))
    group = consumer(connection, group=topics.group)
    committed_offsets(
        group, topics.commands, [0]
    )  # as an owner does: librdkafka waits forever for a new coordinator
    yield Partition(connection, topics, group)
    group.close()


def letter(value: bytes) -> DeadLetter:
    return DeadLetter(value, b"k", 7, [("cqrs.reason", b"UNKNOWN_TYPE"), ("theirs", None)])


def test_batch_and_position_commit_together(partition: Partition) -> None:
    written = partition.write(partition.writer(), "one", [letter(b"raw")])
    assert written[:2] == (2, 1)
    assert partition.values(partition.topics.events) == [b"one", b"one"]
    assert partition.values(partition.topics.outcomes) == [b"one"]
    assert partition.group_commit() == GroupCommit(1, "one")
    (records,) = read(partition.connection, partition.topics.dead_letters, 0, 0, 1)
    assert records[0].headers == [("cqrs.reason", b"UNKNOWN_TYPE"), ("theirs", None)]
    (records, *_) = read(partition.connection, partition.topics.outcomes, 0, 0, 1)
    assert (records[0].timestamp, records[0].headers) == (7, HEADERS)


def test_commit_reports_each_logs_end(partition: Partition) -> None:
    writer = partition.writer()
    partition.write(writer, "one")
    written = commit_batch(writer, [Decisions(0, [], [(b"two", b"k", 7)])], partition.group, 2, "two")
    assert written.outcomes == 3  # after a marker
    assert written.events in (None, 2)  # a report may come late: positions are lower bounds


def test_position_may_be_left_out(partition: Partition) -> None:
    writer = partition.writer()
    partition.write(writer, "one")
    pieces = [Decisions(0, [], [(b"two", b"k", 7)])]
    written = commit_batch(writer, pieces, partition.group, 2, "two", is_position_due=False)
    assert written.outcomes == 3
    assert partition.values(partition.topics.outcomes) == [b"one", b"two"]
    assert partition.group_commit() == GroupCommit(1, "one")
    partition.write(writer, "three")
    assert partition.group_commit() == GroupCommit(1, "three")


@pytest.mark.covers("all-or-none")
@pytest.mark.parametrize("earlier_events", [0, 20, 100])
def test_refused_event_prevents_commit_without_position(partition: Partition, earlier_events: int) -> None:
    """librdkafka would commit without the refused record: only its delivery report shows that it is missing."""
    writer, refused = partition.writer(), (os.urandom(3_000_000), b"k", 7)
    events = [(os.urandom(5000), b"k", 7)] * earlier_events
    pieces = [Decisions(0, [*events, refused], [(b"one", b"k", 7)])]
    with pytest.raises(BatchRefusedError, match="too large"):
        commit_batch(writer, pieces, partition.group, 1, "one", is_position_due=False)
    partition.write(partition.writer(), "two")
    assert partition.values(partition.topics.outcomes) == [b"two"]


@pytest.mark.covers("all-or-none")
@pytest.mark.parametrize("later_events", [20, 400, 1000])
def test_later_portions_report_refused_event(partition: Partition, later_events: int) -> None:
    """After a record has failed, librdkafka refuses the next record with another error."""
    events: list[OutputRecord] = [
        (os.urandom(3_000_000), b"k", 7),
        *[(os.urandom(5000), b"k", 7)] * later_events,
    ]
    pieces = [Decisions(0, events, [(b"one", b"k", 7)])] * 2
    with pytest.raises(BatchRefusedError, match="too large"):
        commit_batch(partition.writer(), pieces, partition.group, 1, "one")
    partition.write(partition.writer(), "two")
    assert partition.values(partition.topics.outcomes)[-1:] == [b"two"]


@pytest.mark.covers("no-lost-update")
@pytest.mark.parametrize("kind", ["events", "outcomes"])
def test_unread_records_prevent_the_commit(partition: Partition, kind: Kind) -> None:
    """A batch is not committed if another record was appended to its log after the writer's read."""
    for first in (True, False):
        writer = partition.reading_writer()
        if not first:
            partition.write(writer, "one")
        before = partition.group_commit()
        foreign = producer(partition.connection)
        foreign.produce(partition.topics.name(kind), b"foreign", b"k", 0)
        foreign.flush()
        with pytest.raises(UnreadRecordsError, match=r"some of its records were not read"):
            partition.write(writer, "two")
        assert partition.group_commit() == before
    assert b"two" not in partition.values(partition.topics.outcomes)


@pytest.mark.parametrize("kind", ["events", "outcomes", "deferred"])
def test_probe_reveals_unread_records(partition: Partition, kind: Kind) -> None:
    writer = partition.reading_writer()
    foreign = producer(partition.connection)
    foreign.produce(partition.topics.name(kind), b"foreign", b"k", 0)
    foreign.flush()
    with pytest.raises(UnreadRecordsError):
        writer.prove_log_ends()


def test_probe_is_invisible(partition: Partition) -> None:
    """A log with a committed record of the writer needs no further probe."""
    writer = partition.reading_writer()
    for text in ("one", "two"):
        writer.prove_log_ends()
        partition.write(writer, text)
    assert partition.values(partition.topics.outcomes) == [b"one", b"two"]
    log = PartitionLog(partition.connection, partition.topics, 0)
    assert log.bounds("outcomes", "read_uncommitted")[1] == 6  # one probe, two outcomes, three markers


@pytest.mark.covers("all-or-none")
def test_unproducible_record_prevents_the_commit(partition: Partition) -> None:
    writer = partition.writer()
    with pytest.raises(BatchRefusedError):
        partition.write(writer, "one", [letter(bytes(65 * 1024 * 1024))])
    partition.write(partition.writer(), "two")
    assert partition.values(partition.topics.outcomes) == [b"two"]
    assert partition.group_commit() == GroupCommit(1, "two")


@pytest.mark.covers("all-or-none")
@pytest.mark.parametrize("later_letters", [0, 20, 100])
def test_refused_record_prevents_the_commit(partition: Partition, later_letters: int) -> None:
    writer = partition.writer()
    letters = [letter(os.urandom(3_000_000)), *[letter(os.urandom(5000))] * later_letters]
    with pytest.raises(BatchRefusedError, match="too large"):
        partition.write(writer, "one", letters)
    assert committed_offsets_now(partition.connection, partition.topics, [0])[0] == GroupCommit(
        None, ""
    )  # the transaction is still open
    partition.write(partition.writer(), "two")
    assert partition.values(partition.topics.events) == [b"two", b"two"]


def test_slow_producing_rejects_the_batch(partition: Partition) -> None:
    writer = partition.writer(produce_timeout=-1.0)
    letters = [letter(bytes(60 * 1024 * 1024))] * 6  # more than the queue holds
    with pytest.raises(BatchRefusedError):
        partition.write(writer, "one", letters)


def test_pieces_commit_together(partition: Partition) -> None:
    pieces = [Decisions(0, [], [(b"%d" % number, b"k", 7)]) for number in range(3)]
    commit_batch(partition.writer(), pieces, partition.group, 3, "three")
    assert partition.values(partition.topics.outcomes) == [b"0", b"1", b"2"]


def test_slow_deciding_rejects_the_batch(partition: Partition) -> None:
    """The first piece may take any time, because the transaction starts with it."""
    writer = partition.writer(timeout=2.0)

    def pieces() -> Iterator[Decisions]:
        yield Decisions(0, [], [(b"one", b"k", 7)])
        threading.Event().wait(1.1)
        yield Decisions(0, [], [(b"two", b"k", 7)])

    with pytest.raises(BatchLateError):
        commit_batch(writer, pieces(), partition.group, 2, "two")


@pytest.mark.covers("all-or-none")
def test_error_between_pieces_aborts(partition: Partition) -> None:
    """An error between two pieces aborts the transaction at once, so that readers need not wait for its timeout."""

    def pieces() -> Iterator[Decisions]:
        yield Decisions(0, [], [(b"lost", b"k", 7)])
        raise LookupError

    with pytest.raises(LookupError):
        commit_batch(partition.writer(), pieces(), partition.group, 1, "one")
    partition.write(partition.writer(), "two")
    assert partition.values(partition.topics.outcomes) == [b"two"]


@pytest.mark.covers("no-lost-update")
def test_fenced_writer_writes_nothing(partition: Partition) -> None:
    first = partition.writer()
    partition.write(first, "one")
    second = partition.writer()
    with pytest.raises(KafkaException):
        partition.write(first, "late")
    partition.write(second, "two")
    assert partition.values(partition.topics.outcomes) == [b"one", b"two"]
    assert partition.group_commit() == GroupCommit(1, "two")


@pytest.mark.covers("one-outcome")
def test_lost_broker_prevents_further_transactions(partition: Partition) -> None:
    """A writer that lost its broker begins no further transaction: only the next writer can resolve the open one."""
    writer = partition.writer()
    partition.write(writer, "one")
    writer._unreachable_errors.append(KafkaError(KafkaError._TRANSPORT, "Connect to it failed"))
    with pytest.raises(KafkaException, match="Connect to it failed"):
        partition.write(writer, "two")
    partition.write(partition.writer(), "three")
    assert partition.values(partition.topics.outcomes) == [b"one", b"three"]


def test_call_is_overdue_after_its_time(partition: Partition) -> None:
    writer, overdue_seconds = partition.writer(), list[float]()
    for timeout in (60.0, -1.0):
        writer._call(lambda: overdue_seconds.append(writer.overdue_seconds), timeout=timeout)
    assert overdue_seconds[0] == writer.overdue_seconds == 0.0
    assert overdue_seconds[1] >= 1.0


def test_commit_has_less_time_than_an_election(partition: Partition) -> None:
    """A call that must wait for an election may never return, or return long after the next fence."""
    writer, timeouts = partition.writer(), list[float]()
    fake_producer = SimpleNamespace(flush=lambda _: 0, commit_transaction=timeouts.append)
    fake_producer.send_offsets_to_transaction = lambda *arguments: timeouts.append(arguments[-1])
    writer._producer = cast(Producer, fake_producer)
    writer._finish(partition.group, writer.group_position(1, "one"))
    assert timeouts == [COORDINATOR_TIMEOUT, COORDINATOR_TIMEOUT]


def test_partitions_are_fenced_separately(partition: Partition) -> None:
    first = partition.writer()
    FencedWriter(PartitionLog(partition.connection, partition.topics, 1), 1_000_000).fence()
    partition.write(first, "one")
    assert partition.values(partition.topics.outcomes) == [b"one"]


@pytest.mark.covers("all-or-none")
def test_keys_commit_with_their_batch(partition: Partition) -> None:
    """A batch's data keys are committed with it, in the keys partition of the writer's partition."""
    keys = partition.topics.keys
    TransactionalTopic(partition.connection, keys, 2)
    for _ in range(2):
        with partition.writer().batch(partition.group) as batch:
            batch.write(Decisions(0, [], [(b"one", b"k", 7)]))
            batch._writer.append_keys(1, [(b"key", b"c-1"), (None, b"c-2")], 7)
            batch.set_position(1, "one")
    with pytest.raises(LookupError), partition.writer().batch(partition.group) as aborted_batch:
        aborted_batch.write(Decisions(0))
        aborted_batch._writer.append_keys(1, [(b"lost", b"c-1")])
        raise LookupError
    assert batch.written.keys == 5  # a marker follows the first two
    (records,) = read(partition.connection, keys, 1, 0, 5)
    assert [(record.key, record.value) for record in records] == [(b"c-1", b"key"), (b"c-2", None)] * 2
    assert records[0].headers == [("cqrs.command", b"7")]


@pytest.mark.covers("all-or-none")
def test_late_commit_request_ends_no_transaction(partition: Partition) -> None:
    """A delayed commit request of the previous writer does not commit half of this writer's transaction (KIP-890)."""
    partition.write(partition.writer(), "one")
    id = partition.topics.transactional_id(0)
    with raw_client(partition.connection) as client:
        previous_producer = client.writer(id)
        writer = partition.writer()
        with writer.batch(partition.group) as batch:
            batch.write(Decisions(0, [(b"two", b"k", 7)], [(b"two", b"k", 7)]))
            assert writer._producer.flush(10) == 0
            assert client.state(id) == "Ongoing"
            assert client.end_transaction(id, previous_producer, commit=True) == _PRODUCER_FENCED
            assert partition.group_commit() == GroupCommit(1, "one")
            batch.set_position(2, "two")
    assert partition.values(partition.topics.outcomes) == [b"one", b"two"]
    assert partition.group_commit() == GroupCommit(2, "two")
