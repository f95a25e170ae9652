"""The commands of an aggregate that wait, as its deferred topic has them."""

from collections.abc import Callable, Iterator

import msgspec

from cqrs_cli.client.compose import SOURCE
from cqrs_cli.client.envelope import Composed, write_command
from cqrs_cli.core.deferral.entry import Deferral, read_deferral
from cqrs_cli.core.messages.command import read_command
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.record import Record
from cqrs_cli.errors import ContradictionError
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.topics import Topics


def waiting(connection: Connection, topics: Topics, keep: Callable[[Deferral], bool]) -> list[Deferral]:
    """The deferred commands that `keep` keeps, by due time."""
    found: list[Deferral] = []
    for partition in range(readers.partitions(connection, topics.deferred)):
        log = PartitionLog(connection, topics, partition)
        found += deferred_entries(log, keep)
    return sorted(found, key=lambda one: (one.due, one.subject, one.id))


def deferred_entries(log: PartitionLog, keep: Callable[[Deferral], bool]) -> list[Deferral]:
    """The deferred commands of a partition that `keep` keeps."""
    latest: dict[bytes | None, Deferral] = {}
    for records in log.read("deferred", *log.bounds("deferred")):
        for record in records:
            latest.pop(record.key, None)
            if record.value is None:
                continue
            try:
                entry = read_deferral(record.key, record.value)
            except ValueError as error:
                raise ContradictionError(
                    f"{log.place('deferred')} offset {record.offset} is not a deferred command: {error}",
                    "only cqrs may write there",
                ) from error
            if keep(entry):
                latest[record.key] = entry
    return [*latest.values()]


def command_type(entry: Deferral) -> str:
    """The wire type of a deferred command."""
    return read_command(Record(entry.offset, entry.timestamp, b"", entry.command, [*HEADERS])).type


def requests(aggregate: str, entries: list[Deferral], request: str) -> Iterator[Composed]:
    """The commands that cancel or release these: `request` is `cqrs.Cancel` or `cqrs.Release`."""
    for entry in entries:
        data = msgspec.json.encode({"id": entry.id})
        yield write_command(aggregate, entry.subject, request, data, source=SOURCE)
