"""The history of one aggregate: folds its events, without Spark, to the state at a version or a time."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from cqrs_cli.codec.record_codec import RecordCodec
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import State
from cqrs_cli.core.fold import FoldError, VersionedState, fold_event
from cqrs_cli.core.messages.event import EventEnvelope, read_event
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.errors import UsageError
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.fault import record_fault
from cqrs_cli.kafka.topics.partitioner import Partitioner
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.keyspace.key_space import KeySpace, visible_key_space
from cqrs_cli.ownership.complete_events import complete_bounds
from cqrs_cli.settings.moments import parse_moment

#: Returns True if a state of the aggregate is at or before the requested version or time.
StateFilter = Callable[[VersionedState], bool]


#: Number of digits of the largest version, a signed number of 64 bits. A text is checked against it before `int`, which
#: raises an error for thousands of digits.
_MAX_VERSION_DIGITS = 19


class LogRange(NamedTuple):
    """A range of records in a partition of the events topic: start ≤ offset < end."""

    topic: str
    partition: int
    start: int
    end: int


class AggregateHistory(NamedTuple):
    """An aggregate at one version, and its events so far. Without events: version 0, the initial state, no time."""

    version: int
    state: State
    time: str | None
    events: list[EventEnvelope]


def history_document(
    aggregate: str, aggregate_id: str, history: AggregateHistory, *, events: bool
) -> dict[str, Any]:
    """Return an aggregate as a JSON document. `events`: True to include its events."""
    document = {
        "aggregate": aggregate,
        "id": aggregate_id,
        "version": history.version,
        "state": history.state,
        "time": history.time,
    }
    if events:
        document["history"] = [_event_document(event) for event in history.events]
    return document


def _event_document(event: EventEnvelope) -> dict[str, Any]:
    return {
        "version": event.aggregateversion,
        "time": event.time,
        "type": event.type,
        "data": event.data,
        "id": event.id,
        "causationid": event.causationid,
        "correlationid": event.correlationid,
        **event.propagated(),
    }


def parse_at(text: str | None) -> StateFilter:
    """Return the filter of `--at`: `7` admits versions up to 7, a time the versions up to that time, None all versions.

    Raises `UsageError` for other texts.
    """
    if text is None:
        return lambda state: True
    if text.isascii() and text.isdigit():
        if len(text) > _MAX_VERSION_DIGITS:
            raise UsageError(
                f"--at: no aggregate has a version of {len(text)} digits", "give a smaller version"
            )
        version = int(text)
        return lambda state: state.version <= version
    try:
        latest_time = rfc3339(parse_moment(text))
    except ValueError as error:
        raise UsageError(f"--at: {error}", "give a version or a time") from None
    return lambda state: state.time <= latest_time


def find_ranges(
    connection: Connection,
    topics: Topics,
    key: bytes,
    partitioner: Partitioner,
    positions: Mapping[int, int] | None = None,
) -> list[LogRange]:
    """Return the ranges that may hold this key's committed events, in the order of the events.

    `positions`: partition → the offset at which its range ends; by default the end of the log. Raises `UsageError` for
    positions outside the log, `ContradictionError` if events were deleted.
    """
    _, bounds = find_events(connection, topics, partitioner, positions, key)
    return [LogRange(topics.events, partition, start, end) for partition, (start, end) in bounds.items()]


def find_events(
    connection: Connection,
    topics: Topics,
    partitioner: Partitioner,
    positions: Mapping[int, int] | None = None,
    key: bytes | None = None,
) -> tuple[KeySpace, dict[int, tuple[int, int]]]:
    """Return the key space of an aggregate, and partition → (start, end) of its committed events.

    With `key`, only the partitions that may hold this key's events are returned, in the order of the events.
    `positions` and the errors are as in `find_ranges`.
    """
    count = readers.partition_count(connection, topics.events)
    key_space = visible_key_space(connection, topics, partitioner, count).as_of(positions)
    partitions = key_space.partitions if key is None else key_space.partitions_with(key)
    bounds = complete_bounds(connection, topics, partitions)
    return key_space, bounds if positions is None else bounds_until(topics.events, bounds, positions)


def bounds_until(
    topic: str, bounds: Mapping[int, tuple[int, int]], positions: Mapping[int, int]
) -> dict[int, tuple[int, int]]:
    """Return the bounds of partitions (partition → start, end), with the end from `positions` (partition → offset).

    Raises `UsageError` for a position outside the log, and for a partition without a position.
    """
    result = {}
    for partition, (start, end) in bounds.items():
        if (position := positions.get(partition)) is None:
            raise UsageError(
                f"there is no offset for {topic} partition {partition}", "give one for each partition"
            )
        if not start <= position <= end:
            raise UsageError(
                f"{topic} partition {partition} has no offset {position}: it reaches from {start} to {end}",
                "give the offsets of this topic",
            )
        result[partition] = start, position
    return result


def read_records(
    connection: Connection,
    key: bytes,
    ranges: Iterable[LogRange],
    codec: RecordCodec | None = None,
    raise_if_cancelled: Callable[[], None] = lambda: None,
) -> Iterator[tuple[LogRange, Record]]:
    """Yield the events with this key, each with its range, in the order of the log. `codec` decodes them; by default,
    personal fields stay encrypted. `raise_if_cancelled` is called for each batch; its error cancels the read.

    Raises `ContradictionError` after the last event if the aggregate's data key was lost.
    """

    def select_own(records: list[Record]) -> list[Record]:
        raise_if_cancelled()
        return [record for record in records if record.key == key]

    codec = codec or connection.payload_codec()
    for log_range in ranges:
        own_records = map(select_own, readers.read(connection, *log_range))
        for records in codec.decode_batches(log_range.topic, log_range.partition, own_records):
            for record in records:
                yield log_range, record
    codec.check_no_lost_keys()


def fold_history(
    aggregate: Aggregate,
    records: Iterable[tuple[LogRange, Record]],
    is_included: StateFilter,
    *,
    events: bool = True,
) -> AggregateHistory:
    """Fold the events of one aggregate; return the last state for which `is_included` is True, and its events.

    `events`: False to return no events. Raises `ContradictionError` with the position of an invalid event.
    """
    latest_state: VersionedState | None = None
    selected_state: VersionedState | None = None
    event_list: list[EventEnvelope] = []
    for log_range, record in records:
        try:
            event = read_event(record.value)
            next_state = fold_event(aggregate, latest_state, event)
        except (FoldError, ValueError) as error:
            raise record_fault(
                aggregate.name, "events", log_range.topic, log_range.partition, record.offset, error
            ) from error
        if next_state is not latest_state:
            latest_state = next_state
            if events:
                event_list.append(event)
            if is_included(latest_state):
                selected_state = latest_state
    if selected_state is None:
        return AggregateHistory(0, aggregate.decider.initial, None, [])
    return AggregateHistory(
        selected_state.version,
        selected_state.state,
        selected_state.time,
        event_list[: selected_state.version],
    )
