"""Find all messages of a correlation or a command, in all topics of several aggregates, since a given time."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import NamedTuple

from cqrs_cli.client.queries.messages import LinkedMessage, message_reader
from cqrs_cli.codec.record_codec import RecordCodec
from cqrs_cli.errors import ConfigurationError
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.topics import KINDS, Kind, Topics

#: Partitions that are read concurrently.
MAX_READERS = 8

#: The maximal number of passes over the topics. The first pass finds the correlation of a command, the second pass
#: finds all messages with this correlation. A third pass is needed only if these have further correlations.
MAX_PASSES = 3

#: The maximal number of an aggregate's correlations to follow. With more, only the aggregate's own messages are shown.
MAX_CORRELATIONS = 50


class TraceResult(NamedTuple):
    """The messages that were found, the aggregates that were searched or missing, and the number of records read.

    `of_aggregate`: no command and no correlation has the id, so the id was taken as an aggregate id.
    `skipped_correlations`: the number of the aggregate's correlations if it exceeds `MAX_CORRELATIONS`, else 0.
    """

    messages: list[LinkedMessage]
    searched: list[str]
    missing: dict[str, ConfigurationError]
    records: int
    of_aggregate: bool = False
    skipped_correlations: int = 0


def trace_messages(
    connection: Connection,
    topics: Mapping[str, Topics],
    searched_id: str,
    since: int,
    progress: Callable[[str], None],
    codecs: Mapping[str, RecordCodec] | None = None,
) -> TraceResult:
    """Return all messages since `since` (ms) about the command or correlation `searched_id`, and all messages with
    the correlations of these messages.

    If no command and no correlation has this id, return the messages of the aggregates with this id, and of their
    correlations. `codecs`: by aggregate name; by default, events stay encrypted. Aggregates without topics are skipped;
    raises `ConfigurationError` if no aggregate has topics.
    """
    partition_counts, missing = _partition_counts(connection, topics)
    if not partition_counts and missing:
        raise next(iter(missing.values()))
    ranges = _log_ranges(connection, topics, partition_counts, since, codecs or {})
    ids, record_count, of_aggregate = {searched_id}, 0, False
    # (kind, aggregate, partition, offset) → message
    messages_by_position: dict[tuple[str, str, int, int], LinkedMessage] = {}
    for pass_number in range(MAX_PASSES):
        progress(f"reading {sum(end - start for *_, start, end in ranges):,} records")
        messages, count = _read(ranges, ids, searched_id if pass_number == 0 else None)
        record_count += count
        for message in messages:
            messages_by_position[
                message.kind, message.aggregate, message.partition, message.record.offset
            ] = message
        correlations = {
            message.correlation for message in messages_by_position.values() if message.concerns(ids)
        } - {""}
        if not correlations and pass_number == 0:
            of_aggregate, ids = True, set()
            correlations = {
                message.correlation
                for message in messages_by_position.values()
                if message.subject == searched_id
            } - {""}
            if len(correlations) > MAX_CORRELATIONS:
                aggregate_messages = [
                    message for message in messages_by_position.values() if message.subject == searched_id
                ]
                return TraceResult(
                    aggregate_messages, list(partition_counts), missing, record_count, True, len(correlations)
                )
        if correlations <= ids:
            break
        ids |= correlations
    positions = {message.caused_by for message in messages_by_position.values() if message.concerns(ids)}
    messages = [
        message
        for message in messages_by_position.values()
        if message.concerns(ids) or (message.is_anonymous and message.caused_by in positions)
    ]
    return TraceResult(messages, list(partition_counts), missing, record_count, of_aggregate)


def _partition_counts(
    connection: Connection, topics: Mapping[str, Topics]
) -> tuple[dict[str, int], dict[str, ConfigurationError]]:
    """Return the partition count of each aggregate, and the error of each aggregate without topics."""
    partition_counts: dict[str, int] = {}
    missing: dict[str, ConfigurationError] = {}
    for name, own_topics in topics.items():
        try:
            partition_counts[name] = readers.partition_count(connection, own_topics.commands)
        except ConfigurationError as error:
            missing[name] = error
    return partition_counts, missing


#: The logs of a partition, the topic, its first offset to read, and the offset at which to stop.
_LogRange = tuple[PartitionLog, Kind, int, int]


def _log_ranges(
    connection: Connection,
    topics: Mapping[str, Topics],
    partition_counts: Mapping[str, int],
    since: int,
    codecs: Mapping[str, RecordCodec],
) -> list[_LogRange]:
    """Return the offset range of each log from the time `since` (ms) on."""

    def topic_ranges(name: str, kind: Kind) -> list[_LogRange]:
        bounds = readers.bounds(connection, topics[name].name(kind), range(partition_counts[name]))
        ranges = []
        for partition, (low, end) in bounds.items():
            codec = codecs.get(name) or connection.payload_codec()
            log = PartitionLog(connection, topics[name], partition, codec)
            start = log.offset_at(kind, since) if low < end else None
            if start is not None and start < end:
                ranges.append((log, kind, max(start, low), end))
        return ranges

    with ThreadPoolExecutor(MAX_READERS) as pool:
        # The records of the deferred topic repeat commands.
        kinds = [kind for kind in KINDS if kind != "deferred"]
        names_and_kinds = [(name, kind) for name in partition_counts for kind in kinds]
        results = pool.map(lambda name_and_kind: topic_ranges(*name_and_kind), names_and_kinds)
        return [log_range for ranges in results for log_range in ranges]


def _read(
    ranges: Iterable[_LogRange],
    ids: Iterable[str],
    subject: str | None,
) -> tuple[list[LinkedMessage], int]:
    """Return the messages that may be about `ids` or the aggregate id `subject`, and the number of records read."""
    id_set = set(ids)
    read = message_reader(id_set)
    stop_event = Event()

    def read_range(log_range: _LogRange) -> tuple[list[LinkedMessage], int]:
        log, kind, start, end = log_range
        messages, count = [], 0
        for records in log.read(kind, start, end):
            if stop_event.is_set():
                break
            count += len(records)
            for record in records:
                message = read(kind, log.topics.aggregate, log.partition, record)
                if message is None:
                    continue
                if message.is_anonymous or message.concerns(id_set) or message.subject == subject:
                    decoded = log.codec.decode_if_available(log.topics.name(kind), log.partition, record)
                    if decoded is not record:
                        message = read(kind, log.topics.aggregate, log.partition, decoded) or message
                    messages.append(message)
        return messages, count

    with ThreadPoolExecutor(MAX_READERS) as pool:
        try:
            results = list(pool.map(read_range, ranges))
        finally:
            stop_event.set()  # an error or Ctrl-C stops the other threads, too
            pool.shutdown(cancel_futures=True)
    return [message for messages, _ in results for message in messages], sum(count for _, count in results)
