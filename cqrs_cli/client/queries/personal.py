"""Counts the records of one aggregate whose type has personal fields, before and after an erasure."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field

from cqrs_cli.client.aggregate_logs import find_ranges
from cqrs_cli.client.codecs import decrypting_codec
from cqrs_cli.client.queries.deferred import deferred_commands
from cqrs_cli.codec.ciphertext import plain_fields
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.erased import ERASED, read_erased
from cqrs_cli.core.messages.event import EventEnvelope, read_event
from cqrs_cli.core.messages.record import Record
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.fault import record_fault
from cqrs_cli.kafka.topics.partitioner import Partitioner
from cqrs_cli.kafka.topics.topics import Topics


@dataclass
class PersonalRecordCounts:
    """The number of records of one aggregate in each topic. `deferred`: the number of its deferred commands."""

    events: int = 0
    unencrypted: int = 0  # number of events with a personal value that is not encrypted
    deferred: int = 0
    dead_letters: int = 0
    commands: int = 0
    #: Id of the erase command → id of the deleted data key.
    erased_keys: dict[str, str] = field(default_factory=dict)


def personal_records(
    connection: Connection, topics: Topics, aggregate: Aggregate, aggregate_id: str, partitioner: Partitioner
) -> PersonalRecordCounts:
    """Count the records of an aggregate in all partitions that may hold its events.

    Raises `ContradictionError` for an event that cannot be read.
    """
    key = aggregate_id.encode(errors="surrogateescape")
    partitions = [log_range.partition for log_range in find_ranges(connection, topics, key, partitioner)]
    counts, codec = PersonalRecordCounts(), connection.payload_codec()
    for partition, record in _records_of_key(connection, topics.events, key, partitions):
        (decoded,), _ = codec.decode(topics.events, partition, [record])
        try:
            _count_event(counts, aggregate, read_event(decoded.value))
        except ValueError as error:  # msgspec's errors are ValueErrors
            raise record_fault(
                topics.aggregate, "events", topics.events, partition, record.offset, error
            ) from error
    counts.commands = sum(1 for _ in _records_of_key(connection, topics.commands, key, partitions))
    counts.dead_letters = sum(1 for _ in _records_of_key(connection, topics.dead_letters, key, partitions))
    deferred = deferred_commands(connection, topics, partitioner, lambda entry: entry.subject == aggregate_id)
    counts.deferred = len(deferred)
    return counts


def current_key_id(
    connection: Connection, topics: Topics, aggregate: Aggregate, aggregate_id: str, partitioner: Partitioner
) -> str | None:
    """Return the id of the aggregate's current data key; None if it has no key. No keyring is needed."""
    key = aggregate_id.encode(errors="surrogateescape")
    ranges = find_ranges(connection, topics, key, partitioner)
    with closing(decrypting_codec(connection, topics, aggregate, aggregate_id)) as codec:
        kids = (codec.current_key_id(log_range.partition, aggregate_id) for log_range in ranges)
        return next(filter(None, kids), None)


def _count_event(counts: PersonalRecordCounts, aggregate: Aggregate, event: EventEnvelope) -> None:
    """Add an event to `counts`. Events that were written before their fields were annotated as personal are not
    encrypted.
    """
    counts.events += 1
    if event.type == ERASED:
        counts.erased_keys[event.causationid] = read_erased(event.data).key
    counts.unencrypted += bool(plain_fields(aggregate.events.get(event.type), bytes(event.data)).names)


def _records_of_key(
    connection: Connection, topic: str, key: bytes, partitions: list[int]
) -> Iterator[tuple[int, Record]]:
    for partition, (start, end) in readers.bounds(connection, topic, partitions).items():
        for records in readers.read(connection, topic, partition, start, end):
            yield from ((partition, record) for record in records if record.key == key)
