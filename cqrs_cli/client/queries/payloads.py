"""The payloads to which the records of an aggregate refer, for `cqrs payloads gc`."""

import re
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from cqrs_cli.core.messages.payload_reference import REFERENCE_MARKER
from cqrs_cli.core.messages.record import UNREADABLE_HEADERS, Record
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Kind, Topics

#: The topics whose records refer to payloads. Outcomes do not.
_REFERRING: tuple[Kind, ...] = ("commands", "events", "dead-letters", "deferred")

#: Partitions that are read concurrently.
_AT_ONCE = 8

_SUM = re.compile(rb"[0-9a-f]{64}")


def named_payloads(connection: Connection, topics: Topics, questioned: Collection[str]) -> set[str]:
    """Return the sums in `questioned` to which a record refers. Raises `CqrsError` for a missing or unreadable topic.

    Reads uncommitted records on purpose, so records of open and aborted transactions count as references: the caller
    deletes the other payloads, and must never delete a payload that may be referenced.
    """
    if not questioned:
        return set()
    places = [
        (topics.name(kind), partition)
        for kind in _REFERRING
        for partition in range(readers.partition_count(connection, topics.name(kind)))
    ]
    wanted = frozenset(questioned)

    def read(place: tuple[str, int]) -> set[str]:
        topic, partition = place
        start, end = readers.bounds(connection, topic, [partition], "read_uncommitted")[partition]
        found: set[str] = set()
        for records in readers.read(connection, topic, partition, start, end, "read_uncommitted"):
            for record in records:
                found.update(sums_in(record) & wanted)
        return found

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return set().union(*pool.map(read, places))


def sums_in(record: Record) -> set[str]:
    """Return all texts in a record that have the form of a SHA-256 sum."""
    headers = [] if record.headers is UNREADABLE_HEADERS else record.headers or []
    texts = [text for _, text in headers if text is not None]
    value = record.value or b""
    found = {sum.decode() for text in (value, *texts) for sum in _SUM.findall(text)}
    if b"\\" in value and REFERENCE_MARKER in value:  # a sum may be written with escapes
        try:
            found.update(_texts(msgspec.json.decode(value)))
        except (ValueError, RecursionError):  # no owner can read it either
            pass
    return found


def _texts(value: Any) -> Iterator[str]:
    """Yield the strings in a JSON document, at any depth."""
    match value:
        case str():
            yield value
        case dict():
            for member in value.values():
                yield from _texts(member)
        case list():
            for member in value:
                yield from _texts(member)
