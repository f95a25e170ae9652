"""Counts of the records of one aggregate with personal fields, before and after it is erased."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field

from cqrs_cli.client.history import find_ranges
from cqrs_cli.client.queries.deferred import deferred_commands
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.erased import ERASED, read_erased
from cqrs_cli.core.messages.event import EventEnvelope, read_event
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.personal.encrypted_data import personal_values
from cqrs_cli.core.personal.encryption import is_encrypted
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.fault import record_fault
from cqrs_cli.kafka.keys_log import KafkaKeysLog
from cqrs_cli.kafka.topics.partitioner import Partitioner
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.keys.partition_keys import PartitionKeys


@dataclass
class PersonalRecords:
    """Counts of the records of one aggregate. `unencrypted`: events with a personal value that is not encrypted."""

    events: int = 0
    unencrypted: int = 0
    deferred: int = 0
    dead_letters: int = 0
    commands: int = 0
    erased_keys: dict[str, str] = field(
        default_factory=dict
    )  # id of the erase command → id of the deleted data key


def personal_records(
    connection: Connection, topics: Topics, aggregate: Aggregate, aggregate_id: str, partitioner: Partitioner
) -> PersonalRecords:
    """Count the records of an aggregate in all partitions of its segments.

    Raises `ContradictionError` for an event that cannot be read.
    """
    key = aggregate_id.encode(errors="surrogateescape")
    partitions = [segment.partition for segment in find_ranges(connection, topics, key, partitioner)]
    counts, codec = PersonalRecords(), connection.payload_codec()
    for partition, record in _of_key(connection, topics.events, key, partitions):
        (decoded,), _ = codec.decode(topics.events, partition, [record])
        try:
            _count(counts, aggregate, read_event(decoded.value))
        except ValueError as error:  # msgspec's errors are ValueErrors
            segment = (topics.events, partition, record.offset)
            raise record_fault(topics.aggregate, "events", *segment, error) from error
    counts.commands = sum(1 for _ in _of_key(connection, topics.commands, key, partitions))
    counts.dead_letters = sum(1 for _ in _of_key(connection, topics.dead_letters, key, partitions))
    mine = deferred_commands(connection, topics, partitioner, lambda entry: entry.subject == aggregate_id)
    counts.deferred = len(mine)
    return counts


def present_key(
    connection: Connection, topics: Topics, aggregate_id: str, partitioner: Partitioner
) -> str | None:
    """Return the id of the aggregate's data key; None if it has no key. Needs no keyring."""
    key = aggregate_id.encode(errors="surrogateescape")
    with closing(KafkaKeysLog(connection, topics)) as log:
        count = log.partition_count()
        ranges = find_ranges(connection, topics, key, partitioner)
        for partition in {place.partition % count for place in ranges}:
            keys = PartitionKeys(log, partition, aggregate_id)
            keys.read_to_end()
            if (wrapped := keys.wrapped(aggregate_id)) is not None:
                return wrapped.kid
    return None


def _count(found: PersonalRecords, aggregate: Aggregate, event: EventEnvelope) -> None:
    """Count an event. It is plain if it was written before its fields were annotated as personal."""
    found.events += 1
    if event.type == ERASED:
        found.erased_keys[event.causationid] = read_erased(event.data).key
    cls = aggregate.events.get(event.type)
    values = {} if cls is None else personal_values(cls, bytes(event.data))
    found.unencrypted += not all(map(is_encrypted, values.values()))


def _of_key(
    connection: Connection, topic: str, key: bytes, partitions: list[int]
) -> Iterator[tuple[int, Record]]:
    for partition, (start, end) in readers.bounds(connection, topic, partitions).items():
        for records in readers.read(connection, topic, partition, start, end):
            yield from ((partition, record) for record in records if record.key == key)
