"""The partition history of an aggregate: a topic of one partition that keeps all records and is read as a whole."""

from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from cqrs_cli.core.messages.record import Record
from cqrs_cli.errors import ContradictionError, UnavailableError
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.clients import REQUEST_TIMEOUT, producer
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.consumer_pool import ConsumerPool, pooled_consumer
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.keyspace.lineage import LineageError, PartitionLineage, fold_lineage
from cqrs_cli.keyspace.records import Grow, LineageRecord, read_lineage_record


class SeenLineage(NamedTuple):
    """A partition history, and the `end` of its log when it was read. The history is current until the end changes."""

    lineage: PartitionLineage
    end: int


class HiddenLineageError(readers.StalledError):
    """An open transaction hides a record of the partition history. This is temporary: if an owner died while it split
    its partition, its successor fences it, or the broker aborts the transaction after a timeout.
    """

    is_temporary = True


#: Timeout in seconds for a hidden record, for one-shot CLI commands. A killed owner may hide a record for 20 s.
HIDDEN_RECORD_TIMEOUT = 40.0


def read_lineage(
    connection: Cluster,
    topics: Topics,
    count: int,
    timeout: float = REQUEST_TIMEOUT,
    bounds: tuple[int, int] | None = None,
    pool: ConsumerPool | None = None,
) -> PartitionLineage:
    """Return the partition history up to its high watermark. `count`: the partition count before the first
    repartitioning request. `timeout`: seconds to wait for a hidden record. `bounds`: the start of the log and the
    offset to read up to; None: ask the broker.

    Raises `ContradictionError` for an inconsistent record, `HiddenLineageError` if a record stays hidden.
    """
    if bounds is None:
        bounds = readers.bounds(connection, topics.lineage, [0], "read_uncommitted", pool)[0]
    return _read(connection, topics, count, bounds, timeout, pool)


def visible_lineage(connection: Cluster, topics: Topics, count: int) -> PartitionLineage:
    """Return the partition history up to the last stable offset."""
    return visible_lineage_with_end(connection, topics, count).lineage


def visible_lineage_with_end(connection: Cluster, topics: Topics, count: int) -> SeenLineage:
    """Return the partition history up to the last stable offset, and that offset."""
    bounds = readers.bounds(connection, topics.lineage, [0])[0]
    return SeenLineage(_read(connection, topics, count, bounds, REQUEST_TIMEOUT), bounds[1])


def _read(
    connection: Cluster,
    topics: Topics,
    count: int,
    bounds: tuple[int, int],
    timeout: float,
    pool: ConsumerPool | None = None,
) -> PartitionLineage:
    """Read and fold the records within `bounds`, (start, end)."""
    start, end = bounds
    if start > 0:
        raise ContradictionError(
            f"{topics.lineage} begins at offset {start}: its records of earlier repartitionings were deleted",
            "restore the topic, and set its retention.ms and retention.bytes to -1",
        )
    records: list[LineageRecord] = []
    lineage = fold_lineage((), count)
    for record in _log_records(connection, topics, start, end, timeout, pool):
        try:
            records.append(read_lineage_record(record.value))
            lineage = fold_lineage(records, count)
        except (LineageError, ValueError) as error:
            raise ContradictionError(
                f"{topics.lineage} offset {record.offset}: {error}", "only cqrs may write there"
            ) from error
    return lineage


def _log_records(
    connection: Cluster, topics: Topics, start: int, end: int, timeout: float, pool: ConsumerPool | None
) -> Iterator[Record]:
    with pooled_consumer(connection, pool) as reader:
        batches = readers.read_with(connection, reader, topics.lineage, 0, start, end, timeout=timeout)
        try:
            yield from chain.from_iterable(batches if start < end else ())
        except readers.StalledError as error:
            raise HiddenLineageError(error.message, "a partition is splitting: try again") from error


def request_repartitioning(connection: Cluster, topics: Topics, request: Grow) -> PartitionLineage:
    """Append a repartitioning request, and read the partition history back: another operator's earlier request wins.

    Raises `UnavailableError` if the write fails. The request may still have been written; it is safe to try again.
    """
    client = producer(connection)
    failures: list[object] = []
    client.produce(
        topics.lineage,
        request.encode(),
        None,
        0,
        lambda error, _: failures.append(error) if error else None,
    )
    if client.flush(REQUEST_TIMEOUT) or failures:
        raise UnavailableError(
            f"{topics.lineage} could not be written: {failures[0] if failures else 'no answer'}",
            "try again: the same command completes the repartitioning",
        )
    return read_lineage(connection, topics, request.before, HIDDEN_RECORD_TIMEOUT)
