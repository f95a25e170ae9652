"""A scan of the topics of several aggregates since a given time, for `cqrs trace` and the console's search."""

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import NamedTuple, TypeVar

from cqrs_cli.codec.record_codec import RecordCodec
from cqrs_cli.core.messages.record import Record
from cqrs_cli.errors import ConfigurationError
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.topics import KINDS, Kind, Topics

#: The maximum number of partitions that are read concurrently.
MAX_READERS = 8

_Selected = TypeVar("_Selected")


class LogRange(NamedTuple):
    """The records to read in one partition of a topic of the kind `kind`: start ≤ offset < end."""

    log: PartitionLog
    kind: Kind
    start: int
    end: int


def partition_counts(
    connection: Connection, topics: Mapping[str, Topics]
) -> tuple[dict[str, int], dict[str, ConfigurationError]]:
    """Return aggregate → partition count, and, for the aggregates without topics, aggregate → error.

    Raises `ConfigurationError` if no aggregate has topics.
    """
    counts: dict[str, int] = {}
    missing_topic_errors: dict[str, ConfigurationError] = {}
    for name, own_topics in topics.items():
        try:
            counts[name] = readers.partition_count(connection, own_topics.commands)
        except ConfigurationError as error:
            missing_topic_errors[name] = error
    if missing_topic_errors and not counts:
        raise next(iter(missing_topic_errors.values()))
    return counts, missing_topic_errors


def log_ranges(
    connection: Connection,
    topics: Mapping[str, Topics],
    counts: Mapping[str, int],
    since: int,
    codecs: Mapping[str, RecordCodec],
    until: int | None = None,
) -> list[LogRange]:
    """Return the range of each log from the time `since` (ms) to the time `until` (ms), by default to the log's end.

    `topics`, `counts` and `codecs`: by aggregate name. Without a codec, personal fields stay encrypted.
    """

    def topic_ranges(name: str, kind: Kind) -> list[LogRange]:
        bounds = readers.bounds(connection, topics[name].name(kind), range(counts[name]))
        ranges = []
        for partition, (log_start, log_end) in bounds.items():
            codec = codecs.get(name) or connection.payload_codec()
            log = PartitionLog(connection, topics[name], partition, codec)
            start = log.offset_at(kind, since) if log_start < log_end else None
            until_offset = log.offset_at(kind, until) if start is not None and until is not None else None
            end = log_end if until_offset is None else min(until_offset, log_end)
            if start is not None and start < end:
                ranges.append(LogRange(log, kind, max(start, log_start), end))
        return ranges

    with ThreadPoolExecutor(MAX_READERS) as pool:
        # The records of the deferred topic repeat commands.
        kinds = [kind for kind in KINDS if kind != "deferred"]
        names_and_kinds = [(name, kind) for name in counts for kind in kinds]
        results = pool.map(lambda name_and_kind: topic_ranges(*name_and_kind), names_and_kinds)
        return [log_range for ranges in results for log_range in ranges]


def scan(
    ranges: Iterable[LogRange], select: Callable[[PartitionLog, Kind, list[Record]], list[_Selected]]
) -> tuple[list[_Selected], int]:
    """Read these ranges, and call `select` for each batch of records. Return all items that `select` returned, and the
    number of records read.

    `select` is called in several threads; an error in it ends the scan.
    """
    stop_event = Event()

    def read_range(log_range: LogRange) -> tuple[list[_Selected], int]:
        selected, count = [], 0
        for records in log_range.log.read(log_range.kind, log_range.start, log_range.end):
            if stop_event.is_set():
                break
            count += len(records)
            selected += select(log_range.log, log_range.kind, records)
        return selected, count

    with ThreadPoolExecutor(MAX_READERS) as pool:
        try:
            results = list(pool.map(read_range, ranges))
        finally:
            stop_event.set()  # an error or Ctrl-C stops the other threads, too
            pool.shutdown(cancel_futures=True)
    return [item for selected, _ in results for item in selected], sum(count for _, count in results)
