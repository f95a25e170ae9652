"""Finds the payloads to which the records of an aggregate refer, for `cqrs payloads gc`."""

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

#: The kinds of topics whose records may refer to payloads. Outcomes do not.
_REFERRING_KINDS: tuple[Kind, ...] = ("commands", "events", "dead-letters", "deferred")

#: The maximum number of partitions that are read concurrently.
_MAX_READERS = 8

#: A SHA-256 digest in hexadecimal.
_DIGEST = re.compile(rb"[0-9a-f]{64}")


def referenced_payloads(connection: Connection, topics: Topics, candidates: Collection[str]) -> set[str]:
    """Return the digests in `candidates` to which a record refers. Raises `CqrsError` if a topic cannot be read.

    Uncommitted records are read on purpose, so records of open and aborted transactions count as references: the caller
    deletes the other payloads, and must never delete a payload that may be referenced.
    """
    if not candidates:
        return set()
    partitions = [
        (topics.name(kind), partition)
        for kind in _REFERRING_KINDS
        for partition in range(readers.partition_count(connection, topics.name(kind)))
    ]
    candidate_set = frozenset(candidates)

    def read_partition(topic_partition: tuple[str, int]) -> set[str]:
        topic, partition = topic_partition
        start, end = readers.bounds(connection, topic, [partition], "read_uncommitted")[partition]
        digests: set[str] = set()
        for records in readers.read(connection, topic, partition, start, end, "read_uncommitted"):
            for record in records:
                digests.update(digests_in(record) & candidate_set)
        return digests

    with ThreadPoolExecutor(_MAX_READERS) as pool:
        return set().union(*pool.map(read_partition, partitions))


def digests_in(record: Record) -> set[str]:
    """Return all texts in a record that have the form of a SHA-256 digest: 64 hexadecimal digits."""
    headers = [] if record.headers is UNREADABLE_HEADERS else record.headers or []
    header_values = [header_value for _, header_value in headers if header_value is not None]
    value = record.value or b""
    digests = {digest.decode() for data in (value, *header_values) for digest in _DIGEST.findall(data)}
    if b"\\" in value and REFERENCE_MARKER in value:  # a digest may be written with escapes
        try:
            digests.update(_texts(msgspec.json.decode(value)))
        except (ValueError, RecursionError):  # no owner can read it either
            pass
    return digests


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
