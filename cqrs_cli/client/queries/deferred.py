"""The deferred commands of an aggregate, read from its deferred topic."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from cqrs_cli.client.aggregate_logs import deferred_logs
from cqrs_cli.client.compose import SOURCE
from cqrs_cli.client.envelope import NO_ATTRIBUTION, Attributes, Attribution, ReadyCommand, create_command
from cqrs_cli.core.deferral.entry import Deferral, read_deferral
from cqrs_cli.core.messages.command import read_command
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.partitioner import Partitioner
from cqrs_cli.kafka.topics.topics import Topics


def deferred_commands(
    connection: Connection, topics: Topics, partitioner: Partitioner, is_selected: Callable[[Deferral], bool]
) -> list[Deferral]:
    """Return the deferred commands for which `is_selected` is True, sorted by due time. A command that has moved to
    another partition has entries in two partitions, but is returned once.
    """
    selected_deferrals: list[Deferral] = []
    for log, holds_key in deferred_logs(connection, topics, partitioner):
        selected_deferrals += [
            entry for entry in deferred_entries(log, is_selected) if holds_key(entry.subject.encode())
        ]
    return sorted(selected_deferrals, key=lambda entry: (entry.due, entry.subject, entry.id))


def deferred_entries(log: PartitionLog, is_selected: Callable[[Deferral], bool]) -> list[Deferral]:
    """Return the deferred commands of a partition for which `is_selected` is True."""
    latest_by_key: dict[bytes | None, Deferral] = {}  # record key → its newest entry, if that is selected
    for key, entry in _entry_changes(log):
        latest_by_key.pop(key, None)
        if entry is not None and is_selected(entry):
            latest_by_key[key] = entry
    return [*latest_by_key.values()]


def has_due(log: PartitionLog, moment: int) -> bool:
    """True if the partition has a deferred command that is due at or before `moment`, in ms since 1970."""
    due_keys: set[bytes | None] = set()
    for key, entry in _entry_changes(log):
        if entry is not None and entry.due <= moment:
            due_keys.add(key)
        else:
            due_keys.discard(key)
    return bool(due_keys)


def _entry_changes(log: PartitionLog) -> Iterator[tuple[bytes | None, Deferral | None]]:
    """Yield (record key, entry) for each record of the partition. The entry is None if the command is no longer
    deferred.
    """
    for records in log.read("deferred", *log.bounds("deferred")):
        for record in records:
            if record.value is None:
                yield record.key, None
                continue
            try:
                yield record.key, read_deferral(record.key, record.value)
            except ValueError as error:
                raise log.fault("deferred", record.offset, f"not a deferred command: {error}") from error


def command_type(entry: Deferral) -> str:
    """Return the wire type of a deferred command."""
    return read_command(Record(entry.offset, entry.timestamp, b"", entry.command, [*HEADERS])).type


def deferral_document(entry: Deferral, command: bytes) -> dict[str, Any]:
    """Return a deferred command as JSON. `command`: the command as JSON, whose personal fields may be redacted."""
    state = "parked" if entry.resubmitted_offset is None else "released"
    return {
        "id": entry.id,
        "aggregate_id": entry.subject,
        "due": rfc3339(entry.due),
        "reason": entry.reason,
        "attempt": entry.attempt,
        "state": "cancelled" if entry.cancelled else state,
        "offset": entry.offset,
        "said": entry.resubmitted_offset,
        "cancelled": entry.cancelled,
        "command": msgspec.Raw(command),
    }


def request_commands(
    aggregate: str, entries: list[Deferral], request: str, attribution: Attribution = NO_ATTRIBUTION
) -> Iterator[ReadyCommand]:
    """Yield a command for each deferred command in `entries` that cancels or releases it. `request`: `cqrs.Cancel` or
    `cqrs.Release`.
    """
    attributes = Attributes(attribution=attribution)
    for entry in entries:
        data = msgspec.json.encode({"id": entry.id})
        yield create_command(aggregate, entry.subject, request, data, SOURCE, attributes)
