"""The ids and versions of all aggregates of a type, for `cqrs show` without an id."""

from itertools import chain

import msgspec
from msgspec import Struct

from cqrs_cli.kafka import readers
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.fault import record_fault
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.ownership.complete_events import complete_bounds


class _EventHead(Struct, gc=False):
    aggregateversion: int


_read_head = msgspec.json.Decoder(_EventHead).decode


def read_versions(connection: Connection, topics: Topics) -> dict[str, int]:
    """Return aggregate id → version from all committed events, sorted by id.

    Raises `ContradictionError` with the position of an invalid event, or if events were deleted.
    """
    versions: dict[str, int] = {}
    partitions = range(readers.partition_count(connection, topics.events))
    for partition, (start, end) in complete_bounds(connection, topics, partitions).items():
        for record in chain.from_iterable(readers.read(connection, topics.events, partition, start, end)):
            try:
                version = _read_head(record.value or b"").aggregateversion
            except ValueError as error:
                raise record_fault(
                    topics.aggregate, "events", topics.events, partition, record.offset, error
                ) from error
            aggregate_id = (record.key or b"").decode(errors="replace")
            versions[aggregate_id] = max(version, versions.get(aggregate_id, 0))
    return dict(sorted(versions.items()))
