"""Checks that the current code can read the events of the log: each event has a class or an upcaster."""

from collections.abc import Iterator

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.fold import FoldError, decode_event
from cqrs_cli.core.messages.event import read_event
from cqrs_cli.core.messages.record import Record
from cqrs_cli.doctor.check import Check, fail, ok
from cqrs_cli.errors import ContradictionError
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.ownership.complete_events import complete_bounds

#: Offsets to read at each end of a partition: retired event types are among the oldest events, events of a wrong
#: deployment among the newest.
SAMPLE_OFFSETS = 2000


def check_events(connection: Connection, aggregate: Aggregate, topics: Topics) -> Iterator[Check]:
    """Check that the code reads the oldest and newest events of each partition; report each unreadable type once."""
    count = readers.partition_count(connection, topics.events)
    checked_offsets, total_offsets = 0, 0
    #: event type → the location of its first unreadable event, and the reason
    unreadable_types: dict[str, str] = {}
    try:
        bounds = complete_bounds(connection, topics, range(count))
    except ContradictionError as error:
        yield fail("events", error)
        return
    for partition, (start, end) in bounds.items():
        total_offsets += end - start
        for sample_start, sample_end in _sample_ranges(start, end):
            log = PartitionLog(connection, topics, partition, connection.payload_codec())
            checked_offsets += sample_end - sample_start
            for records in log.events(sample_start, sample_end):
                for record in records:
                    _check_event(
                        aggregate, f"{topics.events}:{partition}@{record.offset}", record, unreadable_types
                    )
    yield from (fail("events", unreadable_error(problem)) for problem in unreadable_types.values())
    if not unreadable_types:
        remaining_text = "" if checked_offsets >= total_offsets else "; cqrs check --log checks all events"
        yield ok("events", f"{aggregate.name}: the code reads the oldest and newest events{remaining_text}")


def _sample_ranges(start: int, end: int) -> list[tuple[int, int]]:
    """Return the ranges with the first and the last `SAMPLE_OFFSETS` offsets, or one range with all offsets."""
    if end - start <= 2 * SAMPLE_OFFSETS:
        return [(start, end)]
    return [(start, start + SAMPLE_OFFSETS), (end - SAMPLE_OFFSETS, end)]


def _check_event(
    aggregate: Aggregate, position: str, record: Record, unreadable_types: dict[str, str]
) -> None:
    try:
        event = read_event(record.value)
    except ValueError as error:
        unreadable_types.setdefault("", f"{position} is not an event: {error}")
        return
    try:
        decode_event(aggregate, event)
    except FoldError as error:
        unreadable_types.setdefault(event.type, f"{position}: {error}")


def unreadable_error(problem: str) -> ContradictionError:
    """Return the error with which `cqrs run` would exit."""
    return ContradictionError(
        problem, "cqrs run stops there: keep the class, or write Decider(…, upcasters={…})"
    )
